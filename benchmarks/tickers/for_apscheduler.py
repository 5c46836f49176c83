"""APScheduler 3 with its jobs in memory, its default."""

# Its library is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

from apscheduler.schedulers.blocking import BlockingScheduler

from benchmarks.tickers.mark import ROLE, fire

if __name__ == "__main__" and ROLE == "schedule":
    scheduler = BlockingScheduler(timezone="UTC")
    scheduler.add_job(fire, "cron", second="*", id="tick")
    scheduler.start()
