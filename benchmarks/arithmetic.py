"""Arithmetic: next fire times a second, in one process; no store takes part."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle, islice

from benchmarks.field import Context
from benchmarks.rounds import Column, Entry, Figures, Table
from onejob.core.cron import Cron
from onejob.core.time import DAY, Instant, read_instant

COLUMNS = (Column("rate", "fire times/s", target="20,000"),)
START = read_instant("2026-01-01T00:00:00Z", "start")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca")
EXPRESSIONS = {
    "fixed times": ("0 2 * * *", "30 1 * * *", "0 9 15 * 1", "0 0 */3 * 1-5", "0 9 * * 1-5"),
    "wildcards": ("* * * * *", "*/15 * * * *", "*/30 2 * * *", "7 */2 * * *"),
    "with seconds": ("* * * * * *", "*/20 * * * * *", "15,45 59 23 * * *"),
    "rare dates": ("0 0 L * *", "0 0 * * FRIL", "0 0 1 1 *", "0 0 29 2 *"),
    "never": ("0 0 31 2 *",),
}


def table(context: Context) -> Table:
    """Measure each kind of expression, all of them mixed, and the judging of an outage."""
    count = context.sizes.fire_times
    every = tuple(expression for kind in EXPRESSIONS.values() for expression in kind)
    return Table(
        COLUMNS,
        [
            Entry(f"all {len(every)} expressions in {len(ZONES)} zones", _next(every, count)),
            *(Entry(kind, _next(some, count)) for kind, some in EXPRESSIONS.items()),
            Entry("new expressions: parsed, then asked once", lambda: _new(count)),
            Entry("30 days of every minute: counted, the newest listed", lambda: _outage(count)),
        ],
    )


def _next(expressions: tuple[str, ...], count: int) -> Callable[[], Figures]:
    timings = [Cron.parse(expression, zone) for expression in expressions for zone in ZONES]

    def measured() -> Figures:
        return _rate(timings, count)

    return measured


def _rate(timings: list[Cron], count: int) -> Figures:
    at = [START] * len(timings)
    began = time.perf_counter()
    for n in islice(cycle(range(len(timings))), count):
        at[n] = timings[n].after(at[n]) or START
    return {"rate": count / (time.perf_counter() - began)}


def _new(count: int) -> Figures:
    expressions = [f"{n % 60} {n // 60 % 24} {n % 28 + 1} * *" for n in range(count)]
    began = time.perf_counter()
    for expression in expressions:
        Cron.parse(expression, "Europe/Berlin").after(START)
    return {"rate": count / (time.perf_counter() - began)}


def _outage(count: int) -> Figures:
    """Judge an outage of 30 days, as a tick does after it, until as many fire times are counted."""
    cron = Cron.parse("* * * * *", "Europe/Berlin")
    until = Instant(START + 120 * DAY)
    counted, began = 0, time.perf_counter()
    while counted < count:
        counted += cron.due(Instant(until - 30 * DAY), until, keep=120).count
    return {"rate": counted / (time.perf_counter() - began)}
