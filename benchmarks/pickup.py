"""Pick-up: from the call that enqueues to the first line of the handler, in an idle worker."""

from __future__ import annotations

import statistics
import time

from benchmarks.contenders import Stage
from benchmarks.field import (
    HUEY,
    OURS_ON_POSTGRES,
    OURS_ON_SQLITE,
    PGQUEUER,
    PROCRASTINATE,
    Context,
    entries,
)
from benchmarks.rounds import Column, Failed, Figures, Table

COLUMNS = (
    Column("p50", "p50, ms", 1),
    Column("p99", "p99, ms", 1),
    Column("most", "most, ms", 1),
)
CONTENDERS = (OURS_ON_POSTGRES, OURS_ON_SQLITE, PROCRASTINATE, PGQUEUER, HUEY)

#: Long enough for a worker to be idle again.
SPAN_SECONDS = 0.05
#: The first ones open connections and plan statements.
WARM = 3
START_SECONDS = 30.0
SETTLE_SECONDS = 2.0


def table(context: Context) -> Table:
    """Measure pick-up latency."""

    def measure(stage: Stage) -> Figures:
        return picked_up(stage, context.sizes.picked_up)

    return Table(COLUMNS, entries(CONTENDERS, measure, context))


def picked_up(stage: Stage, runs: int) -> Figures:
    """Enqueue so many, apart from each other, while a worker has nothing to do."""
    with stage.worker() as worker:
        stage.call("one", 1)
        worker.wait_for("the first run", lambda: stage.counted() > 0, seconds=START_SECONDS)
        time.sleep(SETTLE_SECONDS)
        stage.call("ping", runs + WARM, SPAN_SECONDS)
        worker.wait_for(
            "the last run", lambda: stage.counted() > runs + WARM, seconds=START_SECONDS
        )
    began = {number: at for number, at, _ in stage.marks("run")}
    waits = sorted(
        (began[number] - at) * 1e3
        for number, at, _ in stage.marks("sent")
        if number >= WARM and number in began
    )
    if not waits:
        raise Failed("nothing was picked up")
    return {
        "p50": statistics.median(waits),
        "p99": waits[min(len(waits) - 1, int(len(waits) * 0.99))],
        "most": waits[-1],
    }
