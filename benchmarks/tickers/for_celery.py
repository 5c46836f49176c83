"""Celery beat, and RedBeat where OPTIONS say so: schedulers that enqueue, and one worker."""

# Its library is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator"

from __future__ import annotations

import os

from celery import Celery

from benchmarks.tickers.mark import DIRECTORY, NUMBER, REDIS, ROLE, execute, fire

app = Celery("tickers", broker=REDIS)
app.conf.update(
    task_ignore_result=True,
    timezone="UTC",
    broker_connection_retry_on_startup=True,
    redbeat_redis_url=REDIS,
    beat_schedule={"tick": {"task": "tick", "schedule": 1.0}},
)


@app.task(name="tick")
def tick() -> None:
    fire()


if __name__ == "__main__":
    here = ("-A", "benchmarks.tickers.for_celery")
    if ROLE == "work":
        execute("celery", *here, "worker", "-P", "solo", "-l", "ERROR")
    elif ROLE == "schedule" and os.environ.get("BENCH_OPTION") == "redbeat":
        execute("celery", *here, "beat", "-S", "redbeat.RedBeatScheduler", "--pidfile=")
    elif ROLE == "schedule":
        execute("celery", *here, "beat", "-s", f"{DIRECTORY}/beat-{NUMBER}", "--pidfile=")
