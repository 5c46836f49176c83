"""What is pika's own: one thread keeps the connection while others work."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from inbox.brokers import Pika
from onejob import App
from onejob.errors import UsageError
from onejob.inbox import Consumer, pika

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def broker(rabbitmq_url: str) -> Iterator[Pika]:
    made = Pika(rabbitmq_url)
    yield made
    made.delete()


def body_of(message: pika.Message) -> str:
    return message.body.decode()


def consumed(consumer: Consumer, broker: Pika, url: str, done: Callable[[], bool]) -> None:
    """Run the loop in this test's own thread, until ``done``."""
    stop = threading.Event()

    def watch() -> None:
        give_up_at = time.monotonic() + 30
        while not (done() or stop.wait(0.05)) and time.monotonic() < give_up_at:
            pass
        stop.set()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        pika.consume(consumer, broker.name, url=url, stop=stop)
    finally:
        stop.set()
        watching.join()


def test_heartbeats_are_answered_while_a_handler_works(app: App, broker: Pika) -> None:
    """B14: the server ends a connection that is silent for two of them, and delivers again."""
    broker.publish("slow")
    calls: list[str] = []
    redelivered: list[bool] = []

    def work(message: pika.Message, tx: Any) -> None:
        calls.append(body_of(message))
        redelivered.append(bool(message.method.redelivered))
        time.sleep(3.5)

    handled: list[str] = []
    app.events.listen(lambda event: handled.append(event.name))
    consumer = Consumer(app.inbox("orders"), work, timeout="10s")
    consumed(consumer, broker, f"{broker.url}?heartbeat=1", lambda: "message.handled" in handled)

    assert (calls, redelivered) == (["slow"], [False])
    assert broker.left() == 0


def test_a_connection_that_is_lost_is_made_again(
    app: App, broker: Pika, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was at work in it comes again; its commit has not been acknowledged, and is known."""
    import pika as library

    made: list[Any] = []

    class Kept(library.BlockingConnection):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(library, "BlockingConnection", Kept)
    monkeypatch.setattr(pika, "_PAUSE_AFTER_TROUBLE", 0.05)
    broker.publish("m-1")
    calls: list[str] = []

    def work(message: pika.Message, tx: Any) -> None:
        calls.append(body_of(message))
        if len(calls) == 1:
            made[0]._impl._transport._sock.shutdown(socket.SHUT_RDWR)
            give_up_at = time.monotonic() + 20
            while made[0].is_open and time.monotonic() < give_up_at:
                time.sleep(0.02)

    firsts: list[bool] = []
    app.events.listen(
        lambda event: (
            firsts.append(bool(event.fields["first"])) if event.name == "message.handled" else None
        )
    )
    consumer = Consumer(app.inbox("orders"), work, timeout="10s")
    consumed(consumer, broker, broker.url, lambda: len(firsts) == 2)

    assert (calls, firsts) == (["m-1"], [True, False])
    assert len(made) == 2
    assert broker.left() == 0


def test_a_loop_whose_queue_was_deleted_ends_and_says_so(
    app: App, rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pika.exceptions import ChannelClosedByBroker

    monkeypatch.setattr(pika, "_PAUSE_AFTER_TROUBLE", 0.05)
    broker = Pika(rabbitmq_url)
    broker.publish("m-1")

    def work(message: pika.Message, tx: Any) -> None:
        broker.delete()

    with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
        consumed(
            Consumer(app.inbox("orders"), work, timeout="10s"), broker, broker.url, lambda: False
        )


def test_an_async_handler_and_a_short_limit_are_refused_at_the_start(app: App) -> None:
    """B08: by name, before anything is opened."""

    async def in_a_loop(message: Any, tx: Any) -> None: ...

    def in_a_thread(message: Any, tx: Any) -> None: ...

    nowhere = "amqp://127.0.0.1:1/"

    with pytest.raises(UsageError, match=r"onejob\.inbox\.rabbitmq"):
        pika.consume(Consumer(app.inbox("orders"), in_a_loop), "q", url=nowhere)
    with pytest.raises(UsageError, match="consumer_timeout is 30m"):
        pika.consume(Consumer(app.inbox("orders"), in_a_thread, timeout="40m"), "q", url=nowhere)
