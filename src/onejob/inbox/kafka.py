"""Consume a Kafka topic through aiokafka: an offset is committed only after our own commit.

1. Each partition that is ours has a task of its own, which handles its messages one at a time and
   in their order. One that fails is tried again in its place, after a pause; one that is dead is
   sent to the dead-letter topic, and only then passed over.
2. How far each has come is committed in one request for all of them, which is under way while
   handlers work. What it has not said yet is handed out again after a death, and is known.
3. When a partition is taken from us, what is at work in it ends first, and is committed; whoever
   gets the partition begins after that. What takes too long for it is never committed.

Kafka does not say that it has handed out a message before. One that ends its consumer is among the
first that a partition gives to the next, so these are counted before they begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from onejob.core.names import check_name
from onejob.core.redelivery import PAUSE_MOST, Again, Dead, Handled
from onejob.core.time import SECOND, Duration, Span, duration
from onejob.errors import UsageError
from onejob.inbox.consumer import Consumer
from onejob.inbox.crew import Crew, until
from onejob.inbox.telling import untold
from onejob.runtime.events import log

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

#: How many messages of a partition are taken from what was fetched at once.
_BATCH_MOST: Final = 100
_LOOK_MILLISECONDS: Final = 1_000
_PAUSE_AFTER_TROUBLE: Final = 1.0
#: How many known messages may come before the one at which a consumer died.
_SUSPECT_MOST: Final = 1_000
_PARTITIONS_MOST: Final = 100_000


async def consume(
    consumer: Consumer,
    topic: str,
    *,
    group: str,
    servers: str = "localhost:9092",
    dead_letter: str | None = None,
    max_poll_interval: Duration = "5m",
    session_timeout: Duration = "10s",
    connection: Mapping[str, Any] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Consume until cancelled, or until ``stop`` is set; what is at work then ends first.

    Both topics must be there: the dead-letter topic is ``TOPIC.dead``. A group without an offset
    begins with the oldest message. A message is aiokafka's ConsumerRecord; its id is its place,
    ``TOPIC:PARTITION:OFFSET``, unless the inbox has a key.

    A rebalance waits for what is at work, for ``max_poll_interval`` at the most: UsageError, before
    anything is opened, where handling may take longer. ``session_timeout`` is after what silence
    the group goes on without this consumer. ``connection`` goes to aiokafka's consumer and
    producer, such as ``security_protocol``, ``ssl_context`` and ``sasl_mechanism``.
    """
    for what, given in (("topic", topic), ("group", group)):
        check_name(given, what=what)
    longest = duration(max_poll_interval, what="max_poll_interval", least=SECOND)
    silence = duration(session_timeout, what="session_timeout", least=Span(SECOND // 2))
    consumer.check_limit(
        longest,
        prefetch=1,
        name="max_poll_interval",
        advice="Raise max_poll_interval=, or lower timeout=.",
    )
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    dead = f"{topic}.dead" if dead_letter is None else dead_letter
    reached = {"bootstrap_servers": servers, **(connection or {})}
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(AIOKafkaProducer(acks="all", **reached))
        client = await stack.enter_async_context(
            AIOKafkaConsumer(
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                # What was sent in a transaction that was aborted was never sent.
                isolation_level="read_committed",
                max_poll_interval_ms=longest // 1_000,
                # The library's own is the session's: too short for what is at work to end.
                rebalance_timeout_ms=longest // 1_000,
                session_timeout_ms=silence // 1_000,
                heartbeat_interval_ms=silence // 3_000,
                **reached,
            )
        )
        await _check(client, topic, dead)
        loop = _Loop(consumer, client, producer, topic, dead)
        client.subscribe([topic], listener=loop.listener())
        try:
            await until(stop, loop.run())
        finally:
            await loop.leave(consumer.grace / SECOND)
            await consumer.close()


async def _check(client: AIOKafkaConsumer, topic: str, dead: str) -> None:
    there = await client.topics()
    if topic not in there:
        raise UsageError(f"there is no topic {topic!r}. Make it first: kafka-topics.sh --create")
    if dead not in there or dead == topic:
        raise UsageError(
            f"there is no topic {dead!r} for dead messages: they would hold up what comes after "
            "them. Make it, or name another as dead_letter=."
        )


class _Partition:
    """One that is ours, until it is taken away. ``next`` is how far it has been handled."""

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        self.ours = True
        self.next = self.told = -1
        self.task: asyncio.Task[None] | None = None
        self._idle = False

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Say that nothing is at work here: it need not be waited for."""
        self._idle = True
        try:
            yield
        finally:
            self._idle = False

    def leave(self) -> None:
        """Begin nothing any more."""
        self.ours = False
        if self._idle and self.task is not None:
            self.task.cancel()


class _Loop:
    def __init__(
        self,
        consumer: Consumer,
        client: AIOKafkaConsumer,
        producer: AIOKafkaProducer,
        topic: str,
        dead: str,
    ) -> None:
        self._consumer, self._client, self._producer = consumer, client, producer
        self._topic, self._dead = topic, dead
        self._crew = Crew(_PARTITIONS_MOST)
        self._room = asyncio.Semaphore(consumer.concurrency)
        self._partitions: dict[TopicPartition, _Partition] = {}
        # One request at a time: an earlier one that came later would set offsets back.
        self._telling = asyncio.Lock()
        self._news = asyncio.Event()
        self._fatal: BaseException | None = None

    def listener(self) -> Any:
        """Return what the library tells of partitions given to us and taken from us."""
        from aiokafka import ConsumerRebalanceListener

        loop = self

        # Awaited where it is a coroutine; the library's own annotations don't say so.
        base: Any = ConsumerRebalanceListener

        class Listener(base):  # type: ignore[misc]
            async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
                loop.given(assigned)

            async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
                await loop.taken(revoked)

        return Listener()

    async def run(self) -> None:
        """Commit how far the partitions have come, whenever one has; raise what ends the loop."""
        from aiokafka import TopicPartition

        nowhere = TopicPartition(self._topic, -1)
        while True:
            try:
                # Not wait_for: on Python 3.11 it may swallow a cancellation, and so the stop.
                async with asyncio.timeout(_LOOK_MILLISECONDS / 1_000):
                    await self._news.wait()
            except TimeoutError:
                # Fetches nothing, and raises what the group's coordinator had to say: without a
                # partition nobody else would hear of it.
                await self._client.getmany(nowhere, timeout_ms=0)
            self._news.clear()
            if self._fatal is not None:
                raise self._fatal
            await self._tell(self._partitions.values())

    def given(self, places: Iterable[TopicPartition]) -> None:
        """Begin to handle these partitions."""
        for place in places:
            self._partitions[place] = partition = _Partition(place)
            partition.task = self._crew.begin(self._work(partition))
            partition.task.add_done_callback(self._worked)

    async def taken(self, places: Iterable[TopicPartition]) -> None:
        """Let what is at work in these end, commit it, and never again commit for them."""
        timeout = (self._consumer.timeout + PAUSE_MOST) / SECOND
        found = [self._partitions.pop(place, None) for place in places]
        await self._end([partition for partition in found if partition is not None], timeout)

    async def leave(self, seconds: float) -> None:
        """Let what is at work end, commit it, and cancel what has not ended by then."""
        ending = list(self._partitions.values())
        self._partitions.clear()
        await self._end(ending, seconds)
        await self._crew.drain(0)

    async def _end(self, partitions: Collection[_Partition], seconds: float) -> None:
        for partition in partitions:
            partition.leave()
        if tasks := [p.task for p in partitions if p.task is not None]:
            await asyncio.wait(tasks, timeout=seconds)
        await self._tell(partitions)

    async def _tell(self, partitions: Iterable[_Partition]) -> None:
        from aiokafka.errors import KafkaError

        async with self._telling:
            far = {partition: partition.next for partition in partitions}
            far = {partition: n for partition, n in far.items() if n > partition.told}
            if not far:
                return
            try:
                await self._client.commit({p.place: n for p, n in far.items()})
            except KafkaError as error:
                untold("Kafka", error)
                return
            for partition, n in far.items():
                partition.told = n

    def _worked(self, task: asyncio.Task[None]) -> None:
        """Let the loop end with what ended a partition: it must not stand still unseen."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fatal = self._fatal or error
            self._news.set()

    async def _work(self, partition: _Partition) -> None:
        suspects = _SUSPECT_MOST
        while partition.ours:
            with partition.idle():
                batch = await self._fetched(partition)
            for record in batch:
                if not await self._settled(partition, record, suspect=suspects > 0):
                    suspects = 0
                suspects = max(0, suspects - 1)
                if not partition.ours:
                    return

    async def _fetched(self, partition: _Partition) -> list[ConsumerRecord[Any, Any]]:
        from aiokafka.errors import KafkaError

        try:
            answer = await self._client.getmany(
                partition.place, timeout_ms=_LOOK_MILLISECONDS, max_records=_BATCH_MOST
            )
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("onejob: Kafka gave no messages of %s: %r", self._topic, error)
            await asyncio.sleep(_PAUSE_AFTER_TROUBLE)
            return []
        found: list[ConsumerRecord[Any, Any]] = answer.get(partition.place, [])
        return found

    async def _settled(
        self, partition: _Partition, record: ConsumerRecord[Any, Any], *, suspect: bool
    ) -> bool:
        """Handle one until it is handled or dead; tell whether it was known.

        What comes after it waits, as its order wants.
        """
        redelivered = None if suspect else False
        while partition.ours:
            with partition.idle():
                await self._room.acquire()
            try:
                verdict = await self._consumer.deliver(
                    record, envelope_id=_id_of, redelivered=redelivered
                )
            finally:
                self._room.release()
            match verdict:
                case Again(_, pause):
                    await self._pause(partition, pause)
                    redelivered = False
                    continue
                case Dead(why):
                    if not await self._buried(partition, record, why):
                        break
            partition.next = record.offset + 1
            self._news.set()
            return verdict == Handled(first=False)
        return False

    async def _buried(
        self, partition: _Partition, record: ConsumerRecord[Any, Any], why: str
    ) -> bool:
        """Passed over only once the other topic has said that it has it."""
        about = {
            "onejob-reason": " ".join(why.split()),
            "onejob-topic": record.topic,
            "onejob-partition": str(record.partition),
            "onejob-offset": str(record.offset),
        }
        headers = [*record.headers, *((name, text.encode()) for name, text in about.items())]
        while partition.ours:
            try:
                await self._producer.send_and_wait(
                    self._dead, record.value, key=record.key, headers=headers
                )
                return True
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not be lost
                log.error("onejob: %s took no dead message (%r): tried again", self._dead, error)
                await self._pause(partition, PAUSE_MOST)
        return False

    async def _pause(self, partition: _Partition, pause: Span) -> None:
        if partition.ours:
            with partition.idle():
                await asyncio.sleep(pause / SECOND)


def _id_of(record: ConsumerRecord[Any, Any]) -> str:
    return f"{record.topic}:{record.partition}:{record.offset}"
