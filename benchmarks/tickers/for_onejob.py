"""onejob: each process schedules and works."""

from __future__ import annotations

from benchmarks.tickers.mark import ROLE, URL, execute, fire
from onejob import App, AsyncRun

app = App(URL or None, single_machine=True, lease="3s")


@app.every("1s", overlap="allow", catch_up="all")
async def tick(run: AsyncRun) -> None:
    assert run.fire_time is not None, "a scheduled run has one"
    fire(run.fire_time.timestamp())


if __name__ == "__main__":
    if ROLE == "setup":
        app.store.init()  # type: ignore[attr-defined]
    else:
        execute("onejob", "worker", "benchmarks.tickers.for_onejob:app", "--grace", "1s")
