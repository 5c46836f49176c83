"""Settle: every way out of *running*, each under the claim that holds, and no other."""

from __future__ import annotations

import json

import pytest

from onejob.commands import runs, views
from onejob.core.run import (
    Again,
    Claim,
    End,
    LeaveUnknown,
    Outcome,
    Park,
    ReplicaId,
    RunId,
    Settlement,
    Token,
)
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
    taken_over,
)

EVERY_WAY_OUT: list[Settlement] = [
    DONE,
    End(Outcome.FAILED, "no such address"),
    Again(SECOND, Outcome.FAILED, "down"),
    Again(SECOND, Outcome.ABANDONED),
    Again(0, Outcome.INTERRUPTED),
    Park(),
    LeaveUnknown("no reply from the provider"),
]
every_way_out = pytest.mark.parametrize("way_out", EVERY_WAY_OUT, ids=repr)


@every_way_out
def test_the_claim_that_holds_can_settle(run: Run, way_out: Settlement) -> None:
    claimed = running(run)

    assert settle(run, claimed.claim, way_out)
    assert state(run, claimed.id) != "running"


@every_way_out
def test_a_stale_token_cannot_settle(run: Run, way_out: Settlement) -> None:
    """B13, B20: a late completion is not credited to the newer attempt, which goes on."""
    old = running(run)
    new = taken_over(run, old)

    assert not settle(run, old.claim, way_out)
    assert run(runs.held(new.replica)) == (new,)
    assert settle(run, new.claim, DONE)


@every_way_out
def test_another_replica_cannot_settle_under_the_right_token(run: Run, way_out: Settlement) -> None:
    """After failover to an asynchronous copy a number may be issued again: the replica counts."""
    claimed = running(run)

    assert not settle(run, claimed.claim._replace(replica=ReplicaId("replica-b")), way_out)
    assert run(runs.held(claimed.replica)) == (claimed,)


@every_way_out
def test_a_run_that_is_not_running_cannot_be_settled(run: Run, way_out: Settlement) -> None:
    claimed = running(run)
    assert settle(run, claimed.claim, LeaveUnknown("?"))

    assert not settle(run, claimed.claim, way_out)
    assert not settle(run, Claim(claimed.id, claimed.token, ReplicaId("")), way_out)
    assert state(run, claimed.id) == "unknown"


@every_way_out
def test_what_has_ended_stays_as_it_ended(run: Run, way_out: Settlement) -> None:
    """B17, B21: a sweeper or a second completion changes nothing and brings nothing back."""
    claimed = running(run)
    assert settle(run, claimed.claim, End(Outcome.SUCCEEDED, result='"ok"'))
    before = run(views.run_get(claimed.id))

    assert not settle(run, claimed.claim, way_out, now=NOW + HOUR)
    assert run(views.run_get(claimed.id)) == before


def test_nobody_settles_a_run_that_nobody_knows(run: Run) -> None:
    assert not settle(run, Claim(RunId(2**60), Token(1), ReplicaId("a")), DONE)


def test_stale_claims_are_absent_and_do_not_hold_up_the_rest(run: Run) -> None:
    stale = running(run)
    fresh = taken_over(run, stale)
    others = [made(run, f"k{n}") for n in range(3)]
    held = claim(run, fresh.replica)
    batch = [(one.claim, DONE) for one in (stale, *held)]

    answer = run(runs.settle(batch, keep=KEEP, now=NOW))

    assert sorted(one.id for one in answer) == others
    assert state(run, fresh.id) == "running"


def test_one_batch_may_go_every_way(run: Run) -> None:
    ids = [made(run, f"k{n}") for n in range(len(EVERY_WAY_OUT))]
    held = claim(run, joined(run))
    batch = list(zip((one.claim for one in held), EVERY_WAY_OUT, strict=True))

    answer = run(runs.settle(batch, keep=KEEP, now=NOW))

    assert [one.id for one in answer] == ids
    states = [state(run, id) for id in ids]
    ended, scheduled = ["ended"] * 2, ["scheduled"] * 3
    assert states == [*ended, *scheduled, "parked", "unknown"]


def test_an_end_is_kept_with_who_ran_it_when_and_how_it_went(run: Run) -> None:
    """A06"""
    claimed = running(run, key="k", keyed=True)
    assert run(runs.progress(claimed.claim, "7 of 9"))
    end = End(Outcome.FAILED, "no such address", '{"n":9007199254740993}')

    assert settle(run, claimed.claim, end, now=NOW + SECOND)

    view = run(views.run_get(claimed.id))
    assert view is not None
    assert (view.state, view.outcome, view.attempt) == ("ended", "failed", 1)
    assert (view.token, view.replica) == (claimed.token, claimed.replica)
    assert (view.started, view.ended) == (NOW, NOW + SECOND)
    assert (view.error, view.result, view.progress) == (end.error, end.result, "7 of 9")


