"""Drain: how fast one worker process executes runs that do nothing, and what each one costs.

From the first run that a handler counts to the instant when the store has nothing left. History is
kept, settings are the defaults.
"""

from __future__ import annotations

from time import monotonic

from benchmarks import limits
from benchmarks.contenders import Stage
from benchmarks.field import (
    HUEY,
    HUEY_DURABLE,
    OURS,
    PGQUEUER,
    PGQUEUER_WIDE,
    PROCRASTINATE,
    PROCRASTINATE_WIDE,
    Context,
    entries,
)
from benchmarks.processes import Process
from benchmarks.rounds import Column, Figures, Table

COLUMNS = (
    Column("rate", "runs/s", target="15,000; SQLite 8,000"),
    Column("cpu", "CPU, us/run", 1),
    Column("statements", "statements\na run", 3),
    Column("commits", "commits\na run", 3),
    Column("wal", "WAL bytes\na run"),
)
PEERS = (PROCRASTINATE, PROCRASTINATE_WIDE, PGQUEUER, PGQUEUER_WIDE, HUEY, HUEY_DURABLE)

START_SECONDS = 30.0
DRAIN_SECONDS = 240.0


def table(context: Context) -> Table:
    """Measure drains, ours beside peers and plain loops."""

    def measure(stage: Stage) -> Figures:
        runs = max(1, int(context.sizes.drained * stage.contender.share))
        return drained(stage, runs)

    lines = [*entries(OURS, measure, context), *limits.drains(context)]
    return Table(COLUMNS, [*lines, *entries(PEERS, measure, context)], against=limits.KEEP)


def drained(stage: Stage, runs: int) -> Figures:
    """Enqueue, then let one worker execute everything."""
    stage.call("many", runs)
    place = stage.place
    place.settle()
    before, wal_before = place.counters(), place.wal()
    with stage.worker() as worker:
        worker.wait_for("the first run", lambda: stage.counted() > 0, seconds=START_SECONDS)
        began, first, cpu_before = monotonic(), stage.counted(), worker.cpu_seconds()
        _wait_until_done(stage, worker, runs)
        seconds = monotonic() - began
        cpu, wal = worker.cpu_seconds(), place.wal()
    figures = {"rate": (runs - first) / seconds}
    if cpu is not None and cpu_before is not None:
        figures["cpu"] = (cpu - cpu_before) / max(1, runs - first) * 1e6
    if wal is not None and wal_before is not None:
        figures["wal"] = (wal - wal_before) / runs
    after = place.counters()
    if before and after:
        figures["commits"] = (after.commits - before.commits) / runs
        if before.statements is not None and after.statements is not None:
            figures["statements"] = (after.statements - before.statements) / runs
    return figures


def _wait_until_done(stage: Stage, worker: Process, runs: int) -> None:
    worker.wait_for("the last run", lambda: stage.counted() >= runs, seconds=DRAIN_SECONDS)
    worker.wait_for("an empty store", lambda: stage.left() == 0, seconds=DRAIN_SECONDS)
