"""procrastinate, with psycopg's pool. Its worker's defaults, but for what OPTIONS say."""

# Its library is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found,untyped-decorator"

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import procrastinate

from benchmarks.drivers.protocol import HOLD_SECONDS, OPTIONS, URL, Driver, count, main, mark

concurrency = int(OPTIONS.get("concurrency", 1))
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=URL, max_size=max(4, concurrency))
)


@app.task(name="noop")
async def noop(i: int) -> None:
    count()


@app.task(name="ping")
async def ping(i: int) -> None:
    mark("run", i)
    count()


@app.task(name="hold")
async def hold() -> None:
    mark("held", 0)
    await asyncio.sleep(HOLD_SECONDS)


class Procrastinate(Driver):
    async def setup(self) -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with app.open_async():
            yield

    async def one(self, number: int) -> None:
        await noop.defer_async(i=number)

    async def many(self, numbers: int) -> None:
        await noop.batch_defer_async(*[{"i": i} for i in range(numbers)])

    async def ping(self, number: int) -> None:
        await ping.defer_async(i=number)

    async def hold(self) -> None:
        await hold.defer_async()

    async def work(self) -> None:
        async with app.open_async():
            await app.run_worker_async(concurrency=concurrency)


if __name__ == "__main__":
    main(Procrastinate())
