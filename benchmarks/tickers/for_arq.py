"""arq: each process schedules and works; its jobs' ids hold the fire time."""

# Its library is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

from typing import Any

from arq import cron
from arq.connections import RedisSettings

from benchmarks.tickers.mark import REDIS_PORT, ROLE, execute, fire


async def tick(context: dict[str, Any]) -> None:
    fire(int(context["job_id"].rsplit(":", 1)[1]) / 1000)


class WorkerSettings:
    redis_settings = RedisSettings(port=REDIS_PORT)
    cron_jobs = (cron(tick, second=set(range(60))),)


if __name__ == "__main__" and ROLE == "schedule":
    execute("arq", "benchmarks.tickers.for_arq.WorkerSettings")
