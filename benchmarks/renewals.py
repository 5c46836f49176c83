"""Renewals: many locks held by ten processes, and how many commands keep them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from benchmarks.field import Context
from benchmarks.lockers import together
from benchmarks.places import Place
from benchmarks.rounds import Column, Entry, Figures, Skipped, Table
from onejob import App

COLUMNS = (
    Column("commands", "renewals a second, all processes", 2),
    Column("locks", "locks held"),
    Column("lost", "lost", 0, target="0"),
)
PROCESSES = 10


def table(context: Context) -> Table:
    """Measure each store, with leases of six seconds."""
    places, locks = context.places, max(1, context.sizes.fenced // PROCESSES)
    seconds = max(5.0, context.sizes.idle_seconds)
    sqlite = Entry("SQLite", lambda: _measured(places.sqlite, locks, seconds))
    if places.server is None:
        return Table(COLUMNS, [Skipped("PostgreSQL", "no server"), sqlite])
    postgres = Entry("PostgreSQL", lambda: _measured(places.postgres, locks, seconds))
    return Table(COLUMNS, [postgres, sqlite])


def _measured(
    make: Callable[[], AbstractContextManager[Place]], locks: int, seconds: float
) -> Figures:
    with make() as place:
        app = App(place.url)
        app.store.init()  # type: ignore[attr-defined]
        app.close()
        ended = together(
            [("holds", place.url, seconds, locks, number) for number in range(PROCESSES)], seconds
        )
    return {
        "commands": sum(one["renewals"] for one in ended) / seconds,
        "locks": locks * PROCESSES,
        "lost": sum(one["lost"] for one in ended),
    }
