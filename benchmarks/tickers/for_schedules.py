"""onejob: schedules put as data, and the replica that fires them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.tickers.mark import URL, execute, fire
from onejob import App, AsyncRun

#: Half a year from now: none of what is registered is due while somebody measures.
FAR = timedelta(days=180)


def app_at(url: str) -> App:
    """Return an App with the jobs that schedules here name."""
    app = App(url, name="bench")

    @app.job()
    async def noop(tenant: int = 0) -> None: ...

    @app.job()
    async def mark(run: AsyncRun) -> None:
        assert run.fire_time is not None, "a scheduled run has one"
        fire(run.fire_time.timestamp())

    return app


def register(url: str, count: int) -> float:
    """Put so many schedules; return the seconds that it took."""
    app = app_at(url)
    store: Any = app.store
    store.init()
    month = (datetime.now(UTC) + FAR).month
    items = [
        {
            "name": f"report-tenant-{n}",
            "job": "noop",
            "cron": f"{n % 60} {n % 24} {1 + n % 28} {month} *",
            "tz": "Europe/Berlin",
            "args": {"tenant": n},
            "jitter": "5m",
        }
        for n in range(count)
    ]
    began = time.monotonic()
    put = app.schedules.put_many(items)
    took = time.monotonic() - began
    app.close()
    assert put.created == count, put
    return took


def herd(url: str, count: int) -> float:
    """Put so many that are due at one second, when all of them are stored; return that second."""
    app = app_at(url)
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=4 + count // 2_500)
    app.schedules.put_many({"name": f"herd-{n}", "job": "noop", "at": due} for n in range(count))
    app.close()
    return due.timestamp()


def every_second(url: str) -> None:
    """Put one that fires each second."""
    app = app_at(url)
    app.schedules.put("every-second", job="mark", every="1s", overlap="allow")
    app.close()


if __name__ == "__main__":
    execute("onejob", "worker", "benchmarks.tickers.for_schedules:app", "--grace", "1s")
elif URL:
    app = app_at(URL)
