"""The consume loops with real brokers: acknowledged after the commit; none lost, none doubled."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from inbox.brokers import BROKERS, URLS, Broker, body_of
from onejob import App
from onejob.errors import UsageError
from onejob.inbox import Consumer, nats, rabbitmq, redis_streams

TESTS = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


#: Kafka's are for the soak: on a busy machine a consumer stands still now and then, and whether for
#: the broker at hand, which is no Apache Kafka, or for our loop is not known yet.
KINDS = [
    pytest.param(kind, marks=pytest.mark.soak) if kind == "kafka" else kind for kind in BROKERS
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(kind: str, request: pytest.FixtureRequest) -> Iterator[Broker]:
    made: Broker = BROKERS[kind](request.getfixturevalue(URLS[kind]))
    yield made
    made.delete()


@pytest.fixture
def app(postgres_url: str, schema: str) -> Iterator[App]:
    app = App(postgres_url, schema=schema, name="shop")
    store: Any = app.store
    store.init()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE TABLE "{schema}".shipped (body text)')
        connection.execute(f'CREATE TABLE "{schema}".deaths (step text PRIMARY KEY)')
    yield app
    app.close()


def shipped(app: App) -> Counter[str]:
    store: Any = app.store
    with psycopg.connect(store.conninfo) as connection:
        rows = connection.execute(f'SELECT body FROM "{app.schema}".shipped').fetchall()
    return Counter(body for (body,) in rows)


def consumed(broker: Broker, consumer: Consumer, done: Callable[[], bool]) -> None:
    """Run the loop until ``done``, and end it as a deploy would."""

    async def scenario() -> None:
        stop = asyncio.Event()
        loop = asyncio.create_task(broker.consume(consumer, stop))
        give_up_at = time.monotonic() + 90
        while not await asyncio.to_thread(done):
            assert not loop.done(), loop.exception()
            assert time.monotonic() < give_up_at, "the loop did not get there in time"
            await asyncio.sleep(0.05)
        stop.set()
        await loop

    asyncio.run(scenario())


def writing(
    app: App, kind: str, colour: str = "async", then: Callable[[str], None] = lambda body: None
) -> Any:
    """Return a handler that writes what it gets into the table; pika's loop calls sync ones."""
    text = f'INSERT INTO "{app.schema}".shipped VALUES (%s)'

    async def handle(message: Any, tx: Any) -> None:
        await tx.execute(text, (body_of(kind, message),))
        then(body_of(kind, message))

    def handle_in_a_thread(message: Any, tx: Any) -> None:
        tx.execute(text, (body_of(kind, message),))
        then(body_of(kind, message))

    return handle if colour == "async" and kind != "pika" else handle_in_a_thread


def keyed(app: App, kind: str) -> Any:
    return app.inbox("orders", key=lambda message: body_of(kind, message))


@pytest.mark.parametrize("colour", ["async", "sync"])
def test_a_message_delivered_twice_takes_effect_once(
    app: App, kind: str, broker: Broker, colour: str
) -> None:
    """B10, E04, E25: sent twice by the sender, in other envelopes too; each is acknowledged."""
    bodies = [f"m-{n}" for n in range(20)]
    broker.publish(*bodies)
    broker.publish(*bodies[:7], again=True)
    handled: list[bool] = []
    app.events.listen(
        lambda event: (
            handled.append(bool(event.fields["first"])) if event.name == "message.handled" else None
        )
    )

    consumer = Consumer(keyed(app, kind), writing(app, kind, colour), timeout="2s")
    consumed(broker, consumer, lambda: len(handled) == 27)

    assert shipped(app) == Counter(bodies)
    assert Counter(handled) == {True: 20, False: 7}
    settled(broker)


STEPS = ("begun", "written", "committed", "acknowledged")


def test_a_consumer_killed_at_any_step_loses_and_doubles_nothing(
    app: App, kind: str, broker: Broker, postgres_url: str
) -> None:
    """E24, B09: killed at each step in turn, with several messages at work, and started again."""
    command = [sys.executable, "-m", "inbox.shop", kind, broker.url, broker.name]
    command += [postgres_url, app.schema]
    bodies: list[str] = []

    for step in STEPS:
        more = [f"{step}-{n}" for n in range(6)]
        broker.publish(*more)
        bodies += more
        died = subprocess.run([*command, step], cwd=TESTS, timeout=90, check=False)
        assert died.returncode == 9, f"it has ended itself when it was {step}"
    last = subprocess.Popen([*command, ""], cwd=TESTS)
    try:
        within(90, lambda: set(shipped(app)) == set(bodies))
        within(60, lambda: broker.left() == 0)
    finally:
        last.terminate()
        last.wait()

    assert shipped(app) == Counter(bodies)
    settled(broker)


