"""The inbox: messages that a broker delivers twice take effect once.

``app.inbox("orders")`` makes one. The consume loops are modules beside this one, each with a
library of its own that is imported when the loop is: :mod:`onejob.inbox.rabbitmq`,
:mod:`onejob.inbox.redis_streams`, :mod:`onejob.inbox.nats`.
"""

from onejob.inbox.consumer import Consumer
from onejob.inbox.messages import Inbox, MessageInfo
from onejob.inbox.receiving import AsyncReceived, Received

__all__ = ["AsyncReceived", "Consumer", "Inbox", "MessageInfo", "Received"]
