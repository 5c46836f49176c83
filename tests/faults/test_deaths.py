"""Replicas that are killed, and handlers that kill them."""

from __future__ import annotations

import signal
import time

import pytest

from faults.processes import Fleet, until

pytestmark = pytest.mark.slow


def test_a_handler_that_kills_its_process_is_given_up_after_the_third_death(fleet: Fleet) -> None:
    """B04, B07: deaths count at the claim; the fourth replica and the neighbours live on."""
    fleet.start(4, lease="2s")
    [poison] = fleet.enqueue("kills_its_process", "poison")
    neighbours = fleet.enqueue("short", *(f"n{place}" for place in range(8)))

    [ended] = fleet.wait(poison)
    others = fleet.wait(*neighbours)

    assert (ended.outcome, ended.attempt, ended.deaths) == ("abandoned", 3, 3)
    assert "worker lost 3 times" in (ended.error or "")
    assert len(fleet.marks("begun", key="poison")) == 3
    assert sum(replica.alive for replica in fleet.replicas) == 1
    # A neighbour may have been beside it when it struck first; alone after that, it hit nobody.
    assert {run.outcome for run in others} == {"succeeded"}
    assert max(run.deaths for run in others) <= 1
    for place in range(8):
        assert len(fleet.marks("done", key=f"n{place}")) == 1


@pytest.mark.parametrize(
    ("lease", "bound"), [("2s", 3.0), pytest.param("3s", 4.0, marks=pytest.mark.soak)]
)
def test_the_run_of_a_killed_replica_is_taken_over_within_the_lease_and_a_second(
    fleet: Fleet, lease: str, bound: float
) -> None:
    """P3, A15, B07, B16: bounded by the lease, whatever the job takes."""
    fleet.start(2, lease=lease)
    [run] = fleet.enqueue("a_minute", "one")
    first = fleet.wait_for_mark("begun")
    # Both have looked at each other soundly for a lease, as any that have been up for a while.
    time.sleep(1.2 * int(lease[0]))

    fleet.of(first.pid).signal(signal.SIGKILL)
    killed = time.monotonic()
    second = fleet.wait_for_mark("begun", count=2)
    took = time.monotonic() - killed

    print(f"taken over {took:.2f} s after SIGKILL with lease={lease} (bound {bound:.0f} s)")
    assert (second.attempt, second.pid != first.pid) == (2, True)
    assert took < 2 * bound
    assert fleet.run(run).deaths == 1


@pytest.mark.soak
def test_a_killed_replica_at_default_settings_is_taken_over_within_seventeen_seconds(
    postgres_fleet: Fleet,
) -> None:
    """P3: the lease of 12 s, and a sweep."""
    fleet = postgres_fleet
    fleet.start(2, lease="12s", poll="2s")
    fleet.enqueue("a_minute", "one")
    first = fleet.wait_for_mark("begun")
    time.sleep(13)

    fleet.of(first.pid).signal(signal.SIGKILL)
    killed = time.monotonic()
    fleet.wait_for_mark("begun", count=2)
    took = time.monotonic() - killed

    print(f"taken over {took:.2f} s after SIGKILL with lease=12s")
    assert took < 17


def test_a_killed_fleet_loses_nothing_and_ends_each_run_once(fleet: Fleet) -> None:
    """P3: killed at random moments of its work, and started again."""
    ids = fleet.enqueue("short", *(f"r{place:02}" for place in range(40)))
    for round in range(3):
        [replica] = fleet.start(1, lease="1s", concurrency="4")
        fleet.wait_for_mark("begun", count=4 * (round + 1))
        replica.signal(signal.SIGKILL)
        replica.ended()
    fleet.start(2, lease="1s", concurrency="4")

    ended = fleet.wait(*ids)

    assert {run.outcome for run in ended} == {"succeeded"}
    for run in ended:
        begun = fleet.marks("begun", key=run.key)
        assert len(begun) == run.attempt == run.deaths + 1
    until(lambda: not fleet.app.runs.find(state="running"), "nothing runs any more")
