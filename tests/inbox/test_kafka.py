"""What is Kafka's own: order within a partition, rebalances, and no word on redeliveries.

Against a broker that speaks Kafka's protocol; what no broker does at will, against a client that
records what it is told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import aiokafka
import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, GroupAuthorizationFailedError

from inbox.brokers import Kafka
from onejob import App
from onejob.core.redelivery import Handled
from onejob.errors import UsageError
from onejob.inbox import Consumer, kafka

# For the soak: on a busy machine a consumer stands still now and then, and whether for the broker
# at hand, which is no Apache Kafka, or for our loop is not known yet.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(120)]


@pytest.fixture
def broker(kafka_url: str) -> Iterator[Kafka]:
    made = Kafka(kafka_url, partitions=2)
    yield made
    made.delete()


def body_of(record: Any) -> str:
    return str(record.value.decode())


def keyed(app: App) -> Any:
    return app.inbox("orders", key=body_of)


async def nothing(message: Any, tx: Any) -> None:
    """Handle it."""


async def until(done: Callable[[], object], *tasks: asyncio.Task[None]) -> None:
    give_up_at = time.monotonic() + 30
    while not done():
        assert not any(task.done() for task in tasks), tasks
        assert time.monotonic() < give_up_at, "it did not happen in time"
        await asyncio.sleep(0.01)


def test_messages_of_a_partition_are_handled_in_their_order(app: App, broker: Kafka) -> None:
    """One that fails is tried again in its place; one that is dead lets the next ones pass."""
    broker.publish(*(f"{key}-{n}" for n in range(4) for key in ("ada", "bob", "eve")))
    tried: list[str] = []

    async def handle(record: Any, tx: Any) -> None:
        tried.append(body_of(record))
        await asyncio.sleep(0.005)
        if tried[-1] == "bob-1" or (tried[-1] == "ada-2" and tried.count("ada-2") < 2):
            raise RuntimeError("not now")

    ended: list[str] = []
    app.events.listen(
        lambda event: (
            ended.append(str(event.fields["key"]))
            if event.name in ("message.handled", "message.dead")
            else None
        )
    )

    async def scenario() -> None:
        stop = asyncio.Event()
        consumer = Consumer(keyed(app), handle, timeout="2s", max_deliveries=2)
        task = asyncio.create_task(broker.consume(consumer, stop))
        await until(lambda: len(ended) == 12, task)
        stop.set()
        await task

    asyncio.run(scenario())

    told = {key: [body for body in tried if body.startswith(key)] for key in ("ada", "bob", "eve")}
    assert told["ada"] == ["ada-0", "ada-1", "ada-2", "ada-2", "ada-3"]
    assert told["bob"] == ["bob-0", "bob-1", "bob-1", "bob-2", "bob-3"]
    assert told["eve"] == [f"eve-{n}" for n in range(4)]
    assert broker.dead() == ["bob-1"]
    assert broker.left() == 0


def test_a_partition_is_handed_over_after_what_is_at_work_in_it(app: App, broker: Kafka) -> None:
    """B12: a second consumer joins; what the first is at ends, is committed, is not repeated."""
    bodies = [f"{key}-{n}" for n in range(6) for key in ("ada", "bob", "eve", "joe")]
    broker.publish(*bodies)
    deliveries: list[tuple[str, int, str, float, float]] = []
    at_work: list[str] = []

    class Told(Consumer):
        """Writes down who had what, and when: without a store, which would keep them apart."""

        who = ""

        async def deliver(self, given: Any, **more: Any) -> Handled:
            began = time.monotonic()
            at_work.append(self.who)
            # For longer than the broker takes to hand a partition of a silent consumer over.
            try:
                await asyncio.sleep(6 if len(at_work) <= 2 else 0.05)
            finally:
                span = (began, time.monotonic())
                deliveries.append((self.who, given.partition, body_of(given), *span))
            return Handled(first=True)

    def consuming(who: str, stop: asyncio.Event) -> asyncio.Task[None]:
        consumer = Told(app.inbox("orders"), nothing, timeout="10s")
        consumer.who = who
        return asyncio.create_task(
            kafka.consume(
                consumer,
                broker.name,
                group="shop",
                servers=broker.url,
                max_poll_interval="20s",
                session_timeout="1s",
                stop=stop,
            )
        )

    async def scenario() -> None:
        stop = asyncio.Event()
        first = consuming("first", stop)
        await until(lambda: len(at_work) == 2, first)
        second = consuming("second", stop)
        while "second" not in at_work:
            # However long the group takes to let it in, there is something left for it.
            more = [f"{key}-more-{len(bodies)}" for key in ("ada", "bob", "eve", "joe")]
            bodies.extend(more)
            await asyncio.to_thread(broker.publish, *more)
            await asyncio.sleep(0.2)
        await until(lambda: len(deliveries) >= len(bodies), first, second)
        stop.set()
        await asyncio.gather(first, second)

    asyncio.run(scenario())

    assert {who for who, *_ in deliveries} == {"first", "second"}
    assert sorted(body for _, _, body, _, _ in deliveries) == sorted(bodies)
    for partition in (0, 1):
        own = sorted(span for _, place, _, *span in deliveries if place == partition)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(own))
    assert broker.left() == 0


def test_a_message_that_ends_its_consumer_is_set_aside(app: App, broker: Kafka) -> None:
    """B04: Kafka doesn't say that it came before; the place of the first ones is counted."""
    broker.publish("killer")
    begun: list[int] = []
    dead: list[str] = []
    app.events.listen(
        lambda event: (
            dead.append(str(event.fields["error"])) if event.name == "message.dead" else None
        )
    )

    async def handle(record: Any, tx: Any) -> None:
        begun.append(1)
        await asyncio.sleep(60)

    async def killed() -> None:
        count = len(begun)
        consumer = Consumer(keyed(app), handle, timeout="2s", max_deliveries=2, grace=0)
        task = asyncio.create_task(broker.consume(consumer, asyncio.Event()))
        await until(lambda: len(begun) > count or dead, task)
        task.cancel()
        await asyncio.wait([task])

    for _ in range(3):
        asyncio.run(killed())

    assert len(begun) == 2
    assert dead == ["it was begun 2 times and never ended"]


