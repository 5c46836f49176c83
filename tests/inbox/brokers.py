"""The brokers behind one face: publish, count what is left, read the dead, and run a consumer.

Libraries are imported where they are used: a consumer that is killed begins with one of them.
Each test has a queue (stream) of its own. ``limit`` is when the broker hands a message out again
that its consumer died with; RabbitMQ does so when the connection ends.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import Coroutine
from typing import Any, Protocol

from onejob.inbox import Consumer

PREFETCH = 10
LIMIT_SECONDS = 8.0


class Broker(Protocol):
    url: str
    #: Of the queue, the stream or the topic.
    name: str

    def publish(self, *bodies: str, again: bool = False) -> None:
        """Send messages, each with its body as its id; ``again`` past the broker's own memory."""
        ...

    def left(self) -> int:
        """Return how many messages are not acknowledged."""
        ...

    def dead(self) -> list[str]:
        """Return the bodies of what was set aside."""
        ...

    def consume(self, consumer: Consumer, stop: asyncio.Event) -> Coroutine[Any, Any, None]: ...

    def delete(self) -> None: ...


def body_of(kind: str, message: Any) -> str:
    """Return a message's body, as each broker's library gives it."""
    match kind:
        case "rabbitmq" | "pika":
            return str(message.body.decode())
        case "redis":
            return str(message[1]["body"].decode())
        case "sqs":
            return str(message["Body"])
        case "kafka":
            return str(message.value.decode())
    return str(message.data.decode())


class Rabbitmq:
    def __init__(self, url: str, queue: str | None = None) -> None:
        self.url = url
        self.name = queue or f"t_{secrets.token_hex(6)}"
        if queue is None:
            asyncio.run(self._with(lambda c: c.declare_queue(self.name, durable=True)))

    def publish(self, *bodies: str, again: bool = False) -> None:
        import aio_pika

        async def send(channel: Any) -> None:
            for body in bodies:
                message = aio_pika.Message(body.encode(), message_id=body)
                await channel.default_exchange.publish(message, routing_key=self.name)

        asyncio.run(self._with(send))

    def left(self) -> int:
        # With no consumer connected, nothing is unacknowledged: all that is left is ready.
        return self._count(self.name)

    def dead(self) -> list[str]:
        async def read(channel: Any) -> list[str]:
            queue = await channel.get_queue(f"{self.name}.dead")
            found = []
            while (message := await queue.get(fail=False)) is not None:
                assert message.headers["x-onejob-reason"]
                found.append(message.body.decode())
            return found

        return list(asyncio.run(self._with(read)))

    def consume(self, consumer: Consumer, stop: asyncio.Event) -> Coroutine[Any, Any, None]:
        from onejob.inbox import rabbitmq

        return rabbitmq.consume(consumer, self.name, url=self.url, stop=stop)

    def delete(self) -> None:
        async def drop(channel: Any) -> None:
            for queue in (self.name, f"{self.name}.dead"):
                await channel.queue_delete(queue)

        asyncio.run(self._with(drop))

    def _count(self, queue: str) -> int:
        async def count(channel: Any) -> int:
            declared = await channel.declare_queue(queue, passive=True)
            return int(declared.declaration_result.message_count)

        return int(asyncio.run(self._with(count)))

    async def _with(self, work: Any) -> Any:
        import aio_pika

        connection = await aio_pika.connect(self.url)
        async with connection:
            return await work(await connection.channel())


