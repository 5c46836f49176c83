"""The inbox: messages that a broker delivers twice take effect once.

``app.inbox("orders")`` makes one. The consume loops are modules beside this one, each with a
library of its own that is imported when the loop is: :mod:`onejob.inbox.rabbitmq`, its sync twin
:mod:`onejob.inbox.pika`, :mod:`onejob.inbox.redis_streams`, :mod:`onejob.inbox.nats`,
:mod:`onejob.inbox.sqs`, :mod:`onejob.inbox.kafka`.
"""

from onejob.inbox.consumer import Consumer
from onejob.inbox.messages import Inbox, MessageInfo
from onejob.inbox.receiving import AsyncReceived, Received

__all__ = ["AsyncReceived", "Consumer", "Inbox", "MessageInfo", "Received"]
