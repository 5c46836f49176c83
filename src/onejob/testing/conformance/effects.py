"""Effects outside the database: claimed before the call, recorded after it, never guessed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onejob.commands import ledger, views
from onejob.commands.ledger import NewEntry
from onejob.core.effect import Entry, EntryState
from onejob.core.run import LeaveUnknown, ReplicaId, Token
from onejob.core.time import DAY, HOUR, SECOND
from onejob.testing.conformance.given import (
    DONE,
    KEEP,
    NOW,
    Run,
    claim,
    made,
    running,
    settle,
    state,
    taken_over,
)
from onejob.testing.conformance.sessions import Sessions, gets_nothing

SCOPE = "mail/k"
CHARGE = NewEntry(SCOPE, "charge", "owner-a", "f1", claim_for=10 * SECOND)


def test_an_effect_is_claimed_once(run: Run) -> None:
    """E05"""
    token = run(ledger.claim(CHARGE, now=NOW))
    second = run(ledger.claim(replace(CHARGE, owner="owner-b"), now=NOW))

    assert token
    assert second is None
    entry = _entry(run, now=NOW + SECOND)
    assert (entry.state, entry.token, entry.owner) == (EntryState.CLAIMED, token, "owner-a")
    assert (entry.fingerprint, entry.attempt, entry.run_id) == ("f1", 1, 0)
    assert (entry.claimed, entry.claim_until) == (NOW, NOW + 10 * SECOND)
    assert entry.age == SECOND


def test_a_claim_in_a_run_needs_the_claim_that_holds_it(run: Run) -> None:
    """P2, P5: checked in the store, under the run row's lock."""
    old = running(run)
    new = taken_over(run, old)
    ended = running(run, "c", key="k2")
    assert settle(run, ended.claim, DONE)

    stale = run(ledger.claim_in_run(old.claim, CHARGE, now=NOW))
    borrowed = new.claim._replace(replica=ReplicaId("replica-a"))
    foreign = run(ledger.claim_in_run(borrowed, CHARGE, now=NOW))
    over = run(ledger.claim_in_run(ended.claim, CHARGE, now=NOW))
    token = run(ledger.claim_in_run(new.claim, CHARGE, now=NOW))

    assert (stale, foreign, over) == (None, None, None)
    assert token
    entry = _entry(run)
    assert (entry.run_id, entry.claim_until) == (new.id, 0)


def test_every_claim_and_reclaim_draws_a_fresh_token(run: Run) -> None:
    """C09"""
    first = _claimed(run)
    second = run(ledger.reclaim(CHARGE, held=first, now=NOW))
    assert second
    assert run(ledger.release(SCOPE, "charge", token=second, now=NOW))
    third = _claimed(run)

    assert first < second < third


@pytest.mark.parametrize("outcome", [EntryState.DONE, EntryState.FAILED])
def test_an_outcome_is_recorded_with_its_result(run: Run, outcome: EntryState) -> None:
    token = _claimed(run)

    assert _record(run, token, outcome, result='{"id":"ch_1"}', error="declined")

    entry = _entry(run)
    assert (entry.state, entry.result, entry.error) == (outcome, '{"id":"ch_1"}', "declined")


def test_recording_twice_is_recording_once(run: Run) -> None:
    """A record whose reply was lost may simply be asked again."""
    token = _claimed(run)
    assert _record(run, token, EntryState.DONE, result="1")
    before = _entry(run)

    assert _record(run, token, EntryState.DONE, result="1")
    assert _entry(run) == before


def test_a_stale_record_is_refused_after_a_reclaim(run: Run) -> None:
    """P5"""
    old = _claimed(run)
    new = run(ledger.reclaim(replace(CHARGE, owner="owner-b"), held=old, now=NOW))

    assert new
    assert not _record(run, old, EntryState.DONE, result="stale")
    entry = _entry(run)
    assert (entry.state, entry.owner, entry.attempt) == (EntryState.CLAIMED, "owner-b", 2)
    assert _record(run, new, EntryState.DONE)


def test_a_superseded_attempt_may_still_record_what_it_knows(run: Run) -> None:
    """P5, E11: the only one who knows whether the card was charged is heard."""
    old = running(run)
    token = run(ledger.claim_in_run(old.claim, CHARGE, now=NOW))
    assert token
    taken_over(run, old)

    assert _record(run, token, EntryState.DONE, result='"ch_1"')
    assert _entry(run).result == '"ch_1"'


def test_of_two_who_reclaim_one_gets_it(run: Run) -> None:
    """E18"""
    held = _claimed(run)

    answers = [
        run(ledger.reclaim(replace(CHARGE, owner=owner), held=held, now=NOW)) for owner in "bc"
    ]

    assert answers[0]
    assert answers[1] is None


