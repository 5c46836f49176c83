"""Guard: what claiming a tick adds to another library's scheduler, in the thread that fires."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from benchmarks.field import Context
from benchmarks.places import Place
from benchmarks.rounds import Column, Entry, Figures, Skipped, Table
from onejob import App
from onejob.core import guarding
from onejob.core.guarding import Name
from onejob.core.time import MINUTE, Instant
from onejob.guards import Guard
from onejob.permits import Leave, Permit

COLUMNS = (
    Column("won", "won, to firing: p50, us"),
    Column("won_p99", "p99, us"),
    Column("done", "recorded: p50, us"),
    Column("refused", "refused: p50, us"),
    Column("refused_p99", "p99, us"),
)

#: The first ticks open connections and plan statements.
WARM = 20
FIRST = Instant(1_774_746_000_000_000)


def table(context: Context) -> Table:
    """Measure one process that wins every tick, and one that loses the same ones."""
    places = context.places
    ticks = context.sizes.picked_up
    sqlite = Entry("SQLite", lambda: _measured(places.sqlite, ticks))
    if places.server is None:
        return Table(COLUMNS, [Skipped("PostgreSQL", "no server"), sqlite])
    return Table(COLUMNS, [Entry("PostgreSQL", lambda: _measured(places.postgres, ticks)), sqlite])


def _measured(make: Callable[[], AbstractContextManager[Place]], ticks: int) -> Figures:
    with make() as place:
        app = App(place.url)
        app.store.init()
        try:
            return _figures(Guard(app._services), Guard(app._services), ticks)
        finally:
            app.close()


def _figures(winner: Guard, loser: Guard, ticks: int) -> Figures:
    won, done, refused = [], [], []
    for n in range(WARM + ticks):
        tick = guarding.at(Name("bench:tick"), Instant(FIRST + n * MINUTE))
        began = time.perf_counter()
        permit = winner.ask(tick)
        assert isinstance(permit, Permit), permit
        assert winner.begin(permit)
        won.append(time.perf_counter() - began)
        began = time.perf_counter()
        winner.done(permit)
        done.append(time.perf_counter() - began)
        began = time.perf_counter()
        answer = loser.ask(tick)
        refused.append(time.perf_counter() - began)
        assert isinstance(answer, Leave), answer
    return {
        "won": _at(won, 0.5),
        "won_p99": _at(won, 0.99),
        "done": _at(done, 0.5),
        "refused": _at(refused, 0.5),
        "refused_p99": _at(refused, 0.99),
    }


def _at(seconds: list[float], share: float) -> float:
    """Return a percentile in microseconds, the warm ones left out."""
    ordered = sorted(seconds[WARM:])
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e6
