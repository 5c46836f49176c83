"""Schedules as data: registering them, idling among them, a herd of them, how late they tick."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.field import Context
from benchmarks.places import Postgres
from benchmarks.processes import Process, running
from benchmarks.rounds import Column, Entry, Failed, Figures, Skipped, Table
from benchmarks.tickers import for_schedules

COLUMNS = (
    Column("registered", "registered in, s", 1, target="under 20"),
    Column("queries", "idle among them: queries/s", 2, target="under 1"),
    Column("herd", "due in one second: made in, s", 1, target="under 3"),
    Column("doubled", "made twice", target="0"),
    Column("p50", "handler late: p50, ms", 1, target="under 20"),
    Column("p99", "p99, ms", 1, target="under 150"),
)

REPLICAS = 3
ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 60.0
#: A replica that has just joined says more than an idle one; a count of commits is a second late.
QUIET_SECONDS = 15.0


def table(context: Context) -> Table:
    """Measure three replicas over PostgreSQL."""
    if context.places.server is None:
        return Table(COLUMNS, [Skipped("onejob, 3 replicas", "no PostgreSQL")])
    return Table(COLUMNS, [Entry("onejob, 3 replicas", lambda: _measured(context))])


def _measured(context: Context) -> Figures:
    sizes = context.sizes
    with context.places.postgres() as place:
        registered = for_schedules.register(place.url, sizes.schedules)
        with ExitStack() as stack:
            one = _started(stack, place, 1)
            idle = _idled(place, one, sizes.idle_seconds)
        with ExitStack() as stack:
            replicas = [_started(stack, place, number) for number in range(2, 2 + REPLICAS)]
            herd, made = _herd(place, replicas, sizes.herd)
            late = _lateness(place, replicas, sizes.ticks)
    return {
        "registered": registered,
        "queries": idle,
        "herd": herd,
        "doubled": float(made - sizes.herd),
        "p50": _at(late, 0.5),
        "p99": _at(late, 0.99),
    }


def _started(stack: ExitStack, place: Postgres, number: int) -> Process:
    """Start a replica, and wait until it has joined."""
    environment = {
        **os.environ,
        "BENCH_URL": place.url,
        "BENCH_DIRECTORY": str(place.directory),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "benchmarks.tickers.for_schedules"]
    log = place.directory / f"replica-{number}.log"
    joined = "SELECT count(*) FROM onejob.replica"
    before = place.ask(joined)
    process = stack.enter_context(running(command, environment, log))
    process.wait_for("a replica", lambda: place.ask(joined) > before, seconds=START_SECONDS)
    return process


def _idled(place: Postgres, process: Process, seconds: float) -> float:
    """Count what a replica asks while nothing is due."""
    time.sleep(min(QUIET_SECONDS, seconds))
    commits, began = place.live_commits(), time.monotonic()
    time.sleep(seconds)
    process.check()
    return (place.live_commits() - commits) / (time.monotonic() - began)


def _herd(place: Postgres, replicas: list[Process], count: int) -> tuple[float, int]:
    """Let so many be due in one second; return how long it takes, and how many runs there are."""
    due = for_schedules.herd(place.url, count)
    made = "SELECT count(*) FROM onejob.ledger WHERE scope = 'noop'"
    replicas[0].wait_for("the herd", lambda: place.ask(made) >= count, seconds=START_SECONDS)
    took = time.time() - due
    ended = "SELECT count(*) FROM onejob.history WHERE schedule LIKE 'herd-%'"
    replicas[0].wait_for("its end", lambda: place.ask(ended) >= count, seconds=START_SECONDS)
    # What would come twice comes now.
    time.sleep(1.0)
    return took, place.ask(ended)


def _lateness(place: Postgres, replicas: list[Process], seconds: float) -> list[float]:
    """Tick every second; return how late each handler began, in milliseconds."""
    for_schedules.every_second(place.url)
    marks = place.directory / "fired"
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for process in replicas:
            process.check()
        time.sleep(0.1)
    if not marks.exists():
        raise Failed("nothing has fired")
    lines = [line.split() for line in marks.read_text().splitlines()]
    return sorted((float(at) - float(fire_time)) * 1e3 for fire_time, at, _ in lines)


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
