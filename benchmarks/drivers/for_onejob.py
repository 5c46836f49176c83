"""onejob: an App as a user writes it, and ``onejob worker`` as the worker."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.drivers.protocol import HOLD_SECONDS, OPTIONS, URL, Driver, count, main, mark
from onejob import App, AsyncRun, Run

app = App(URL or None, single_machine=True, lease=OPTIONS.get("lease", "12s"))
INSERT = "INSERT INTO effect (id) VALUES (%s)"


@app.job()
async def noop(i: int) -> None:
    count()


@app.job()
def noop_in_thread(i: int) -> None:
    count()


@app.job()
async def ping(i: int) -> None:
    mark("run", i)
    count()


@app.job()
async def hold() -> None:
    mark("held", 0)
    await asyncio.sleep(HOLD_SECONDS)


@app.job()
def fenced(run: Run, i: int) -> None:
    began = time.perf_counter()
    with run.transaction(complete=True) as connection:
        connection.execute(INSERT, (i,))
    mark("took", i, time.perf_counter() - began)
    count()


@app.job()
async def fenced_in_loop(run: AsyncRun, i: int) -> None:
    began = time.perf_counter()
    async with run.transaction(complete=True) as connection:
        await connection.execute(INSERT, (i,))
    mark("took", i, time.perf_counter() - began)
    count()


class Onejob(Driver):
    def __init__(self) -> None:
        self._job: Any = app.jobs[OPTIONS.get("job", "noop")]

    async def setup(self) -> None:
        store: Any = app.store
        store.init()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        # The others open their connections before the clock starts, too.
        app.check()
        yield

    async def one(self, number: int) -> None:
        self._job.enqueue(i=number)

    async def many(self, numbers: int) -> None:
        self._job.enqueue_many([{"i": i} for i in range(numbers)])

    async def ping(self, number: int) -> None:
        ping.enqueue(i=number)

    async def hold(self) -> None:
        hold.enqueue()

    async def work(self) -> None:
        command = os.path.join(os.path.dirname(sys.executable), "onejob")
        os.execv(
            command,
            [
                "onejob",
                "worker",
                "benchmarks.drivers.for_onejob:app",
                *OPTIONS.get("arguments", []),
            ],
        )


if __name__ == "__main__":
    main(Onejob())