def test_again_gives_back_with_a_delay_from_now(run: Run) -> None:
    claimed = running(run)

    assert settle(run, claimed.claim, Again(30 * SECOND, Outcome.FAILED), now=NOW + SECOND)

    view = run(views.run_get(claimed.id))
    assert view is not None
    assert (view.state, view.replica, view.due) == ("scheduled", "", NOW + 31 * SECOND)
    assert claim(run, claimed.replica, now=NOW + 31 * SECOND - 1) == ()
    assert len(claim(run, claimed.replica, now=NOW + 31 * SECOND)) == 1


def test_giving_back_never_moves_due_into_the_past(run: Run) -> None:
    """Behind every watermark it would wait for a full claim, for no reason."""
    claimed = running(run, at=NOW - HOUR)

    assert settle(run, claimed.claim, Again(0, Outcome.FAILED), now=NOW + HOUR)

    view = run(views.run_get(claimed.id))
    assert view is not None
    assert view.due == NOW + HOUR


@pytest.mark.parametrize("why", [Outcome.FAILED, Outcome.TIMED_OUT, Outcome.ABANDONED])
def test_a_real_attempt_is_never_refunded(run: Run, why: Outcome) -> None:
    """B06: every path back goes through one counter."""
    claimed = running(run)

    assert settle(run, claimed.claim, Again(0, why))

    view = run(views.run_get(claimed.id))
    assert view is not None
    assert (view.attempt, view.interrupted) == (1, 0)


def test_a_clean_interruption_refunds_the_attempt_and_counts_itself(run: Run) -> None:
    """B15"""
    claimed = running(run)
    for _ in range(4):
        assert settle(run, claimed.claim, Again(0, Outcome.INTERRUPTED))
        [claimed] = claim(run, claimed.replica)

    assert (claimed.attempt, claimed.interrupted, claimed.deaths) == (1, 4, 0)


def test_a_death_counts_beside_the_attempt(run: Run) -> None:
    """B04, B05: the counter stands on the run, so it survives redelivery."""
    first = running(run)

    second = taken_over(run, first)

    assert (second.attempt, second.deaths) == (2, 1)


def test_the_last_death_is_counted_too(run: Run) -> None:
    """B04: the end says how many replicas it took."""
    second = taken_over(run, running(run))

    assert settle(run, second.claim, End(Outcome.ABANDONED, "its replica died"))

    view = run(views.run_get(second.id))
    assert view is not None
    assert (view.outcome, view.deaths, view.attempt) == ("abandoned", 2, 2)


def test_parking_refunds_the_attempt(run: Run) -> None:
    """F14"""
    claimed = running(run)
    assert settle(run, claimed.claim, Park())
    assert state(run, claimed.id) == "parked"
    assert claim(run, claimed.replica) == ()

    assert run(runs.unpark(["mail"], now=NOW + SECOND)) == 1

    [again] = claim(run, claimed.replica, now=NOW + SECOND)
    assert (again.attempt, again.due) == (1, NOW + SECOND)


def test_an_unknown_run_is_not_claimed_by_itself(run: Run) -> None:
    """E11, E18: left for a policy or a person, never repeated by itself."""
    claimed = running(run)
    assert settle(run, claimed.claim, LeaveUnknown("the call ended without an answer"))

    assert claim(run, claimed.replica, now=NOW + HOUR) == ()
    view = run(views.run_get(claimed.id))
    assert view is not None
    assert (view.state, view.error, view.attempt) == (
        "unknown",
        "the call ended without an answer",
        1,
    )


def test_an_error_survives_an_attempt_that_brings_none(run: Run) -> None:
    claimed = running(run)
    assert settle(run, claimed.claim, Again(0, Outcome.FAILED, "down"))
    [again] = claim(run, claimed.replica)

    assert settle(run, again.claim, Again(0, Outcome.INTERRUPTED))

    view = run(views.run_get(claimed.id))
    assert view is not None
    assert view.error == "down"


def test_every_attempt_but_a_success_leaves_an_event(run: Run) -> None:
    """P7"""
    claimed = running(run, key="k")
    assert settle(run, claimed.claim, Again(SECOND, Outcome.FAILED, "down"))
    [again] = claim(run, claimed.replica, now=NOW + SECOND)
    assert settle(run, again.claim, DONE, now=NOW + SECOND)

    [event] = run(views.events(run_id=claimed.id))

    assert (event.kind, event.at, event.job, event.key) == ("attempt.failed", NOW, "mail", "k")
    assert (event.token, event.replica) == (claimed.token, claimed.replica)
    assert json.loads(event.detail) == {
        "attempt": 1,
        "error": "down",
        "to": "scheduled",
        "delay": SECOND,
    }


def test_an_empty_batch_settles_nothing(run: Run) -> None:
    assert run(runs.settle([], keep=KEEP, now=NOW)) == ()
