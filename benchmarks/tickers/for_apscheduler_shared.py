"""APScheduler 3 with its jobs in a database that all processes share."""

# Its library is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.blocking import BlockingScheduler

from benchmarks.tickers.mark import ROLE, URL

if __name__ == "__main__" and ROLE == "schedule":
    jobs = SQLAlchemyJobStore(url=URL.replace("postgresql://", "postgresql+psycopg2://"))
    scheduler = BlockingScheduler(timezone="UTC", jobstores={"default": jobs})
    scheduler.add_job(
        "benchmarks.tickers.mark:fire", "cron", second="*", id="tick", replace_existing=True
    )
    scheduler.start()
