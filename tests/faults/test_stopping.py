"""SIGTERM: what is short finishes, what is long goes back, and the exit code tells which."""

from __future__ import annotations

import signal
import time

import pytest

from faults.processes import Fleet, until

pytestmark = pytest.mark.slow


def test_a_job_that_fits_in_the_grace_period_finishes(fleet: Fleet) -> None:
    """F12, F13: a job of 3 s, a grace of 10 s, exit 0, no lease left."""
    [replica] = fleet.start()
    [run] = fleet.enqueue("three_seconds", "one")
    fleet.wait_for_mark("begun")

    replica.signal(signal.SIGTERM)
    code = replica.ended()

    ended = fleet.run(run)
    assert code == 0
    assert (ended.outcome, ended.attempt, ended.interrupted) == ("succeeded", 1, 0)
    assert fleet.live() == []


@pytest.mark.parametrize("job", ["a_minute", "a_minute_in_a_thread"])
def test_a_long_job_is_given_back_before_the_grace_period_is_long_over(
    fleet: Fleet, job: str
) -> None:
    """F12, F13, B15: interrupted, without spending an attempt; exit 5; no lease left."""
    [replica] = fleet.start(grace="1s")
    [run] = fleet.enqueue(job, "one")
    fleet.wait_for_mark("begun")

    replica.signal(signal.SIGTERM)
    asked = time.monotonic()
    code = replica.ended()
    took = time.monotonic() - asked

    back = fleet.run(run)
    assert code == 5
    assert (back.state, back.attempt, back.interrupted) == ("scheduled", 0, 1)
    assert fleet.live() == []
    assert 1.0 <= took < 6


def test_a_run_that_was_interrupted_is_finished_by_another_replica(sqlite_fleet: Fleet) -> None:
    """B15, F12: at its first attempt, though its replica was asked to stop in the middle."""
    fleet = sqlite_fleet
    [first] = fleet.start(grace="200ms")
    [run] = fleet.enqueue("three_seconds", "one")
    fleet.wait_for_mark("begun")
    fleet.start()

    first.signal(signal.SIGTERM)
    [ended] = fleet.wait(run)

    assert first.ended() == 5
    assert (ended.outcome, ended.attempt, ended.interrupted) == ("succeeded", 1, 1)


def test_five_restarts_of_a_deploy_spend_no_attempt(sqlite_fleet: Fleet) -> None:
    """B15: two attempts allowed, five graceful stops, and the run is still runnable."""
    fleet = sqlite_fleet
    [run] = fleet.enqueue("a_minute", "one")
    for round in range(5):
        [replica] = fleet.start(grace="100ms")
        fleet.wait_for_mark("begun", count=round + 1)
        replica.signal(signal.SIGTERM)
        assert replica.ended() == 5

    back = fleet.run(run)
    assert (back.state, back.attempt, back.interrupted) == ("scheduled", 0, 5)


def test_a_second_signal_ends_at_once_and_the_run_is_taken_over(sqlite_fleet: Fleet) -> None:
    fleet = sqlite_fleet
    [first] = fleet.start()
    [run] = fleet.enqueue("three_seconds", "one")
    fleet.wait_for_mark("begun")

    first.signal(signal.SIGTERM)
    # Two signals that are pending at once are one.
    until(lambda: "draining" in first.said(), "it drains")
    first.signal(signal.SIGTERM)
    code = first.ended(seconds=5)
    fleet.start()
    [ended] = fleet.wait(run)

    assert code == 128 + signal.SIGTERM
    assert (ended.outcome, ended.deaths) == ("succeeded", 1)
