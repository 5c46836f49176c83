"""Consume a RabbitMQ queue through pika, without an event loop: the sync twin of ``rabbitmq``.

The calling thread owns the connection and does nothing else, so heartbeats are answered however
long a handler works; handlers have threads, whose verdicts that thread tells the server. A
connection that is lost is made again, and what was at work then comes again, and is known.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from onejob.core.redelivery import Again, Dead, Handled, Verdict
from onejob.core.time import SECOND, Duration, Span
from onejob.inbox.amqp import CONSUMER_TIMEOUT, check_bounds, dead_headers, waited_too_long
from onejob.inbox.consumer import Consumer
from onejob.inbox.telling import untold
from onejob.runtime.events import log

if TYPE_CHECKING:
    from pika import BasicProperties
    from pika.adapters.blocking_connection import BlockingChannel
    from pika.spec import Basic

#: How long one look for frames waits, and so how late ``stop`` may be seen.
_LOOK_SECONDS: Final = 0.2
_PAUSE_AFTER_TROUBLE: Final = 1.0
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class Message:
    """A delivery, as pika gives it."""

    body: bytes
    properties: BasicProperties
    method: Basic.Deliver


def consume(
    consumer: Consumer,
    queue: str,
    *,
    url: str = "amqp://guest:guest@localhost/",
    prefetch: int | None = None,
    dead_letter: str | None = None,
    consumer_timeout: Duration = CONSUMER_TIMEOUT,
    stop: threading.Event | None = None,
) -> None:
    """Consume until ``stop`` is set; what is at work then ends first, within ``grace``.

    Handlers are sync, and get a :class:`Message`. The queue must be there; the dead-letter queue
    (``QUEUE.dead``) is made, durable. A message's id is its ``message_id``, unless the inbox has a
    key. UsageError, before anything is opened, where handling may take longer than
    ``consumer_timeout``, the server's own.
    """
    fetched, limit = check_bounds(consumer, prefetch, consumer_timeout)
    consumer.check_sync(instead="onejob.inbox.rabbitmq.")
    import pika
    from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker

    parameters = pika.URLParameters(url)
    dead = f"{queue}.dead" if dead_letter is None else dead_letter
    stop = stop or threading.Event()
    threads = ThreadPoolExecutor(consumer.concurrency, thread_name_prefix="onejob-inbox")
    begun = False
    try:
        while not stop.is_set():
            try:
                with pika.BlockingConnection(parameters) as connection:
                    loop = _Loop(consumer, connection, threads, queue, dead, limit)
                    loop.begin(fetched)
                    begun = True
                    loop.run(stop)
            except (AMQPConnectionError, ChannelClosedByBroker) as error:
                if not begun or getattr(error, "reply_code", None) == _NOT_FOUND:
                    raise
                log.warning("onejob: lost RabbitMQ's queue %s: %r", queue, error)
                stop.wait(_PAUSE_AFTER_TROUBLE)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


class _Loop:
    """One connection, from its beginning to its end. All but :meth:`_handle` is its thread's."""

    def __init__(
        self,
        consumer: Consumer,
        connection: Any,
        threads: ThreadPoolExecutor,
        queue: str,
        dead: str,
        limit: Span,
    ) -> None:
        self._consumer, self._connection, self._threads = consumer, connection, threads
        self._queue, self._dead, self._limit = queue, dead, limit
        self._channel: BlockingChannel = connection.channel()
        self._at_work: dict[int, Future[None]] = {}
        self._tag = ""
        self._cancelled = False

    def begin(self, prefetch: int) -> None:
        """Ask for messages; the server sends no more than is prefetched."""
        self._channel.add_on_cancel_callback(self._was_cancelled)
        self._channel.confirm_delivery()
        self._channel.basic_qos(prefetch_count=prefetch)
        self._channel.queue_declare(self._queue, passive=True)
        self._channel.queue_declare(self._dead, durable=True)
        self._tag = self._channel.basic_consume(self._queue, self._arrived)

    def run(self, stop: threading.Event) -> None:
        """Read and answer the server's frames until ``stop``, then until what is at work has ended.

        What has not ended by then goes back to the queue with the connection. Returns early where
        the server has ended the consumer: its queue was deleted, or its channel closed.
        """
        try:
            self._look(lambda: stop.is_set() or self._ended_by_the_server())
            if not self._ended_by_the_server():
                self._channel.basic_cancel(self._tag)
                self._drop_what_waits()
                give_up_at = time.monotonic() + self._consumer.grace / SECOND
                self._look(lambda: not self._at_work or time.monotonic() > give_up_at)
                return
        finally:
            self._drop_what_waits()
        log.warning("onejob: the server ended the consumer of RabbitMQ's queue %s", self._queue)
        stop.wait(_PAUSE_AFTER_TROUBLE)

    def _drop_what_waits(self) -> None:
        """Begin nothing any more: what has not begun goes back to the queue."""
        for tag in [tag for tag, future in self._at_work.items() if future.cancel()]:
            del self._at_work[tag]

    def _look(self, ended: Callable[[], bool]) -> None:
        while not ended():
            self._connection.process_data_events(time_limit=_LOOK_SECONDS)

    def _was_cancelled(self, frame: object) -> None:
        self._cancelled = True

    def _ended_by_the_server(self) -> bool:
        return self._cancelled or self._channel.is_closed

    def _arrived(
        self,
        channel: BlockingChannel,
        method: Basic.Deliver,
        properties: BasicProperties,
        body: bytes,
    ) -> None:
        message = Message(body, properties, method)
        future = self._threads.submit(self._handle, message, time.monotonic())
        self._at_work[_tag(message)] = future

    def _handle(self, message: Message, at: float) -> None:
        """Handle it, in a thread of its own, and leave the verdict to the connection's."""
        verdict: Verdict
        if waited_too_long(time.monotonic() - at, self._consumer, self._limit):
            verdict = Again("it has waited for too long")
        else:
            verdict = self._consumer.deliver_here(
                message,
                envelope_id=lambda given: given.properties.message_id,
                redelivered=bool(message.method.redelivered),
            )
        try:
            self._connection.add_callback_threadsafe(partial(self._tell, message, verdict))
        except Exception as error:  # noqa: BLE001 - the connection has gone: it comes again
            untold("RabbitMQ", error)

    def _tell(self, message: Message, verdict: Verdict) -> None:
        tag = _tag(message)
        self._at_work.pop(tag, None)
        match verdict:
            case Handled():
                self._say(self._channel.basic_ack, tag)
            case Again(_, pause):
                self._connection.call_later(
                    pause / SECOND, partial(self._say, self._channel.basic_nack, tag)
                )
            case Dead(why):
                self._say(partial(self._bury, message, why), tag)

    def _bury(self, message: Message, why: str, tag: int) -> None:
        """Off this queue only once the other one has confirmed that it has it."""
        from pika import BasicProperties
        from pika.exceptions import NackError, UnroutableError

        properties = BasicProperties(
            headers=dead_headers(message.properties.headers, why, message.method.routing_key),
            message_id=message.properties.message_id,
            content_type=message.properties.content_type,
            delivery_mode=2,
        )
        try:
            self._channel.basic_publish("", self._dead, message.body, properties, mandatory=True)
        except (NackError, UnroutableError) as error:
            log.error("onejob: %s took no dead message (%r): it is given back", self._dead, error)
            self._channel.basic_nack(tag)
            return
        self._channel.basic_ack(tag)

    def _say(self, saying: Callable[[Any], Any], tag: int) -> None:
        try:
            saying(tag)
        except Exception as error:  # noqa: BLE001 - the inbox knows what the broker was not told
            untold("RabbitMQ", error)


def _tag(message: Message) -> int:
    tag: int | None = message.method.delivery_tag
    assert tag is not None, "every delivery has one"
    return tag
