"""A fenced transaction with one INSERT and the run's completion, and the same by hand.

One handler at a time, so that a transaction's time is its own. By hand: lock the row under its
attempt, INSERT, move the row on, COMMIT.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

from benchmarks import limits
from benchmarks.contenders import Stage
from benchmarks.field import OURS_ON_POSTGRES, Context, entries
from benchmarks.rounds import Column, Figures, Table

COLUMNS = (Column("microseconds", "one transaction, us"),)
OURS = replace(
    OURS_ON_POSTGRES,
    label="with run.transaction(complete=True)",
    options={"job": "fenced", "arguments": ["--concurrency", "1"]},
)
OURS_IN_LOOP = replace(
    OURS,
    label="async with run.transaction(complete=True)",
    options={"job": "fenced_in_loop", "arguments": ["--concurrency", "1"]},
)
BY_HAND = "by hand"
SECONDS = 240.0


def table(context: Context) -> Table:
    """Measure the block, not the queue around it."""

    def measure(stage: Stage) -> Figures:
        runs = context.sizes.fenced
        stage.place.execute("CREATE TABLE effect (id bigint PRIMARY KEY)")
        stage.call("many", runs)
        stage.place.settle()
        with stage.worker() as worker:
            worker.wait_for("the last run", lambda: stage.counted() >= runs, seconds=SECONDS)
        took = [seconds for _, seconds, _ in stage.marks("took")]
        return {"microseconds": statistics.median(took) * 1e6}

    by_hand = limits.loop(BY_HAND, {"microseconds": ("fenced", context.sizes.fenced)}, context)
    return Table(
        COLUMNS, [*entries([OURS, OURS_IN_LOOP], measure, context), by_hand], against=BY_HAND
    )
