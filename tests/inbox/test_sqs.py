"""What is SQS's own: its queue's settings, its order, and what is on its way at the end."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from inbox.brokers import Sqs
from onejob import App
from onejob.errors import UsageError
from onejob.inbox import Consumer, sqs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def broker(sqs_url: str) -> Iterator[Sqs]:
    made = Sqs(sqs_url)
    yield made
    made.delete()


def nothing(message: Any, tx: Any) -> None:
    """Handle it."""


def test_a_queue_that_would_lose_or_double_messages_is_refused(app: App, broker: Sqs) -> None:
    """B10, E25: its own settings are read and compared."""

    def refused(told: str, consumer: Consumer, **more: Any) -> None:
        with pytest.raises(UsageError, match=told):
            asyncio.run(sqs.consume(consumer, broker.queue_url, client=broker.client, **more))

    def has(**attributes: str) -> None:
        broker.client.set_queue_attributes(QueueUrl=broker.queue_url, Attributes=attributes)

    inbox = app.inbox("orders")
    quick = Consumer(inbox, nothing, timeout="2s")
    [policy] = broker.client.get_queue_attributes(
        QueueUrl=broker.queue_url, AttributeNames=["RedrivePolicy"]
    )["Attributes"].values()

    refused("visibility timeout of .* is 8s", Consumer(inbox, nothing, timeout="30s"))
    refused("12 hours", quick, visibility_timeout="13h")
    refused("keeps ids for 1h", Consumer(app.inbox("short", keep="1h"), nothing, timeout="2s"))
    has(RedrivePolicy=json.dumps({**json.loads(policy), "maxReceiveCount": 3}))
    refused("gives a message up after 3", quick)
    has(RedrivePolicy="")
    refused("another queue for dead messages", quick)
    refused("another queue for dead messages", quick, dead_letter=broker.queue_url)


def test_what_the_last_look_brings_is_given_back(app: App, broker: Sqs) -> None:
    """Nobody is left to handle it, and the next consumer need not wait until it is visible."""
    broker.publish("m-1")
    receive, stopped = broker.client.receive_message, threading.Event()
    events: list[str] = []
    app.events.listen(lambda event: events.append(event.name))

    async def scenario() -> None:
        stop, looking, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

        def look(**asked: Any) -> Any:
            loop.call_soon_threadsafe(looking.set)
            assert stopped.wait(10)
            return receive(**asked)

        broker.client.receive_message = look
        consumer = Consumer(app.inbox("orders"), nothing, timeout="2s")
        consuming = asyncio.create_task(broker.consume(consumer, stop))
        await looking.wait()
        stop.set()
        await asyncio.sleep(0.05)
        stopped.set()
        await consuming

    asyncio.run(scenario())
    del broker.client.receive_message

    assert events == []
    [message] = broker.client.receive_message(QueueUrl=broker.queue_url)["Messages"]
    assert message["Body"] == "m-1"


def test_messages_of_a_group_are_handled_in_their_order(app: App, sqs_url: str) -> None:
    """FIFO: one that fails is tried again before those behind it; other groups go on."""
    broker = Sqs(sqs_url, fifo=True)
    broker.publish("a-1", "a-2", "b-1", "a-3", "b-2")
    tried: list[str] = []
    handled: list[object] = []

    async def handle(message: Any, tx: Any) -> None:
        tried.append(message["Body"])
        await asyncio.sleep(0.05)
        if tried.count("a-1") == 1 and message["Body"] == "a-1":
            raise RuntimeError("not yet")

    async def scenario() -> None:
        stop = asyncio.Event()
        app.events.listen(
            lambda event: handled.append(1) if event.name == "message.handled" else None
        )
        consumer = Consumer(
            app.inbox("orders", key=lambda m: m["Body"]), handle, timeout="2s", concurrency=4
        )
        task = asyncio.create_task(broker.consume(consumer, stop))
        while len(handled) < 5:
            assert not task.done(), task.exception()
            await asyncio.sleep(0.02)
        stop.set()
        await task

    try:
        asyncio.run(scenario())
    finally:
        broker.delete()

    assert [body for body in tried if body[0] == "a"] == ["a-1", "a-1", "a-2", "a-3"]
    assert [body for body in tried if body[0] == "b"] == ["b-1", "b-2"]


def test_a_dead_message_without_room_for_the_reason_is_set_aside_all_the_same(
    app: App, broker: Sqs
) -> None:
    """SQS takes ten attributes: a message that has them must not come back for ever."""
    own = {f"a{n}": {"DataType": "String", "StringValue": "x"} for n in range(10)}
    broker.client.send_message(QueueUrl=broker.queue_url, MessageBody="m-1", MessageAttributes=own)
    send, refused = broker.client.send_message, []

    def send_as_sqs_does(**asked: Any) -> Any:
        # moto takes any number.
        if len(asked.get("MessageAttributes", ())) > 10:
            from botocore.exceptions import ClientError

            refused.append(asked)
            raise ClientError({"Error": {"Code": "InvalidParameterValue"}}, "SendMessage")
        return send(**asked)

    broker.client.send_message = send_as_sqs_does

    def fail(message: Any, tx: Any) -> None:
        raise RuntimeError("no stock")

    async def scenario() -> None:
        stop = asyncio.Event()
        consumer = Consumer(app.inbox("orders"), fail, timeout="2s", max_deliveries=1)
        task = asyncio.create_task(broker.consume(consumer, stop))
        while broker.left():
            assert not task.done(), task.exception()
            await asyncio.sleep(0.2)
        stop.set()
        await task

    asyncio.run(scenario())
    del broker.client.send_message

    assert len(refused) == 1
    [dead] = broker.client.receive_message(QueueUrl=broker.dead_url, MessageAttributeNames=["All"])[
        "Messages"
    ]
    assert (dead["Body"], set(dead["MessageAttributes"])) == ("m-1", set(own))
