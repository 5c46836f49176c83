"""Memory: how much one worker process grows over many runs."""

from __future__ import annotations

from benchmarks.contenders import Stage
from benchmarks.field import OURS_ON_POSTGRES, OURS_ON_SQLITE, Context, entries
from benchmarks.processes import Process
from benchmarks.rounds import Column, Failed, Figures, Table

COLUMNS = (
    Column("grown", "grown by, MB", 1, target="under 30"),
    Column("resident", "in RAM at the end, MB", 1),
)
CONTENDERS = (OURS_ON_POSTGRES, OURS_ON_SQLITE)

#: Runs of one call of the driver; the first tenth of all is the warm-up.
BATCH = 10_000
SECONDS = 240.0


def table(context: Context) -> Table:
    """Measure growth from a tenth of the runs to all of them."""

    def measure(stage: Stage) -> Figures:
        return grown(stage, context.sizes.remembered)

    return Table(COLUMNS, entries(CONTENDERS, measure, context))


def grown(stage: Stage, runs: int) -> Figures:
    """Execute the runs in batches, looking at the memory after the first tenth and at the end."""
    with stage.worker() as worker:
        enqueued, before = 0, None
        while enqueued < runs:
            batch = min(BATCH, max(1, runs // 10), runs - enqueued)
            stage.call("many", batch)
            enqueued += batch
            _wait_until(stage, worker, enqueued)
            if before is None:
                before = worker.resident_bytes()
        after = worker.resident_bytes()
    if before is None or after is None:
        raise Failed("the memory of a process can't be read on this system")
    return {"grown": (after - before) / 1e6, "resident": after / 1e6}


def _wait_until(stage: Stage, worker: Process, runs: int) -> None:
    worker.wait_for("the batch", lambda: stage.counted() >= runs, seconds=SECONDS)
