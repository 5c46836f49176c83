"""A consumer in a process of its own, to be killed: ``KIND BROKER-URL NAME URL SCHEMA STEP``.

STEP is where it ends itself, without a word, at the first message that gets there: ``begun`` (in
the handler, before it wrote), ``written``, ``committed`` (not acknowledged), or ``acknowledged``;
"" never. Where it ended is remembered in the table ``deaths``, so that it ends there once.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import Any

import psycopg

from inbox.brokers import BROKERS, body_of
from onejob import App
from onejob.inbox import Consumer

KIND, BROKER, NAME, URL, SCHEMA, STEP = sys.argv[1:7]


async def main() -> None:
    app = App(URL, schema=SCHEMA, name="shop")
    inbox = app.inbox("orders", key=lambda message: body_of(KIND, message))
    broker = BROKERS[KIND](BROKER, NAME)

    def dies(step: str) -> None:
        """End this process here, once."""
        if step != STEP:
            return
        with psycopg.connect(URL, autocommit=True) as connection:
            died = connection.execute(
                f'INSERT INTO "{SCHEMA}".deaths VALUES (%s) ON CONFLICT DO NOTHING RETURNING 1',
                (step,),
            ).fetchone()
        if died:
            os._exit(9)

    text = f'INSERT INTO "{SCHEMA}".shipped VALUES (%s)'

    async def handle(message: Any, tx: Any) -> None:
        dies("begun")
        await tx.execute(text, (body_of(KIND, message),))
        dies("written")

    def handle_in_a_thread(message: Any, tx: Any) -> None:
        dies("begun")
        tx.execute(text, (body_of(KIND, message),))
        dies("written")

    class Dying(Consumer):
        async def deliver(self, *args: Any, **kwargs: Any) -> Any:
            return self.ended(await super().deliver(*args, **kwargs))

        def deliver_here(self, *args: Any, **kwargs: Any) -> Any:
            return self.ended(super().deliver_here(*args, **kwargs))

        def ended(self, verdict: Any) -> Any:
            dies("committed")
            threading.Timer(0.1, dies, ("acknowledged",)).start()
            return verdict

    handler = handle_in_a_thread if KIND == "pika" else handle
    consumer = Dying(inbox, handler, timeout="2s", concurrency=4)
    await broker.consume(consumer, asyncio.Event())


asyncio.run(main())