def test_a_message_that_always_fails_is_set_aside_counted_on_our_key(
    app: App, kind: str, broker: Broker
) -> None:
    """B04, B05, B09: also when the sender sends it anew, under another envelope id."""
    broker.publish("good", "bad")
    tried: list[str] = []

    def try_it(body: str) -> None:
        tried.append(body)
        if body == "bad":
            raise RuntimeError("no stock")

    dead: list[str] = []
    app.events.listen(
        lambda event: (
            dead.append(str(event.fields["key"])) if event.name == "message.dead" else None
        )
    )
    handle = writing(app, kind, then=try_it)
    consumer = Consumer(keyed(app, kind), handle, timeout="2s", max_deliveries=3)
    consumed(broker, consumer, lambda: len(dead) == 1 and len(tried) >= 4)
    broker.publish("bad", again=True)
    consumed(broker, consumer, lambda: len(dead) == 2)

    assert tried.count("bad") == 4
    assert shipped(app) == {"good": 1}
    assert broker.dead() == ["bad", "bad"]
    settled(broker)


def test_messages_become_runs_keyed_by_inbox_and_message(
    app: App, kind: str, broker: Broker
) -> None:
    """B01, B08: acknowledged at once, however long the work is."""

    @app.job(name=f"ship-{secrets.token_hex(3)}")
    def ship(body: str) -> None: ...

    broker.publish("m-1", "m-2")
    broker.publish("m-1", again=True)
    consumer = Consumer(
        keyed(app, kind),
        job=ship,
        args=lambda message: {"body": body_of(kind, message)},
        timeout="2s",
    )
    handled: list[str] = []
    app.events.listen(lambda event: handled.append("") if event.name == "message.handled" else None)
    consumed(broker, consumer, lambda: len(handled) == 3)

    assert sorted(run.key for run in app.runs.find(job=ship.name)) == ["orders/m-1", "orders/m-2"]
    settled(broker)


def test_a_message_without_an_id_is_set_aside_and_not_tried_for_ever(
    app: App, kind: str, broker: Broker
) -> None:
    """E20, B09"""
    broker.publish("m-1")
    inbox = app.inbox("orders", key=lambda message: "")
    dead: list[object] = []
    app.events.listen(
        lambda event: dead.append(event.fields["error"]) if event.name == "message.dead" else None
    )

    consumed(broker, Consumer(inbox, writing(app, kind), timeout="2s"), lambda: bool(dead))

    assert broker.dead() == ["m-1"]
    assert shipped(app) == {}
    settled(broker)


def test_a_limit_of_the_broker_below_the_timeout_is_refused_at_the_start(app: App) -> None:
    """B08, B14: by name, before anything is opened; the turns of what was prefetched count."""

    async def handle(message: Any, tx: Any) -> None: ...

    slow = Consumer(app.inbox("orders"), handle, timeout="40m", concurrency=5)
    quick = Consumer(app.inbox("orders"), handle, timeout="8m", concurrency=5)
    nowhere = "amqp://127.0.0.1:1/"

    with pytest.raises(UsageError, match="consumer_timeout is 30m"):
        asyncio.run(rabbitmq.consume(slow, "q", url=nowhere))
    with pytest.raises(UsageError, match="4 turns of 8m"):
        asyncio.run(rabbitmq.consume(quick, "q", url=nowhere, prefetch=20))
    with pytest.raises(UsageError, match="claim_idle"):
        asyncio.run(redis_streams.consume(slow, "s", group="g", url="redis://127.0.0.1:1/0"))


def test_a_nats_consumer_that_would_lose_messages_is_refused(app: App, nats_url: str) -> None:
    """B14: its own settings are read and compared."""
    from nats.js.api import AckPolicy, ConsumerConfig

    async def handle(message: Any, tx: Any) -> None: ...

    broker = BROKERS["nats"](nats_url)
    consumer = Consumer(app.inbox("orders"), handle, timeout="2s")

    def refused(durable: str, dead: str) -> None:
        asyncio.run(
            nats.consume(consumer, broker.name, durable=durable, dead_letter=dead, url=nats_url)
        )

    wrong = {
        "max_deliver": ConsumerConfig(
            durable_name="a", ack_policy=AckPolicy.EXPLICIT, ack_wait=60, max_deliver=3
        ),
        "ack_wait": ConsumerConfig(durable_name="b", ack_policy=AckPolicy.EXPLICIT, ack_wait=5),
        "explicit": ConsumerConfig(durable_name="c", ack_policy=AckPolicy.ALL, ack_wait=60),
    }
    try:
        for told, config in wrong.items():
            asyncio.run(broker._with(lambda js, c=config: js.add_consumer(broker.name, c)))
            name = config.durable_name or ""
            with pytest.raises(UsageError, match=told):
                refused(name, f"{broker.name}.dead")
        with pytest.raises(UsageError, match="no stream takes"):
            refused("shop", "nowhere")
    finally:
        broker.delete()


def settled(broker: Broker) -> None:
    within(30, lambda: broker.left() == 0)


def within(seconds: float, done: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < give_up_at, "it did not happen in time"
        time.sleep(0.3)
