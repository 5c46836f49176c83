"""procrastinate: each process schedules and works."""

# Its library is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found,untyped-decorator"

from __future__ import annotations

import asyncio

import procrastinate

from benchmarks.tickers.mark import ROLE, URL, fire

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL))


@app.periodic(cron="* * * * * *")
@app.task(name="tick", queue="ticks")
async def tick(timestamp: int) -> None:
    fire(timestamp)


async def main() -> None:
    async with app.open_async():
        if ROLE == "setup":
            await app.schema_manager.apply_schema_async()
        else:
            await app.run_worker_async(concurrency=10)


if __name__ == "__main__":
    asyncio.run(main())
