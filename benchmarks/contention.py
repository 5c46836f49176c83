"""Contention: eight processes that want one lock all the time, and write at what it protects.

Never two holders: their times, on the machine's one clock, must not overlap, and their tokens must
rise in the order of their times; each also shows its token at a fenced resource (not on Redis,
which has no transaction of ours). Fairness is Jain's
index of the turns that each process had: 1 is equal, 1/8 is all turns for one.
"""

from __future__ import annotations

import statistics
from itertools import pairwise

from benchmarks.field import Context
from benchmarks.lockers import Make, everywhere, together
from benchmarks.rounds import Column, Failed, Figures, Table

COLUMNS = (
    Column("turns", "turns a second"),
    Column("asked", "attempts a second"),
    Column("p50", "hand-over: p50, ms", 1),
    Column("p99", "p99, ms", 1),
    Column("fairness", "fairness", 2),
    Column("least", "least turns", 0),
    Column("two", "two holders", 0, target="0"),
)
PROCESSES = 8


def table(context: Context) -> Table:
    """Measure each store."""
    seconds = context.sizes.contended
    return Table(COLUMNS, everywhere(context, lambda make: _measured(make, seconds)))


def _measured(make: Make, seconds: float) -> Figures:
    with make() as (url, schema):
        ended = together([("turns", url, schema, seconds)] * PROCESSES, seconds)
    turns = [len(one["held"]) for one in ended]
    held = sorted(tuple(turn) for one in ended for turn in one["held"])
    if len(held) < PROCESSES:
        raise Failed("too few turns to say anything")
    two = sum(after[0] < before[1] or after[2] <= before[2] for before, after in pairwise(held))
    handed = sorted((after[0] - before[1]) * 1e3 for before, after in pairwise(held))
    lasted = held[-1][1] - held[0][0]
    return {
        "turns": len(held) / lasted,
        "asked": sum(one["asked"] for one in ended) / lasted,
        "p50": statistics.median(handed),
        "p99": handed[int(len(handed) * 0.99)],
        "fairness": sum(turns) ** 2 / (len(turns) * sum(n * n for n in turns)),
        "least": min(turns),
        "two": two,
    }