def test_a_message_that_was_handled_is_never_dead_however_often_it_comes(app: App) -> None:
    """Its acknowledgement may be lost more often than a message may be begun."""

    consumer = Consumer(app.inbox("orders"), nothing, max_deliveries=2)

    async def scenario() -> list[object]:
        return [
            await consumer.deliver("m-1", envelope_id=str, redelivered=word)
            for word in (None, None, None, True, True, True)
        ]

    told = [getattr(verdict, "first", verdict) for verdict in asyncio.run(scenario())]
    assert told == [True, False, False, False, False, False]


class Recorded:
    """A client that hands out what is put into it, and writes down what is committed."""

    def __init__(self, *records: Any) -> None:
        self.records = list(records)
        self.commits: list[dict[TopicPartition, int]] = []
        self.fails: Exception | None = None

    async def getmany(self, place: TopicPartition, **asked: Any) -> dict[TopicPartition, list[Any]]:
        if place.partition < 0:
            if self.fails is not None:
                raise self.fails
            return {}
        found = [record for record in self.records if record.partition == place.partition]
        self.records = [record for record in self.records if record not in found]
        await asyncio.sleep(0 if found else 60)
        return {place: found}

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self.commits.append(offsets)
        if self.fails is not None:
            raise self.fails


def record(partition: int, offset: int) -> Any:
    return SimpleNamespace(
        topic="t", partition=partition, offset=offset, key=None, value=b"", headers=()
    )


def loop_over(client: Recorded, consumer: Consumer) -> Any:
    made: Any = client
    return kafka._Loop(consumer, made, made, "t", "t.dead")


