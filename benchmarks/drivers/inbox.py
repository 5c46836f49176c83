"""Messages from RabbitMQ, each an INSERT in a transaction: ``NAME BROKER-URL URL COUNT``.

``ours`` marks the message as handled in that transaction, ``bare`` does not; both acknowledge after
the commit. Prints messages a second as JSON, from the first that is handled to the last.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from typing import Any

import aio_pika
import psycopg

AT_ONCE = 20
TABLE = "CREATE TABLE confirmed (body text)"
INSERT = "INSERT INTO confirmed VALUES (%s)"


class Count:
    """What was handled: when the first began, and whether all have been."""

    def __init__(self, count: int) -> None:
        self.left, self.began, self.took = count, 0.0, 0.0
        self.done = asyncio.Event()

    def begin(self) -> None:
        self.began = self.began or time.perf_counter()

    def one(self) -> None:
        self.left -= 1
        if not self.left:
            self.took = time.perf_counter() - self.began
            self.done.set()


async def ours(channel: Any, broker: str, name: str, url: str, count: Count) -> None:
    from onejob import App
    from onejob.inbox import Consumer, rabbitmq

    app = App(url, name="bench")
    app.store.init()  # type: ignore[attr-defined]

    async def handle(message: Any, tx: Any) -> None:
        count.begin()
        await tx.execute(INSERT, (message.body.decode(),))

    class Counting(Consumer):
        async def deliver(self, *arguments: Any, **options: Any) -> Any:
            verdict = await super().deliver(*arguments, **options)
            count.one()
            return verdict

    consumer = Counting(app.inbox("bench"), handle, timeout="30s", concurrency=AT_ONCE)
    await rabbitmq.consume(consumer, name, url=broker, stop=count.done)


async def bare(channel: Any, broker: str, name: str, url: str, count: Count) -> None:
    free: asyncio.Queue[psycopg.AsyncConnection[Any]] = asyncio.Queue()
    for _ in range(AT_ONCE):
        free.put_nowait(await psycopg.AsyncConnection.connect(url))
    tasks: set[asyncio.Task[None]] = set()

    async def handled(message: Any) -> None:
        count.begin()
        connection = await free.get()
        async with connection.transaction():
            await connection.execute(INSERT, (message.body.decode(),))
        free.put_nowait(connection)
        count.one()
        await message.ack()

    async def arrived(message: Any) -> None:
        tasks.add(task := asyncio.create_task(handled(message)))
        task.add_done_callback(tasks.discard)

    await channel.set_qos(prefetch_count=AT_ONCE)
    queue = await channel.get_queue(name)
    await queue.consume(arrived)
    await count.done.wait()
    await asyncio.gather(*tasks)
    while not free.empty():
        await free.get_nowait().close()


async def main() -> None:
    kind, broker, url, number = sys.argv[1:]
    name, count = f"onejob_bench_{secrets.token_hex(4)}", Count(int(number))
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(TABLE)
    async with await aio_pika.connect(broker) as connected:
        channel = await connected.channel()
        queue = await channel.declare_queue(name, durable=True)
        try:
            for each in range(count.left):
                message = aio_pika.Message(b"%d" % each, message_id=f"{name}-{each}")
                await channel.default_exchange.publish(message, routing_key=name)
            await {"ours": ours, "bare": bare}[kind](channel, broker, name, url, count)
        finally:
            await queue.delete(if_unused=False, if_empty=False)
            await channel.queue_delete(f"{name}.dead")
    print(json.dumps({"rate": int(number) / count.took}))


if __name__ == "__main__":
    asyncio.run(main())