def test_a_superseded_attempt_reclaims_nothing(run: Run) -> None:
    """P2"""
    old = running(run)
    held = run(ledger.claim_in_run(old.claim, CHARGE, now=NOW))
    assert held
    new = taken_over(run, old)

    assert run(ledger.reclaim(CHARGE, held=held, run=old.claim, now=NOW)) is None
    token = run(ledger.reclaim(CHARGE, held=held, run=new.claim, now=NOW))
    assert token
    assert token > held


def test_a_reclaim_in_a_run_makes_the_entry_its_own(run: Run) -> None:
    """P5: whoever reclaims may have to wait for the outcome, and is woken by it."""
    held = _claimed(run)
    claimed = running(run)
    token = run(ledger.reclaim(CHARGE, held=held, run=claimed.claim, now=NOW))
    assert token
    assert settle(run, claimed.claim, LeaveUnknown("charge"))

    assert _record(run, token, EntryState.DONE)

    assert _entry(run).run_id == claimed.id
    assert state(run, claimed.id) == "scheduled"


@pytest.mark.parametrize("outcome", [EntryState.DONE, EntryState.FAILED])
def test_what_is_settled_cannot_be_reclaimed_or_released(run: Run, outcome: EntryState) -> None:
    """E11: a call that is known to have happened is not made again."""
    token = _claimed(run)
    assert _record(run, token, outcome)

    assert run(ledger.reclaim(CHARGE, held=token, now=NOW)) is None
    assert not run(ledger.release(SCOPE, "charge", token=token, now=NOW))


def test_an_unknown_outcome_can_be_reclaimed_and_settled(run: Run) -> None:
    """E11, E18: it stays unknown until somebody decides, and then it is settled once."""
    held = _claimed(run)
    assert _record(run, held, EntryState.UNKNOWN, error="read timeout")
    assert _entry(run).error == "read timeout"

    token = run(ledger.reclaim(CHARGE, held=held, now=NOW + HOUR))

    assert token
    entry = _entry(run)
    assert (entry.state, entry.claimed) == (EntryState.CLAIMED, NOW)
    assert entry.claim_until == NOW + HOUR + 10 * SECOND


def test_a_call_that_was_not_sent_is_released_and_claimed_anew(run: Run) -> None:
    """E13"""
    token = _claimed(run)

    assert run(ledger.release(SCOPE, "charge", token=token, now=NOW))
    assert run(ledger.read(SCOPE, ["charge"], now=NOW)) == ()
    assert run(ledger.claim(CHARGE, now=NOW))


def test_a_stale_release_is_refused_after_a_reclaim(run: Run) -> None:
    """C01"""
    old = _claimed(run)
    assert run(ledger.reclaim(CHARGE, held=old, now=NOW))

    assert not run(ledger.release(SCOPE, "charge", token=old, now=NOW))
    assert _entry(run).attempt == 2


@pytest.mark.parametrize("outcome", [EntryState.DONE, EntryState.FAILED])
def test_a_known_outcome_wakes_the_run_that_waits_for_it(run: Run, outcome: EntryState) -> None:
    """P5"""
    replica, token = _waiting(run)

    assert _record(run, token, outcome, now=NOW + HOUR)

    [again] = claim(run, replica, now=NOW + HOUR)
    assert again.due == NOW + HOUR


def test_an_unknown_outcome_wakes_nobody(run: Run) -> None:
    replica, token = _waiting(run)

    assert _record(run, token, EntryState.UNKNOWN, now=NOW + HOUR)

    assert claim(run, replica, now=NOW + HOUR) == ()


def test_a_refused_record_wakes_nobody(run: Run) -> None:
    replica, token = _waiting(run)
    assert run(ledger.reclaim(CHARGE, held=token, now=NOW))

    assert not _record(run, token, EntryState.DONE, now=NOW + HOUR)
    assert claim(run, replica, now=NOW + HOUR) == ()


def test_a_release_wakes_the_run_that_waits_for_it(run: Run) -> None:
    replica, token = _waiting(run)

    assert run(ledger.release(SCOPE, "charge", token=token, now=NOW + HOUR))

    assert len(claim(run, replica, now=NOW + HOUR)) == 1


def test_a_record_does_not_disturb_a_run_that_does_not_wait(run: Run) -> None:
    claimed = running(run)
    token = run(ledger.claim_in_run(claimed.claim, CHARGE, now=NOW))
    assert token

    assert _record(run, token, EntryState.DONE)

    assert state(run, claimed.id) == "running"
    assert settle(run, claimed.claim, DONE)


def test_unknown_and_claimed_entries_are_never_purged(run: Run) -> None:
    """P5, E18"""
    _claimed(run)
    other = run(ledger.claim(replace(CHARGE, key="refund"), now=NOW))
    assert other
    assert run(
        ledger.record(
            SCOPE, "refund", token=other, state=EntryState.UNKNOWN, result=None, keep=0, now=NOW
        )
    )

    assert run(ledger.purge(limit=10, now=NOW + 10_000 * DAY)) == 0
    assert len(run(ledger.unsettled(limit=10, now=NOW))) == 2


