"""Cancel, retry, park and unpark: what people and other code do to runs that are not running."""

from __future__ import annotations

import pytest

from onejob.commands import replicas, runs, views
from onejob.core.run import Again, End, LeaveUnknown, Outcome, Park, RunId, Settlement
from onejob.core.time import HOUR, SECOND
from onejob.testing.conformance.given import (
    DONE,
    KEEP,
    NOW,
    Run,
    claim,
    joined,
    made,
    running,
    settle,
    state,
)


def test_retry_continues_the_same_run(run: Run) -> None:
    """P1"""
    old = running(run, key="invoice-1", keyed=True, args='{"n":1}', priority=4)
    assert settle(run, old.claim, End(Outcome.FAILED, "down"))

    assert run(runs.retry(old.id, now=NOW + HOUR))

    [again] = claim(run, old.replica, now=NOW + HOUR)
    assert (again.id, again.key, again.args, again.priority) == (
        old.id,
        "invoice-1",
        '{"n":1}',
        4,
    )
    assert (again.attempt, again.due, again.wanted) == (2, NOW + HOUR, NOW)
    assert again.token > old.token


def test_the_old_claim_stays_stale_after_a_retry(run: Run) -> None:
    """B13"""
    old = running(run)
    assert settle(run, old.claim, End(Outcome.FAILED))
    assert run(runs.retry(old.id, now=NOW))

    before_the_claim = settle(run, old.claim, DONE)
    [again] = claim(run, old.replica)
    after_it = settle(run, old.claim, DONE)

    assert not before_the_claim
    assert not after_it
    assert settle(run, again.claim, DONE)


def test_a_retried_run_ends_again_and_both_ends_are_kept(run: Run) -> None:
    first = running(run)
    assert settle(run, first.claim, End(Outcome.FAILED))
    assert run(runs.retry(first.id, now=NOW))
    [second] = claim(run, first.replica)
    assert settle(run, second.claim, DONE, now=NOW + SECOND)

    ends = [(view.token, view.outcome) for view in run(views.runs())]

    assert ends == [(second.token, "succeeded"), (first.token, "failed")]
    latest = run(views.run_get(first.id))
    assert latest is not None
    assert latest.outcome == "succeeded"


@pytest.mark.parametrize("live", ["scheduled", "running"])
def test_retry_is_refused_while_the_run_lives(run: Run, live: str) -> None:
    claimed = running(run)
    assert settle(run, claimed.claim, End(Outcome.FAILED))
    assert run(runs.retry(claimed.id, now=NOW))
    if live == "running":
        assert claim(run, claimed.replica)

    assert not run(runs.retry(claimed.id, now=NOW))
    assert state(run, claimed.id) == live


def test_retry_of_an_unkeyed_run_needs_no_key(run: Run) -> None:
    claimed = running(run, keyed=False)
    assert settle(run, claimed.claim, End(Outcome.FAILED))

    assert run(runs.retry(claimed.id, now=NOW))
    assert state(run, claimed.id) == "scheduled"


def test_nobody_retries_a_run_that_nobody_knows(run: Run) -> None:
    assert not run(runs.retry(RunId(2**60), now=NOW))


@pytest.mark.parametrize("way_out", [Park(), LeaveUnknown("?")], ids=repr)
def test_retry_frees_a_parked_or_unknown_run(run: Run, way_out: Settlement) -> None:
    claimed = running(run)
    assert settle(run, claimed.claim, way_out)

    assert run(runs.retry(claimed.id, now=NOW + SECOND))

    [again] = claim(run, claimed.replica, now=NOW + SECOND)
    assert (again.id, again.due) == (claimed.id, NOW + SECOND)


def test_a_run_left_unknown_is_woken_by_the_claim_that_left_it(run: Run) -> None:
    claimed = running(run)
    assert settle(run, claimed.claim, LeaveUnknown("no reply"))

    assert run(runs.wake(claimed.claim, now=NOW + HOUR))

    assert state(run, claimed.id) == "scheduled"
    assert not run(runs.wake(claimed.claim, now=NOW + HOUR))


