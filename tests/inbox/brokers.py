"""The brokers behind one face: publish, count what is left, read the dead, and run a consumer.

Libraries are imported where they are used: a consumer that is killed begins with one of them.
Each test has a queue (stream) of its own. ``limit`` is when the broker hands a message out again
that its consumer died with; RabbitMQ does so when the connection ends.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from typing import Any, Protocol

from onejob.inbox import Consumer

PREFETCH = 10
LIMIT_SECONDS = 8.0


class Broker(Protocol):
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
    if kind == "rabbitmq":
        return str(message.body.decode())
    if kind == "redis":
        return str(message[1]["body"].decode())
    return str(message.data.decode())


class Rabbitmq:
    def __init__(self, url: str, queue: str | None = None) -> None:
        self.url = url
        self.queue = queue or f"t_{secrets.token_hex(6)}"
        if queue is None:
            asyncio.run(self._with(lambda c: c.declare_queue(self.queue, durable=True)))

    def publish(self, *bodies: str, again: bool = False) -> None:
        import aio_pika

        async def send(channel: Any) -> None:
            for body in bodies:
                message = aio_pika.Message(body.encode(), message_id=body)
                await channel.default_exchange.publish(message, routing_key=self.queue)

        asyncio.run(self._with(send))

    def left(self) -> int:
        # With no consumer connected, nothing is unacknowledged: all that is left is ready.
        return self._count(self.queue)

    def dead(self) -> list[str]:
        async def read(channel: Any) -> list[str]:
            queue = await channel.get_queue(f"{self.queue}.dead")
            found = []
            while (message := await queue.get(fail=False)) is not None:
                assert message.headers["x-onejob-reason"]
                found.append(message.body.decode())
            return found

        return list(asyncio.run(self._with(read)))

    def consume(self, consumer: Consumer, stop: asyncio.Event) -> Coroutine[Any, Any, None]:
        from onejob.inbox import rabbitmq

        return rabbitmq.consume(consumer, self.queue, url=self.url, stop=stop)

    def delete(self) -> None:
        async def drop(channel: Any) -> None:
            for queue in (self.queue, f"{self.queue}.dead"):
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


class RedisStreams:
    def __init__(self, url: str, stream: str | None = None) -> None:
        self.url = url
        self.stream = stream or f"{{t_{secrets.token_hex(6)}}}:messages"
        import redis

        self.client = redis.Redis.from_url(url)

    def publish(self, *bodies: str, again: bool = False) -> None:
        for body in bodies:
            self.client.xadd(self.stream, {"body": body})

    def left(self) -> int:
        [group] = self.client.xinfo_groups(self.stream)
        return int(group["pending"]) + int(group.get("lag") or 0)

    def dead(self) -> list[str]:
        entries: Any = self.client.xrange(f"{self.stream}:dead")
        assert all(fields[b"onejob-reason"] for _, fields in entries)
        return [fields[b"body"].decode() for _, fields in entries]

    def consume(self, consumer: Consumer, stop: asyncio.Event) -> Coroutine[Any, Any, None]:
        from onejob.inbox import redis_streams

        return redis_streams.consume(
            consumer,
            self.stream,
            group="shop",
            url=self.url,
            claim_idle=LIMIT_SECONDS,
            stop=stop,
        )

    def delete(self) -> None:
        self.client.delete(self.stream, f"{self.stream}:dead")
        self.client.close()


class Nats:
    def __init__(self, url: str, stream: str | None = None) -> None:
        self.url = url
        self.stream = stream or f"t_{secrets.token_hex(6)}"
        if stream is None:
            asyncio.run(self._with(self._make))

    def publish(self, *bodies: str, again: bool = False) -> None:
        async def send(jetstream: Any) -> None:
            for body in bodies:
                # Without the header the broker's own window drops nothing: the inbox has to know.
                await jetstream.publish(f"{self.stream}.new", body.encode())

        asyncio.run(self._with(send))

    def left(self) -> int:
        async def count(jetstream: Any) -> int:
            info = await jetstream.consumer_info(self.stream, "shop")
            return int(info.num_pending + info.num_ack_pending)

        return int(asyncio.run(self._with(count)))

    def dead(self) -> list[str]:
        async def read(jetstream: Any) -> list[str]:
            info = await jetstream.stream_info(f"{self.stream}_dead")
            found = []
            for place in range(1, info.state.messages + 1):
                message = await jetstream.get_msg(f"{self.stream}_dead", place)
                assert message.headers["Onejob-Reason"]
                found.append(message.data.decode())
            return found

        return list(asyncio.run(self._with(read)))

    def consume(self, consumer: Consumer, stop: asyncio.Event) -> Coroutine[Any, Any, None]:
        from onejob.inbox import nats as loop

        return loop.consume(
            consumer,
            self.stream,
            durable="shop",
            dead_letter=f"{self.stream}.dead",
            url=self.url,
            stop=stop,
        )

    def delete(self) -> None:
        async def drop(jetstream: Any) -> None:
            await jetstream.delete_stream(self.stream)
            await jetstream.delete_stream(f"{self.stream}_dead")

        asyncio.run(self._with(drop))

    async def _make(self, jetstream: Any) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig

        await jetstream.add_stream(name=self.stream, subjects=[f"{self.stream}.new"])
        await jetstream.add_stream(name=f"{self.stream}_dead", subjects=[f"{self.stream}.dead"])
        config = ConsumerConfig(
            durable_name="shop", ack_policy=AckPolicy.EXPLICIT, ack_wait=LIMIT_SECONDS
        )
        await jetstream.add_consumer(self.stream, config)

    async def _with(self, work: Any) -> Any:
        import nats

        client = await nats.connect(self.url)
        try:
            return await work(client.jetstream())
        finally:
            await client.close()


BROKERS: dict[str, Any] = {"rabbitmq": Rabbitmq, "redis": RedisStreams, "nats": Nats}
