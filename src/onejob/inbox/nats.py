"""Consume a NATS JetStream durable consumer by pulling: acknowledged only after the commit.

Nothing is fetched that cannot begin at once. What fails is given back (``nak``) with a pause; what
is dead is published to the dead-letter subject, and only then taken off.
"""

from __future__ import annotations

import asyncio
from typing import Any

from onejob.core.names import check_name
from onejob.core.time import SECOND, Span
from onejob.errors import UsageError
from onejob.inbox.consumer import Consumer
from onejob.inbox.crew import Crew, until
from onejob.inbox.telling import tell
from onejob.runtime.events import log

#: How long one look for messages waits at the server.
_LOOK_SECONDS = 0.5
_PAUSE_AFTER_TROUBLE = 1.0


async def consume(
    consumer: Consumer,
    stream: str,
    *,
    durable: str,
    dead_letter: str,
    url: str = "nats://localhost:4222",
    stop: asyncio.Event | None = None,
) -> None:
    """Consume until cancelled, or until ``stop`` is set; what is at work then ends first.

    ``durable`` is a pull consumer that is there already. UsageError where its ``ack_wait`` is
    shorter than handling may take, where it gives up before ``max_deliveries`` (``max_deliver``;
    what it gives up is lost to us), where it does not want each message acknowledged, and where no
    stream takes what is published to ``dead_letter``. A message's id is its ``Nats-Msg-Id``, else
    its place in the stream, unless the inbox has a key.
    """
    for what, given in (("stream", stream), ("durable", durable), ("dead_letter", dead_letter)):
        check_name(given, what=what)
    import nats

    client = await nats.connect(url)
    try:
        jetstream: Any = client.jetstream()
        await _check(consumer, jetstream, stream, durable, dead_letter)
        pull = await jetstream.pull_subscribe_bind(durable, stream=stream)
        loop = _Loop(consumer, jetstream, pull, dead_letter)
        try:
            await until(stop, loop.run())
        finally:
            await loop.crew.drain(consumer.grace / SECOND)
            await consumer.close()
            await client.flush()
    finally:
        await client.close()


async def _check(
    consumer: Consumer, jetstream: Any, stream: str, durable: str, dead_letter: str
) -> None:
    from nats.js.errors import NotFoundError

    try:
        config = (await jetstream.consumer_info(stream, durable)).config
    except NotFoundError:
        raise UsageError(
            f"stream {stream!r} has no consumer {durable!r}. Make it first: nats consumer add"
        ) from None
    if config.deliver_subject:
        raise UsageError(f"consumer {durable!r} is pushed to. Make a pull consumer.")
    if str(getattr(config.ack_policy, "value", config.ack_policy)) != "explicit":
        raise UsageError(
            f"consumer {durable!r} acknowledges {config.ack_policy}, so messages nobody handled "
            "would count as handled. Make one with ack_policy explicit."
        )
    most = config.max_deliver or -1
    if 0 < most <= consumer.max_deliveries:
        raise UsageError(
            f"consumer {durable!r} gives a message up after {most} deliveries (max_deliver), and "
            f"nothing is told of it. Set it to -1, or above max_deliveries "
            f"({consumer.max_deliveries})."
        )
    # In seconds, as the library gives it.
    wait = Span(int((config.ack_wait or 30) * SECOND))
    consumer.check_limit(
        wait,
        prefetch=1,
        name=f"ack_wait of consumer {durable!r}",
        advice="Raise it at the consumer, or lower timeout=.",
    )
    try:
        await jetstream.find_stream_name_by_subject(dead_letter)
    except NotFoundError:
        raise UsageError(
            f"no stream takes what is published to {dead_letter!r}: dead messages would be lost. "
            "Make one for that subject."
        ) from None


class _Loop:
    def __init__(self, consumer: Consumer, jetstream: Any, pull: Any, dead: str) -> None:
        self.crew = Crew(consumer.concurrency)
        self._consumer, self._jetstream, self._pull, self._dead = consumer, jetstream, pull, dead

    async def run(self) -> None:
        """Fetch what there is room for."""
        import nats.errors

        while True:
            room = await self.crew.room()
            try:
                messages = await self._pull.fetch(room, timeout=_LOOK_SECONDS)
            except (TimeoutError, nats.errors.TimeoutError):
                continue
            except nats.errors.Error as error:
                log.warning("onejob: NATS gave no messages: %s", error)
                await asyncio.sleep(_PAUSE_AFTER_TROUBLE)
                continue
            for message in messages:
                self.crew.begin(self._deliver(message))

    async def _deliver(self, message: Any) -> None:
        verdict = await self._consumer.deliver(
            message, envelope_id=_id_of, redelivered=message.metadata.num_delivered > 1
        )
        await tell(
            "NATS",
            verdict,
            done=message.ack,
            again=lambda pause: message.nak(delay=pause / SECOND),
            dead=lambda why: self._bury(message, why),
        )

    async def _bury(self, message: Any, why: str) -> None:
        """Taken off only once a stream has said that it has it."""
        headers = {name: text for name, text in (message.headers or {}).items() if name != _ID}
        headers["Onejob-Reason"] = " ".join(why.split())
        headers["Onejob-Subject"] = message.subject
        await self._jetstream.publish(self._dead, message.data, headers=headers)
        await message.ack()


#: The sender's own name for a message; JetStream drops a second one with it, within its window.
_ID = "Nats-Msg-Id"


def _id_of(message: Any) -> str:
    given = (message.headers or {}).get(_ID)
    return given or f"{message.metadata.stream}:{message.metadata.sequence.stream}"
