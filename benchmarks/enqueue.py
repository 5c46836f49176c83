"""Enqueue: one by one, each with its own commit, and many at once."""

from __future__ import annotations

from benchmarks import limits
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
from benchmarks.rounds import Column, Figures, Table

COLUMNS = (
    Column("one", "one by one, runs/s"),
    Column("many", "in bulk, runs/s"),
)
CONTENDERS = (OURS_ON_POSTGRES, OURS_ON_SQLITE, PROCRASTINATE, PGQUEUER, HUEY)
#: The plain statement it is compared with.
PLAIN = "plain INSERT"


def table(context: Context) -> Table:
    """Measure enqueueing from one process."""

    def measure(stage: Stage) -> Figures:
        singly, in_bulk = context.sizes.enqueued_singly, context.sizes.enqueued_in_bulk
        one = stage.call("one", singly)["rate"]
        if stage.contender.driver == HUEY.driver:
            return {"one": one}
        stage.place.settle()
        return {"one": one, "many": stage.call("many", in_bulk)["rate"]}

    plain = limits.loop(
        PLAIN,
        {
            "one": ("enqueue_one", context.sizes.enqueued_singly),
            "many": ("enqueue_many", context.sizes.enqueued_in_bulk),
        },
        context,
    )
    return Table(COLUMNS, [*entries(CONTENDERS, measure, context), plain], against=PLAIN)