class Pika(Rabbitmq):
    """The same queues, consumed in a thread and without an event loop."""

    async def consume(self, consumer: Consumer, stop: asyncio.Event) -> None:
        from onejob.inbox import pika

        halt = threading.Event()
        consuming = asyncio.create_task(
            asyncio.to_thread(pika.consume, consumer, self.name, url=self.url, stop=halt)
        )
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({consuming, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        halt.set()
        await consuming


class RedisStreams:
    def __init__(self, url: str, stream: str | None = None) -> None:
        self.url = url
        self.name = stream or f"{{t_{secrets.token_hex(6)}}}:messages"
        import redis

        self.client = redis.Redis.from_url(url)

    def publish(self, *bodies: str, again: bool = False) -> None:
        for body in bodies:
            self.client.xadd(self.name, {"body": body})

    def left(self) -> int:
        [group] = self.client.xinfo_groups(self.name)
        return int(group["pending"]) + int(group.get("lag") or 0)

    def dead(self) -> list[str]:
        entries: Any = self.client.xrange(f"{self.name}:dead")
        assert all(fields[b"onejob-reason"] for _, fields in entries)
        return [fields[b"body"].decode() for _, fields in entries]

    def consume(self, consumer: Consumer, stop: asyncio.Event) -> Coroutine[Any, Any, None]:
        from onejob.inbox import redis_streams

        return redis_streams.consume(
            consumer,
            self.name,
            group="shop",
            url=self.url,
            claim_idle=LIMIT_SECONDS,
            stop=stop,
        )

    def delete(self) -> None:
        self.client.delete(self.name, f"{self.name}:dead")
        self.client.close()


class Nats:
    def __init__(self, url: str, stream: str | None = None) -> None:
        self.url = url
        self.name = stream or f"t_{secrets.token_hex(6)}"
        if stream is None:
            asyncio.run(self._with(self._make))

    def publish(self, *bodies: str, again: bool = False) -> None:
        async def send(jetstream: Any) -> None:
            for body in bodies:
                # Without the header the broker's own window drops nothing: the inbox has to know.
                await jetstream.publish(f"{self.name}.new", body.encode())

        asyncio.run(self._with(send))

    def left(self) -> int:
        async def count(jetstream: Any) -> int:
            info = await jetstream.consumer_info(self.name, "shop")
            return int(info.num_pending + info.num_ack_pending)

        return int(asyncio.run(self._with(count)))

    def dead(self) -> list[str]:
        async def read(jetstream: Any) -> list[str]:
            info = await jetstream.stream_info(f"{self.name}_dead")
            found = []
            for place in range(1, info.state.messages + 1):
                message = await jetstream.get_msg(f"{self.name}_dead", place)
                assert message.headers["Onejob-Reason"]
                found.append(message.data.decode())
            return found

        return list(asyncio.run(self._with(read)))

    def consume(self, consumer: Consumer, stop: asyncio.Event) -> Coroutine[Any, Any, None]:
        from onejob.inbox import nats as loop

        return loop.consume(
            consumer,
            self.name,
            durable="shop",
            dead_letter=f"{self.name}.dead",
            url=self.url,
            stop=stop,
        )

    def delete(self) -> None:
        async def drop(jetstream: Any) -> None:
            await jetstream.delete_stream(self.name)
            await jetstream.delete_stream(f"{self.name}_dead")

        asyncio.run(self._with(drop))

    async def _make(self, jetstream: Any) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig

        await jetstream.add_stream(name=self.name, subjects=[f"{self.name}.new"])
        await jetstream.add_stream(name=f"{self.name}_dead", subjects=[f"{self.name}.dead"])
        config = ConsumerConfig(
            durable_name="shop", ack_policy=AckPolicy.EXPLICIT, ack_wait=LIMIT_SECONDS
        )
        await jetstream.add_consumer(self.name, config)

    async def _with(self, work: Any) -> Any:
        import nats

        client = await nats.connect(self.url)
        try:
            return await work(client.jetstream())
        finally:
            await client.close()


class Sqs:
    """moto's, over HTTP, as boto3 talks to Amazon's."""

    def __init__(self, url: str, queue: str | None = None, *, fifo: bool = False) -> None:
        import boto3

        self.url = url
        self.client = boto3.client(
            "sqs",
            endpoint_url=url,
            region_name="eu-central-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
        )
        self._fifo = fifo
        self._suffix = ".fifo" if fifo else ""
        self.name = queue or f"t_{secrets.token_hex(6)}"
        self.queue_url, self.dead_url = self._urls() if queue else self._make()

    def publish(self, *bodies: str, again: bool = False) -> None:
        for body in bodies:
            envelope: dict[str, str] = {}
            if self._fifo:
                group = body.partition("-")[0]
                envelope = {"MessageGroupId": group, "MessageDeduplicationId": secrets.token_hex(4)}
            self.client.send_message(QueueUrl=self.queue_url, MessageBody=body, **envelope)

    def left(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        told = self.client.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=names)
        return sum(int(told["Attributes"][name]) for name in names)

    def dead(self) -> list[str]:
        found: list[str] = []
        while messages := self.client.receive_message(
            QueueUrl=self.dead_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        ).get("Messages", ()):
            assert all(m["MessageAttributes"]["onejob-reason"]["StringValue"] for m in messages)
            found += [message["Body"] for message in messages]
        return found

    def consume(self, consumer: Consumer, stop: asyncio.Event) -> Coroutine[Any, Any, None]:
        from onejob.inbox import sqs

        sqs._LOOK_SECONDS = 1  # type: ignore[misc]  # a stop waits for a look
        return sqs.consume(consumer, self.queue_url, client=self.client, stop=stop)

    def delete(self) -> None:
        self.client.delete_queue(QueueUrl=self.queue_url)
        self.client.delete_queue(QueueUrl=self.dead_url)
        self.client.close()

    def _urls(self) -> tuple[str, str]:
        names = [f"{self.name}{self._suffix}", f"{self.name}_dead{self._suffix}"]
        first, second = [self.client.get_queue_url(QueueName=name)["QueueUrl"] for name in names]
        return first, second

    def _make(self) -> tuple[str, str]:
        kind = {"FifoQueue": "true"} if self._fifo else {}
        self.client.create_queue(QueueName=f"{self.name}_dead{self._suffix}", Attributes=kind)
        self.client.create_queue(QueueName=f"{self.name}{self._suffix}", Attributes=kind)
        queue, dead = self._urls()
        [arn] = self.client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])[
            "Attributes"
        ].values()
        self.client.set_queue_attributes(
            QueueUrl=queue,
            Attributes={
                "VisibilityTimeout": str(int(LIMIT_SECONDS)),
                "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1_000}),
            },
        )
        return queue, dead