def test_a_late_wake_revives_nothing(run: Run) -> None:
    """P2: a frozen replica thaws after the run has been settled, executed and ended by others."""
    claimed = running(run)
    assert settle(run, claimed.claim, LeaveUnknown("no reply"))
    assert run(runs.retry(claimed.id, now=NOW))
    [again] = claim(run, claimed.replica)
    assert not run(runs.wake(claimed.claim, now=NOW))
    assert settle(run, again.claim, LeaveUnknown("no reply"))
    left_by_another = run(runs.wake(claimed.claim, now=NOW))
    assert run(runs.cancel(again.id, keep=KEEP, now=NOW))

    ended = run(runs.wake(again.claim, now=NOW))

    assert (left_by_another, ended) == (False, False)
    assert state(run, claimed.id) == "ended"


def test_retry_forgives_deaths(run: Run) -> None:
    """A person has looked at it: it is claimed beside others again."""
    claimed = running(run)
    assert settle(run, claimed.claim, Again(0, Outcome.ABANDONED))
    [suspect] = run(runs.claim_alone(["default"], jobs=["mail"], replica=claimed.replica, now=NOW))
    assert settle(run, suspect.claim, LeaveUnknown("?"))

    assert run(runs.retry(claimed.id, now=NOW))

    [again] = claim(run, claimed.replica)
    assert again.deaths == 0


def test_a_retry_leaves_an_event(run: Run) -> None:
    """P7"""
    claimed = running(run)
    assert settle(run, claimed.claim, DONE)
    assert run(runs.retry(claimed.id, now=NOW))

    [event] = run(views.events(run_id=claimed.id))

    assert (event.kind, event.token) == ("run.retried", claimed.token)


@pytest.mark.parametrize("way_out", [Again(0, Outcome.FAILED), Park(), LeaveUnknown("?")], ids=repr)
def test_cancel_ends_what_is_not_running(run: Run, way_out: Settlement) -> None:
    claimed = running(run)
    assert settle(run, claimed.claim, way_out)

    assert run(runs.cancel(claimed.id, keep=KEEP, now=NOW + SECOND))

    view = run(views.run_get(claimed.id))
    assert view is not None
    assert (view.state, view.outcome, view.ended) == ("ended", "cancelled", NOW + SECOND)
    assert view.token > claimed.token
    assert claim(run, claimed.replica, now=NOW + HOUR) == ()


def test_a_run_cancelled_before_its_first_attempt_can_be_retried(run: Run) -> None:
    id = made(run, "k", keyed=True)
    assert run(runs.cancel(id, keep=KEEP, now=NOW))
    assert not run(runs.cancel(id, keep=KEEP, now=NOW))

    assert run(runs.retry(id, now=NOW))
    [claimed] = claim(run, joined(run))
    assert (claimed.id, claimed.attempt) == (id, 1)


def test_a_run_of_a_job_that_no_live_replica_knows_is_parked(run: Run) -> None:
    """F14, G01: visible, never deleted, no attempt spent; run by whoever knows it."""
    joined(run, "old", jobs=["mail"])
    unknown, known = made(run, job="os:system"), made(run, job="mail")

    parked = run(runs.park_unknown(now=NOW))
    new = joined(run, "new", jobs=["mail", "os:system"])
    back = run(runs.unpark(["os:system"], now=NOW + SECOND))

    assert (parked, back) == (1, 1)
    assert state(run, known) == "scheduled"
    [claimed] = claim(run, new, jobs=["os:system"], now=NOW + SECOND)
    assert (claimed.id, claimed.attempt, claimed.due) == (unknown, 1, NOW + SECOND)


def test_a_run_that_outlived_a_replica_is_parked_too(run: Run) -> None:
    """F14"""
    claimed = running(run, "replica-a")
    assert settle(run, claimed.claim, Again(0, Outcome.ABANDONED))
    later = NOW + HOUR
    joined(run, "b", jobs=["bill"], now=later)
    assert run(replicas.judge(now=later)) == (claimed.replica,)

    assert run(runs.park_unknown(now=later)) == 1
    assert state(run, claimed.id) == "parked"


def test_future_runs_of_unknown_jobs_are_not_parked_yet(run: Run) -> None:
    joined(run)
    id = made(run, job="bill", at=NOW + HOUR)

    assert run(runs.park_unknown(now=NOW)) == 0
    assert state(run, id) == "scheduled"


def test_unpark_brings_back_only_the_jobs_asked_for(run: Run) -> None:
    joined(run)
    bill, ship = made(run, job="bill"), made(run, job="ship")
    assert run(runs.park_unknown(now=NOW)) == 2

    assert run(runs.unpark(["ship"], now=NOW)) == 1
    assert (state(run, bill), state(run, ship)) == ("parked", "scheduled")
