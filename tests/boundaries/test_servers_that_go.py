"""PostgreSQL ends sessions, or goes away and comes back, while two workers drain a queue."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGINT, SIGQUIT, Signals

import pytest

from boundaries.conftest import Make, install
from boundaries.fleet import Fleet, build, names, until, working
from boundaries.place import Place, counted
from boundaries.restarts import Restartable
from boundaries.tables import Row
from onejob.commands import runs
from onejob.commands.runs import NewRun
from servers.server import NotThere

RUNS = 2_000
OPTIONS = {"lease": "6s", "concurrency": 4}


@pytest.fixture(scope="module")
def server() -> Iterator[Restartable]:
    try:
        server = Restartable.found()
    except NotThere as why:
        pytest.skip(f"not run: no PostgreSQL of our own to restart ({why})")
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_sessions_that_the_server_ends_at_random_cost_no_run(
    make: Make, fleet: Fleet, tabled: Callable[[Row], None]
) -> None:
    """C27, P3, P4: ``pg_terminate_backend`` on everything that onejob has open, again and again."""
    place = make("postgresql")
    chance = random.Random(7)
    fill(place)
    for _ in range(2):
        fleet.start(working, place, True, dict(OPTIONS))

    ended = 0
    patience = time.monotonic() + 120
    while place.open_runs() and time.monotonic() < patience:
        # Each of them with one chance in three; all of them, now and then.
        share = chance.choice([0.3, 0.3, 1.0])
        mine = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            f" WHERE application_name = '{place.schema}' AND pid <> pg_backend_pid()"
            f" AND random() < {share}"
        )
        try:
            ended += int(place.query(mine)[0][0])
        except Exception as error:
            if "terminating connection" not in str(error):
                raise
        time.sleep(chance.uniform(0.02, 0.1))

    judge(place, "sessions ended at random", ended, tabled)


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_a_server_restarted_under_load_costs_no_run(
    server: Restartable, tmp_path: Path, fleet: Fleet, tabled: Callable[[Row], None]
) -> None:
    """P3, P4: a fast shutdown, then an immediate one, which is a crash with recovery."""
    place = Place("postgresql", server._url, "b_restarts", tmp_path / "calls")
    install(place)
    fill(place)
    for _ in range(2):
        fleet.start(working, place, True, dict(OPTIONS))

    how: Signals
    for left, how in ((RUNS * 3 // 4, SIGINT), (RUNS // 3, SIGQUIT)):
        until(lambda left=left: place.open_runs() < left, seconds=60, what=f"{left} are left")
        server.restart(how)
    until(lambda: place.open_runs() == 0, seconds=90, what="all runs have ended")

    judge(place, "restarted, fast and immediately", 2, tabled)


def fill(place: Place) -> None:
    """Enqueue all the runs, each under a key of its own, in one go."""
    app = build(place, ticking=False)
    new = [NewRun(job="finish", key=str(n), args="{}", keyed=True) for n in range(RUNS)]
    app.store.run(runs.enqueue(new))
    app.close()


def judge(place: Place, fault: str, injected: int, tabled: Callable[[Row], None]) -> None:
    count = counted(place, names("finish", range(RUNS)))
    tabled(
        Row(
            table="a server that goes, 2 workers, 2,000 runs",
            store="postgresql",
            fault=fault,
            injected=injected,
            runs=count.runs,
            unknown=count.unknown,
            lost=len(count.lost),
            doubled=len(count.doubled),
        )
    )
    assert injected > 0
    assert place.open_runs() == 0
    assert (count.lost[:5], count.doubled[:5]) == ((), ())
