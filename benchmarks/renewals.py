"""Renewals: many locks held by ten processes, and how many commands keep them."""

from __future__ import annotations

from benchmarks.field import Context
from benchmarks.lockers import Make, everywhere, together
from benchmarks.rounds import Column, Figures, Table

COLUMNS = (
    Column("commands", "renewals a second, all processes", 2),
    Column("locks", "locks held"),
    Column("lost", "lost", 0, target="0"),
)
PROCESSES = 10


def table(context: Context) -> Table:
    """Measure each store, with leases of six seconds."""
    locks = max(1, context.sizes.locks // PROCESSES)
    seconds = max(5.0, context.sizes.contended)
    return Table(COLUMNS, everywhere(context, lambda make: _measured(make, locks, seconds)))


def _measured(make: Make, locks: int, seconds: float) -> Figures:
    with make() as (url, schema):
        ended = together(
            [("holds", url, schema, seconds, locks, number) for number in range(PROCESSES)], seconds
        )
    return {
        "commands": sum(one["renewals"] for one in ended) / seconds,
        "locks": locks * PROCESSES,
        "lost": sum(one["lost"] for one in ended),
    }
