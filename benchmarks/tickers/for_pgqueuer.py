"""pgqueuer: each process schedules and works."""

# Its library is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator"

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
from pgqueuer import PgQueuer

from benchmarks.tickers.mark import ROLE, URL, execute, fire


async def main() -> None:
    queuer = PgQueuer.from_asyncpg_connection(await asyncpg.connect(URL))

    @queuer.schedule("tick", "* * * * * *")
    async def tick(schedule: Any) -> None:
        # What it hands over names the next fire time, not this one.
        fire()

    await queuer.run()


if __name__ == "__main__":
    if ROLE == "setup":
        execute("pgq", "--pg-dsn", URL, "install")
    else:
        asyncio.run(main())