def test_nothing_is_committed_for_a_partition_that_was_taken_away(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B12, B13: a handler that outlasts the rebalance ends as a stranger; the others are told."""
    monkeypatch.setattr(kafka, "PAUSE_MOST", 0)
    client = Recorded(record(0, 7), record(1, 3))
    begun: set[int] = set()
    ended: set[int] = set()

    async def scenario() -> None:
        go_on = asyncio.Event()

        class Late(Consumer):
            async def deliver(self, given: Any, **more: Any) -> Handled:
                begun.add(given.partition)
                if given.partition == 0:
                    await go_on.wait()
                ended.add(given.partition)
                return Handled(first=True)

        loop = loop_over(client, Late(app.inbox("orders"), nothing, timeout="50ms"))
        running = asyncio.create_task(loop.run())
        places = [TopicPartition("t", 0), TopicPartition("t", 1)]
        loop.given(places)
        await until(lambda: begun == {0, 1} and client.commits, running)
        await loop.taken(places)
        go_on.set()
        await until(lambda: ended == {0, 1}, running)
        await asyncio.sleep(0.02)
        await loop.leave(1)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(scenario())

    assert client.commits == [{TopicPartition("t", 1): 4}]


def test_a_commit_that_the_group_refuses_ends_nothing(app: App) -> None:
    """B12: the group went on without us. The messages come again elsewhere, and are known."""
    client = Recorded(record(0, 0), record(0, 1))
    client.fails = CommitFailedError()
    handled: list[int] = []

    async def handle(given: Any, tx: Any) -> None:
        handled.append(given.offset)

    async def scenario() -> None:
        loop = loop_over(client, Consumer(app.inbox("orders"), handle))
        running = asyncio.create_task(loop.run())
        loop.given([TopicPartition("t", 0)])
        await until(lambda: handled == [0, 1] and client.commits, running)
        await loop.leave(1)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(scenario())
    assert max(n for commit in client.commits for n in commit.values()) == 2


def test_what_the_coordinator_refuses_ends_a_loop_without_a_partition(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "_LOOK_MILLISECONDS", 10)
    client = Recorded()
    client.fails = GroupAuthorizationFailedError("shop")

    with pytest.raises(GroupAuthorizationFailedError):
        asyncio.run(loop_over(client, Consumer(app.inbox("orders"), nothing)).run())


def test_a_rebalance_may_last_as_long_as_handling_and_nobody_else_commits(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B12: asked of the library by name; the broker of these tests waits for longer by itself."""
    asked: dict[str, Any] = {}

    class Asked(Exception):
        pass

    def refuse(**options: Any) -> None:
        asked.update(options)
        raise Asked

    async def scenario() -> None:
        monkeypatch.setattr(aiokafka.AIOKafkaProducer, "start", lambda self: asyncio.sleep(0))
        monkeypatch.setattr(aiokafka, "AIOKafkaConsumer", refuse)
        consumer = Consumer(app.inbox("orders"), nothing)
        await kafka.consume(consumer, "t", group="g", max_poll_interval="7m")

    with pytest.raises(Asked):
        asyncio.run(scenario())

    assert asked["rebalance_timeout_ms"] == asked["max_poll_interval_ms"] == 420_000
    assert asked["enable_auto_commit"] is False


def test_a_stop_is_heard_at_the_moment_of_news(app: App) -> None:
    """What is handled in the same turn of the loop must not come in place of the cancellation."""

    async def scenario() -> bool:
        loop = loop_over(Recorded(), Consumer(app.inbox("orders"), nothing))
        running = asyncio.create_task(loop.run())
        await asyncio.sleep(0.01)
        loop._news.set()
        # The news have reached the one that waits for them, and it has not gone on yet.
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running], timeout=1)
        heard = running.done()
        running.cancel()
        return heard

    assert asyncio.run(scenario())


def test_settings_that_would_lose_or_double_messages_are_refused(app: App, broker: Kafka) -> None:
    """B08, B12: the limit before anything is opened; the topics before anything is fetched."""

    def refused(told: str, topic: str, *, timeout: str = "2s", **more: Any) -> None:
        consumer = Consumer(app.inbox("orders"), nothing, timeout=timeout)
        with pytest.raises(UsageError, match=told):
            asyncio.run(kafka.consume(consumer, topic, group="g", **more))

    refused("max_poll_interval is 5m", "t", timeout="40m", servers="127.0.0.1:1")
    refused("no topic 'nowhere'", "nowhere", servers=broker.url)
    refused("for dead messages", broker.name, servers=broker.url, dead_letter="nowhere")
    refused("for dead messages", broker.name, servers=broker.url, dead_letter=broker.name)
