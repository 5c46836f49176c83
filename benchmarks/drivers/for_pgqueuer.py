"""pgqueuer, over asyncpg. Its worker's defaults, but for what OPTIONS say."""

# Its library is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found,untyped-decorator"

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.drivers.protocol import HOLD_SECONDS, OPTIONS, URL, Driver, count, main, mark


class Pgqueuer(Driver):
    def __init__(self) -> None:
        self._queries: Queries

    async def setup(self) -> None:
        command = os.path.join(os.path.dirname(sys.executable), "pgq")
        done = await asyncio.to_thread(
            subprocess.run, [command, "--pg-dsn", URL, "install"], capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.exit(done.stderr)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        connection = await asyncpg.connect(URL)
        self._queries = Queries(AsyncpgDriver(connection))
        try:
            yield
        finally:
            await connection.close()

    async def one(self, number: int) -> None:
        await self._queries.enqueue("noop", str(number).encode())

    async def many(self, numbers: int) -> None:
        payloads: list[bytes | None] = [str(number).encode() for number in range(numbers)]
        await self._queries.enqueue(["noop"] * numbers, payloads, [0] * numbers)

    async def ping(self, number: int) -> None:
        await self._queries.enqueue("ping", str(number).encode())

    async def hold(self) -> None:
        await self._queries.enqueue("hold", None)

    async def work(self) -> None:
        worker = PgQueuer.from_asyncpg_connection(await asyncpg.connect(URL))

        @worker.entrypoint("noop")
        async def noop(job: Job) -> None:
            count()

        @worker.entrypoint("ping")
        async def ping(job: Job) -> None:
            mark("run", int(job.payload or b"0"))
            count()

        @worker.entrypoint("hold")
        async def hold(job: Job) -> None:
            mark("held", 0)
            await asyncio.sleep(HOLD_SECONDS)

        await worker.run(**OPTIONS.get("run", {}))


if __name__ == "__main__":
    main(Pgqueuer())