class Kafka:
    def __init__(self, url: str, topic: str | None = None, *, partitions: int = 3) -> None:
        self.url = url
        self.name = topic or f"t_{secrets.token_hex(6)}"
        self._partitions = partitions
        if topic is None:
            asyncio.run(self._with(self._make))

    def publish(self, *bodies: str, again: bool = False) -> None:
        from aiokafka import AIOKafkaProducer

        async def send() -> None:
            async with AIOKafkaProducer(bootstrap_servers=self.url) as producer:
                for body in bodies:
                    key = body.partition("-")[0].encode()
                    await producer.send_and_wait(self.name, body.encode(), key=key)

        asyncio.run(send())

    def left(self) -> int:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def count() -> int:
            places = [TopicPartition(self.name, n) for n in range(self._partitions)]
            async with AIOKafkaConsumer(
                bootstrap_servers=self.url, group_id="shop", enable_auto_commit=False
            ) as client:
                client.assign(places)
                ends = await client.end_offsets(places)
                committed = [await client.committed(place) or 0 for place in places]
            return sum(ends.values()) - sum(committed)

        return asyncio.run(count())

    def dead(self) -> list[str]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def read() -> list[str]:
            place = TopicPartition(f"{self.name}.dead", 0)
            async with AIOKafkaConsumer(bootstrap_servers=self.url) as client:
                client.assign([place])
                await client.seek_to_beginning(place)
                [end] = (await client.end_offsets([place])).values()
                found: list[str] = []
                while await client.position(place) < end:
                    for record in (await client.getmany(place, timeout_ms=500)).get(place, ()):
                        assert dict(record.headers)["onejob-reason"]
                        assert record.value is not None
                        found.append(record.value.decode())
            return found

        return asyncio.run(read())

    def consume(self, consumer: Consumer, stop: asyncio.Event) -> Coroutine[Any, Any, None]:
        from onejob.inbox import kafka

        return kafka.consume(
            consumer,
            self.name,
            group="shop",
            servers=self.url,
            max_poll_interval=LIMIT_SECONDS,
            session_timeout="1s",
            stop=stop,
        )

    def delete(self) -> None:
        asyncio.run(self._with(lambda a: a.delete_topics([self.name, f"{self.name}.dead"])))

    async def _make(self, admin: Any) -> None:
        from aiokafka.admin import NewTopic

        topics = [NewTopic(self.name, self._partitions, 1), NewTopic(f"{self.name}.dead", 1, 1)]
        await admin.create_topics(topics)

    async def _with(self, work: Any) -> Any:
        from aiokafka.admin import AIOKafkaAdminClient

        admin = AIOKafkaAdminClient(bootstrap_servers=self.url)
        await admin.start()
        try:
            return await work(admin)
        finally:
            await admin.close()


BROKERS: dict[str, Any] = {
    "rabbitmq": Rabbitmq,
    "pika": Pika,
    "redis": RedisStreams,
    "nats": Nats,
    "sqs": Sqs,
    "kafka": Kafka,
}
#: The fixture that knows where it is.
URLS = {kind: f"{kind}_url" for kind in BROKERS} | {"pika": "rabbitmq_url"}
