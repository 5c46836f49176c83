"""Replicas that stand still past their lease, and handlers that let nobody else have a turn."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from faults.processes import Fleet, Replica, until
from onejob.demo.processes import frozen

pytestmark = pytest.mark.slow


def freeze(fleet: Fleet, replica: Replica) -> None:
    """Stop a replica, but not inside a write: on SQLite that would stop every other one too."""
    frozen(replica.pid, lambda: writable(fleet.url), name="the replica")


def writable(url: str) -> bool:
    """Tell whether anybody can write."""
    if not url.startswith("sqlite"):
        return True
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0.3)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE").close()
            connection.execute("ROLLBACK").close()
        except sqlite3.OperationalError:
            return False
    return True


def superseded(fleet: Fleet, job: str) -> tuple[int, Replica, Replica]:
    """Freeze a replica in its handler until another has taken its run over; thaw it."""
    [first] = fleet.start()
    [run] = fleet.enqueue(job, "one")
    fleet.wait_for_mark("begun")
    [second] = fleet.start()
    freeze(fleet, first)
    again = fleet.wait_for_mark("begun", count=2)
    assert (again.pid, again.attempt) == (second.pid, 2)
    first.signal(signal.SIGCONT)
    return run, first, second


def back_under_another_id(first: Replica) -> Callable[[], bool]:
    return lambda: len({e["replica"] for e in first.events("replica.joined")}) == 2


def test_the_effect_of_a_thawed_replica_is_refused_and_the_run_done_once(fleet: Fleet) -> None:
    """P2, B03: it believed in its lease when it went to sleep."""
    run, first, second = superseded(fleet, "waits_then_mails")

    fleet.go()
    [ended] = fleet.wait(run)
    fleet.wait_for_mark("refused")

    assert [mark.pid for mark in fleet.marks("mailed")] == [second.pid]
    assert [mark.pid for mark in fleet.marks("refused")] == [first.pid]
    assert (ended.outcome, ended.attempt, ended.deaths) == ("succeeded", 2, 1)
    until(back_under_another_id(first), "the thawed replica is back under another id")
    assert [event["replica"] for event in first.events("replica.lost")] != []


def test_the_late_completion_of_a_thawed_replica_is_refused(fleet: Fleet) -> None:
    """P2: a handler that asks nobody may return; its run is somebody else's."""
    run, first, second = superseded(fleet, "waits_and_checks_nothing")

    fleet.go()
    [ended] = fleet.wait(run)
    fleet.wait_for_mark("done", count=2)

    assert (ended.outcome, ended.attempt) == ("succeeded", 2)
    assert ended.replica in {event["replica"] for event in second.events("replica.joined")}
    assert first.events("run.ended") == []


def test_the_fenced_transaction_of_a_thawed_replica_writes_nothing(fleet: Fleet) -> None:
    """P4."""
    with fleet.app.store.transaction(longest=1_000_000) as connection:  # type: ignore[arg-type]
        connection.execute("CREATE TABLE sold (who TEXT)")
    try:
        run, first, second = superseded(fleet, "waits_then_writes")
        fleet.go()
        fleet.wait(run)
        fleet.wait_for_mark("refused")

        with fleet.app.store.transaction(longest=1_000_000) as connection:  # type: ignore[arg-type]
            sold = connection.execute("SELECT who FROM sold").fetchall()

        assert [who for (who,) in sold] == [str(second.pid)]
        assert [mark.pid for mark in fleet.marks("refused")] == [first.pid]
    finally:
        with fleet.app.store.transaction(longest=1_000_000) as connection:  # type: ignore[arg-type]
            connection.execute("DROP TABLE sold")


def test_a_handler_that_blocks_the_loop_for_three_leases_keeps_the_lease(fleet: Fleet) -> None:
    """B14: the lease is renewed from a thread; the run is executed once."""
    fleet.start(2, lease="1s")

    [run] = fleet.enqueue("blocks_the_loop", "one", seconds=3.5)
    [ended] = fleet.wait(run)

    assert (ended.outcome, ended.attempt, ended.deaths) == ("succeeded", 1, 0)
    assert len(fleet.marks("begun")) == 1
    assert [e for replica in fleet.replicas for e in replica.events("replica.lost")] == []
