"""Idle: what a worker that has nothing to do asks of PostgreSQL."""

from __future__ import annotations

import time

from benchmarks.contenders import Stage
from benchmarks.field import OURS_ON_POSTGRES, PGQUEUER, PROCRASTINATE, Context, entries
from benchmarks.places import Postgres
from benchmarks.rounds import Column, Figures, Table

COLUMNS = (
    Column("queries", "queries/s", 2, target="under 1"),
    Column("connections", "connections", target="1"),
    Column("cpu", "CPU, ms/s", 2),
)
CONTENDERS = (OURS_ON_POSTGRES, PROCRASTINATE, PGQUEUER)

START_SECONDS = 30.0
#: Connections of the start are given up after ten seconds; the server counts a second late.
QUIET_SECONDS = 15.0


def table(context: Context) -> Table:
    """Measure one idle replica of each."""
    seconds = context.sizes.idle_seconds
    quiet = min(QUIET_SECONDS, seconds)

    def measure(stage: Stage) -> Figures:
        return idled(stage, quiet, seconds)

    return Table(COLUMNS, entries(CONTENDERS, measure, context))


def idled(stage: Stage, quiet: float, seconds: float) -> Figures:
    """Let a worker execute one run, grow quiet, and then count for so many seconds."""
    place = stage.place
    assert isinstance(place, Postgres), "only a server counts its queries"
    with stage.worker() as worker:
        stage.call("one", 1)
        worker.wait_for("the first run", lambda: stage.counted() > 0, seconds=START_SECONDS)
        time.sleep(quiet)
        commits, cpu = place.live_commits(), worker.cpu_seconds()
        began = time.monotonic()
        time.sleep(seconds)
        worker.check()
        took = time.monotonic() - began
        figures = {
            "queries": (place.live_commits() - commits) / took,
            "connections": float(place.sessions()),
        }
        cpu_after = worker.cpu_seconds()
        if cpu is not None and cpu_after is not None:
            figures["cpu"] = (cpu_after - cpu) / took * 1e3
    return figures
