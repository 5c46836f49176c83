"""Consume a RabbitMQ queue through aio-pika: acknowledged only after the commit.

A message that was handled and whose acknowledgement was lost comes again, and is known. One that
fails is given back (``nack``) after a pause; after ``max_deliveries``, counted on our id of it, it
goes to the dead-letter queue with the reason in its headers, and only then off this one.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from onejob.core.redelivery import Again, Dead, Handled
from onejob.core.time import SECOND, Duration, Span
from onejob.inbox.amqp import (
    CONSUMER_TIMEOUT,
    PREFETCH_MOST,
    check_bounds,
    dead_headers,
    waited_too_long,
)
from onejob.inbox.consumer import Consumer
from onejob.inbox.crew import Crew, until
from onejob.inbox.telling import untold
from onejob.runtime.events import log

if TYPE_CHECKING:
    from aio_pika.abc import AbstractIncomingMessage


async def consume(
    consumer: Consumer,
    queue: str,
    *,
    url: str = "amqp://guest:guest@localhost/",
    prefetch: int | None = None,
    dead_letter: str | None = None,
    consumer_timeout: Duration = CONSUMER_TIMEOUT,
    stop: asyncio.Event | None = None,
) -> None:
    """Consume until cancelled, or until ``stop`` is set; what is at work then ends first.

    The queue must be there; the dead-letter queue (``QUEUE.dead``) is made, durable. A message's id
    is its ``message_id``, unless the inbox has a key. ``prefetch`` is the consumer's concurrency
    where it is not given. ``consumer_timeout`` is the server's own (the protocol can't tell it):
    UsageError, before anything is opened, where handling may take longer.
    """
    fetched, limit = check_bounds(consumer, prefetch, consumer_timeout)
    import aio_pika

    dead = f"{queue}.dead" if dead_letter is None else dead_letter
    connection = await aio_pika.connect_robust(url)
    async with connection:
        channel = await connection.channel(publisher_confirms=True)
        await channel.set_qos(prefetch_count=fetched)
        source = await channel.get_queue(queue)
        await channel.declare_queue(dead, durable=True)
        loop = _Loop(consumer, channel, dead, limit)
        tag = await source.consume(loop.arrived)
        try:
            await until(stop, _for_ever())
        finally:
            await source.cancel(tag)
            await loop.crew.drain(consumer.grace / SECOND)
            await consumer.close()


class _Loop:
    def __init__(self, consumer: Consumer, channel: Any, dead: str, limit: Span) -> None:
        self.crew = Crew(PREFETCH_MOST)
        self._consumer, self._channel, self._dead = consumer, channel, dead
        self._room = asyncio.Semaphore(consumer.concurrency)
        self._limit = limit

    async def arrived(self, message: AbstractIncomingMessage) -> None:
        """Begin a delivery; the server sends no more than was prefetched."""
        self.crew.begin(self._deliver(message, time.monotonic()))

    async def _deliver(self, message: AbstractIncomingMessage, at: float) -> None:
        async with self._room:
            if waited_too_long(time.monotonic() - at, self._consumer, self._limit):
                await _told(message.nack(requeue=True))
                return
            verdict = await self._consumer.deliver(
                message,
                envelope_id=lambda given: given.message_id,
                redelivered=bool(message.redelivered),
            )
            match verdict:
                case Handled():
                    await _told(message.ack())
                case Again(_, pause):
                    await asyncio.sleep(pause / SECOND)
                    await _told(message.nack(requeue=True))
                case Dead(why):
                    await self._bury(message, why)

    async def _bury(self, message: AbstractIncomingMessage, why: str) -> None:
        """Off this queue only once the other one has confirmed that it has it."""
        import aio_pika

        copy = aio_pika.Message(
            message.body,
            headers=dead_headers(message.headers, why, message.routing_key),
            message_id=message.message_id,
            content_type=message.content_type,
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        try:
            await self._channel.default_exchange.publish(copy, routing_key=self._dead)
        except Exception as error:  # noqa: BLE001 - whatever it is, the message must not be lost
            log.error("onejob: %s took no dead message (%s): it is given back", self._dead, error)
            await _told(message.nack(requeue=True))
            return
        await _told(message.ack())


async def _told(telling: Any) -> None:
    """Tell the server; where the channel has gone, it delivers the message again by itself."""
    try:
        await telling
    except Exception as error:  # noqa: BLE001 - the inbox knows what the broker was not told
        untold("RabbitMQ", error)


async def _for_ever() -> None:
    await asyncio.Event().wait()
