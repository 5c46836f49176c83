"""What can happen to a file: locked by others, held too long by a handler, no room left."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from faults.processes import Fleet, until
from onejob import App, LeaseLost, Retry, Run
from onejob.errors import StoreUnavailable

HERE = Path(__file__).parent

pytestmark = pytest.mark.slow


@contextmanager
def locked(url: str, seconds: float) -> Iterator[None]:
    """Let another process hold the file's lock for so long from now on."""
    path = url.removeprefix("sqlite:///")
    process = subprocess.Popen(
        [sys.executable, str(HERE / "holder.py"), path, str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
    finally:
        process.wait(seconds + 20)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("lease", ["2s", "12s"], ids=["lease lost meanwhile", "lease kept"])
def test_a_replica_survives_a_file_that_is_locked_for_three_seconds(
    sqlite_fleet: Fleet, lease: str
) -> None:
    """C31: no lock error ends a loop; what was running ends, and what came later is done."""
    fleet = sqlite_fleet
    [replica] = fleet.start(lease=lease)
    before = fleet.enqueue("short", "before")
    fleet.wait_for_mark("begun")

    with locked(fleet.url, 3):
        pass
    after = fleet.enqueue("quick", "after")
    ended = fleet.wait(*before, *after)

    assert replica.alive
    assert {run.outcome for run in ended} == {"succeeded"}
    assert len(fleet.marks("done", key="after")) == 1
    assert bool(replica.events("replica.lost")) == (lease == "2s")


def test_a_caller_waits_for_a_locked_file_and_is_then_told_clearly(sqlite_fleet: Fleet) -> None:
    """C31: enqueued while another process holds the file: it waits, within a bound."""
    fleet = sqlite_fleet
    begun = time.monotonic()
    with locked(fleet.url, 1.5):
        ids = fleet.enqueue("quick", "one")
        took = time.monotonic() - begun

    assert len(ids) == 1
    assert took > 1


def test_a_file_that_stays_locked_is_said_so_and_nothing_is_written(sqlite_fleet: Fleet) -> None:
    fleet = sqlite_fleet
    from onejob.core.time import SECOND, Span
    from onejob.stores.sqlite import SqliteStore

    store = SqliteStore(fleet.url.removeprefix("sqlite:///"), patience=Span(SECOND // 2))
    from onejob.commands import runs

    with locked(fleet.url, 1.5), pytest.raises(StoreUnavailable, match="has been writing") as told:
        store.run(runs.enqueue([runs.NewRun("quick", "one", "{}", keyed=True)]))
    store.close()

    assert "Nothing was written" in str(told.value)
    assert fleet.app.runs.find() == []


@pytest.fixture
def ledger(sqlite_url: str) -> Iterator[tuple[App, Path]]:
    """An App, and the path of its file with a table of the user's own in it."""
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    app = App(sqlite_url, name="shop", lease="3s", poll="100ms")
    app.store.init()  # type: ignore[attr-defined]  # every store in a file has it
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE sold (attempt INTEGER)")
    connection.close()
    yield app, path
    app.close()


def sold(path: Path) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT attempt FROM sold").fetchall()
    finally:
        connection.close()


def test_a_fenced_transaction_longer_than_its_bound_writes_nothing_and_doubles_nothing(
    ledger: tuple[App, Path],
) -> None:
    """P4: bounded at a third of the lease, since an open one stops every renewal."""
    app, path = ledger
    raised: list[BaseException] = []

    @app.job(retry=Retry(attempts=3, base="10ms"))
    def sell(run: Run) -> None:
        try:
            with run.transaction(complete=True) as connection:
                connection.execute("INSERT INTO sold VALUES (?)", (run.attempt,))
                if run.attempt == 1:
                    time.sleep(1.3)
        except LeaseLost as error:
            raised.append(error)
            raise

    app.start()
    ended = app.runs.wait(sell.enqueue().run_id, timeout="20s")

    assert "open for more than 1 s" in str(raised[0])
    assert sold(path) == [(2,)]
    assert (ended.outcome, ended.attempt, ended.deaths) == ("succeeded", 2, 0)


def test_a_fenced_transaction_longer_than_the_lease_is_rolled_back_too(
    ledger: tuple[App, Path],
) -> None:
    """P4, P2: nobody could renew meanwhile, its own replica neither; the run is done once."""
    app, path = ledger

    @app.job(retry=Retry(attempts=3, base="10ms"))
    def sell(run: Run) -> None:
        with run.transaction() as connection:
            connection.execute("INSERT INTO sold VALUES (?)", (run.attempt,))
            if run.attempt == 1:
                time.sleep(4)

    app.start()
    ended = app.runs.wait(sell.enqueue().run_id, timeout="30s")

    assert ended.outcome == "succeeded"
    assert len(sold(path)) == 1
    assert sold(path) != [(1,)]


def test_a_full_disk_is_said_clearly_leaves_nothing_half_written_and_ends_no_replica(
    sqlite_url: str,
) -> None:
    """What was refused can be enqueued again under its key, and all of it is executed once."""
    app = App(sqlite_url)
    app.store.init()  # type: ignore[attr-defined]  # every store in a file has it
    app.close()
    size = os.path.getsize(sqlite_url.removeprefix("sqlite:///"))

    done = subprocess.run(
        [sys.executable, str(HERE / "full_disk.py"), sqlite_url, str(size + 2_000_000)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["error"].startswith("StoreUnavailable: ")
    assert "disk" in seen["error"]
    assert seen["made"] > 3
    assert (seen["replica_met_it"], seen["created"]) == (True, True)
    assert set(seen["outcomes"]) == {"succeeded"}
    assert (seen["done"], seen["twice"], seen["running"]) == (True, 0, True)
    assert seen["runs"] == seen["made"] + 1
    until(lambda: intact(sqlite_url), "the file is intact", seconds=5)


def intact(url: str) -> bool:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()