def test_an_entry_is_kept_from_when_it_ended(run: Run) -> None:
    """P1: not from when it was claimed."""
    token = _claimed(run)
    assert _record(run, token, EntryState.DONE, now=NOW + 100 * DAY)

    assert run(ledger.purge(limit=10, now=NOW + 100 * DAY + KEEP)) == 0
    assert run(ledger.purge(limit=10, now=NOW + 100 * DAY + KEEP + 1)) == 1


def test_unsettled_effects_are_listed_oldest_first(run: Run) -> None:
    """P7, E18: each with how long it has been so, by the store's clock."""
    for n, key in enumerate(("c", "a", "b")):
        assert run(ledger.claim(replace(CHARGE, key=key), now=NOW + n))
    settled = run(ledger.claim(replace(CHARGE, key="done"), now=NOW))
    assert settled
    assert run(
        ledger.record(
            SCOPE, "done", token=settled, state=EntryState.DONE, result=None, keep=KEEP, now=NOW
        )
    )

    later = NOW + 3 * DAY
    listed = [(entry.key, entry.age) for entry in run(ledger.unsettled(limit=2, now=later))]

    assert listed == [("c", 3 * DAY), ("a", 3 * DAY - 1)]


def test_the_effects_of_a_run_can_be_looked_at(run: Run) -> None:
    claimed = running(run, key="k")
    token = run(ledger.claim_in_run(claimed.claim, CHARGE, now=NOW))
    assert token
    assert run(ledger.first_in_run(claimed.claim, SCOPE, "sent", keep=KEEP, now=NOW + 1))
    assert run(ledger.claim(replace(CHARGE, scope="mail/other"), now=NOW))
    # In the run's scope, but not its own; and a key of a run that has the scope's name for a job.
    assert run(ledger.claim(replace(CHARGE, key="by hand"), now=NOW))
    made(run, "key", job=SCOPE, keyed=True)

    effects = run(views.effects_of(claimed.id))

    assert [(e.key, e.state, e.token) for e in effects] == [
        ("charge", "claimed", token),
        ("sent", "done", 0),
    ]


def test_a_claim_in_a_run_keeps_the_run_until_it_is_committed(run: Run, sessions: Sessions) -> None:
    """P2: between the check and the claim nobody takes the run over."""
    claimed = running(run)
    holder, other = sessions.open(), sessions.open()
    assert holder.run(ledger.claim_in_run(claimed.claim, CHARGE, now=NOW))

    assert gets_nothing(lambda: settle(other.run, claimed.claim, DONE))
    other.rollback()
    holder.commit()

    assert settle(other.run, claimed.claim, DONE)


def test_a_claim_waits_for_one_that_may_yet_roll_back(run: Run, sessions: Sessions) -> None:
    """E06"""
    first, second = sessions.open(), sessions.open()
    assert first.run(ledger.claim(CHARGE, now=NOW))

    assert gets_nothing(lambda: second.run(ledger.claim(CHARGE, now=NOW)))
    second.rollback()
    first.rollback()

    assert second.run(ledger.claim(CHARGE, now=NOW))


def _entry(run: Run, *, now: int = NOW) -> Entry:
    [entry] = run(ledger.read(SCOPE, ["charge"], now=now))
    return entry


def _claimed(run: Run) -> Token:
    token = run(ledger.claim(CHARGE, now=NOW))
    assert token
    return token


def _record(
    run: Run,
    token: Token,
    outcome: EntryState,
    *,
    result: str | None = None,
    error: str | None = None,
    now: int = NOW,
) -> bool:
    return run(
        ledger.record(
            SCOPE,
            "charge",
            token=token,
            state=outcome,
            result=result,
            error=error,
            keep=KEEP,
            now=now,
        )
    )


def _waiting(run: Run) -> tuple[ReplicaId, Token]:
    """Leave a run in state unknown for an effect; return its replica and the effect's token."""
    claimed = running(run)
    token = run(ledger.claim_in_run(claimed.claim, CHARGE, now=NOW))
    assert token
    assert settle(run, claimed.claim, LeaveUnknown("charge"))
    return claimed.replica, token


def test_a_late_record_does_not_free_a_run_that_waits_for_a_person(run: Run) -> None:
    """P5, F11: its replica was lost, and its job says that then a person decides."""
    claimed = running(run, on_loss="unknown")
    token = run(ledger.claim_in_run(claimed.claim, ledger.NewEntry("s", "k", "a/1/x"), now=NOW))
    assert token is not None
    assert settle(run, claimed.claim, LeaveUnknown("its replica died", lost=True))

    late = ledger.record("s", "k", token=token, state=EntryState.DONE, result=None, keep=DAY)

    assert run(late)
    assert state(run, claimed.id) == "unknown"
