"""Sixteen workers and four sweepers on one PostgreSQL: they wait for each other, never for ever."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from boundaries.conftest import install
from boundaries.fleet import Fleet, build, names, sweeping, until, working
from boundaries.place import Place, counted
from boundaries.restarts import Restartable
from boundaries.tables import Row
from onejob.commands import runs
from onejob.commands.runs import NewRun
from servers.server import NotThere

PROCESSES, REPLICAS, SWEEPERS, BATCH = 4, 4, 4, 40
TROUBLE = re.compile(r"deadlock|serializ|40P01|40001|Traceback| ERROR|^ERROR", re.MULTILINE)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place on a server of its own: this crowd would use up the tests' server's connections."""
    try:
        server = Restartable.found()
    except NotThere as why:
        pytest.skip(f"not run: no PostgreSQL of our own ({why})")
    try:
        place = Place("postgresql", server.start(), "b_crowd", tmp_path / "calls")
        install(place)
        yield place
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seconds", [10, pytest.param(60, marks=pytest.mark.soak)])
def test_no_deadlock_reaches_anybody_and_each_run_happens_once(
    seconds: int, place: Place, tmp_path: Path, fleet: Fleet, tabled: Callable[[Row], None]
) -> None:
    """G01, P1-P4: what the server rolls back is tried again; no handler and no log sees it."""
    logs = [tmp_path / f"log-{n}" for n in range(PROCESSES + 1)]
    for log in logs[1:]:
        options = {"replicas": REPLICAS, "lease": "6s", "concurrency": 4}
        fleet.start(working, place, True, options, str(log))
    fleet.start(sweeping, place, SWEEPERS, str(logs[0]))

    asked = enqueue_for(place, seconds)
    until(lambda: place.open_runs() == 0, seconds=60, what="all runs have ended")

    count = counted(place, asked)
    told = "\n".join(log.read_text() for log in logs if log.exists())
    trouble = TROUBLE.findall(told)
    # What a handler is told of is no error in the log: it fails, and is tried again.
    again = place.query("SELECT job, key FROM {t}history WHERE attempt > 1 AND deaths = 0")
    tabled(
        Row(
            table="16 workers and 4 sweepers",
            store="postgresql",
            fault=f"{seconds} s of fenced writes and effects",
            injected=len(trouble),
            runs=count.runs,
            unknown=count.unknown,
            lost=len(count.lost),
            doubled=len(count.doubled),
            note=f"{len(trouble)} errors in a log, {len(again)} in a handler",
        )
    )
    assert trouble == [], told[:4_000]
    assert again == []
    assert (count.lost[:5], count.doubled[:5]) == ((), ())


def enqueue_for(place: Place, seconds: float) -> set[str]:
    """Enqueue small batches of each job for so long, each batch twice; return the names."""
    app = build(place, ticking=False)
    asked: set[str] = set()
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        first = len(asked)
        for job in ("write", "finish", "send"):
            numbers = range(first, first + BATCH)
            new = [NewRun(job=job, key=str(n), args="{}", keyed=True) for n in numbers]
            app.store.run(runs.enqueue(new))
            app.store.run(runs.enqueue(new[::-1]))
            asked |= names(job, numbers)
        until(lambda: place.open_runs() < 10 * BATCH, seconds=30, what="the crowd keeps up")
    app.close()
    return asked
