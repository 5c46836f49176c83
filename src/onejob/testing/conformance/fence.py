"""Fence and progress: what an attempt may do while it runs, and what keeps others out meanwhile."""

from __future__ import annotations

from onejob.commands import ledger, runs, views
from onejob.core.run import Again, End, LeaveUnknown, Outcome, ReplicaId
from onejob.core.time import HOUR, SECOND
from onejob.testing.conformance.given import (
    DONE,
    KEEP,
    NOW,
    Run,
    running,
    settle,
    state,
    taken_over,
)
from onejob.testing.conformance.sessions import Sessions, gets_nothing

LIMIT = 12 * SECOND


def test_the_claim_that_holds_may_record_progress(run: Run) -> None:
    claimed = running(run)

    assert run(runs.progress(claimed.claim, "3 of 9"))

    view = run(views.run_get(claimed.id))
    assert view is not None
    assert view.progress == "3 of 9"


def test_a_superseded_attempt_records_no_progress(run: Run) -> None:
    old = running(run)
    taken_over(run, old)

    assert not run(runs.progress(old.claim, "3 of 9"))
    assert not run(runs.progress(old.claim._replace(replica=ReplicaId("x")), "3 of 9"))
    view = run(views.run_get(old.id))
    assert view is not None
    assert view.progress is None


def test_an_ended_run_records_no_progress(run: Run) -> None:
    claimed = running(run)
    assert settle(run, claimed.claim, DONE)

    assert not run(runs.progress(claimed.claim, "3 of 9"))


def test_a_fence_holds_for_exactly_the_present_claim(run: Run, sessions: Sessions) -> None:
    """A21"""
    old = running(run)
    new = taken_over(run, old)
    session = sessions.open()

    stale = session.run(runs.fence(old.claim, idle_limit=LIMIT, now=NOW))
    other = new.claim._replace(replica=ReplicaId("replica-a"))
    borrowed = session.run(runs.fence(other, idle_limit=LIMIT, now=NOW))
    held = session.run(runs.fence(new.claim, idle_limit=LIMIT, now=NOW))

    assert (stale, borrowed, held) == (False, False, True)


def test_a_fence_is_refused_for_a_run_that_is_not_running(run: Run, sessions: Sessions) -> None:
    claimed = running(run)
    assert settle(run, claimed.claim, LeaveUnknown("?"))

    assert not sessions.open().run(runs.fence(claimed.claim, idle_limit=LIMIT, now=NOW))


def test_nobody_takes_a_run_over_while_its_fence_stands(run: Run, sessions: Sessions) -> None:
    """C09: a guard that was only read would let the takeover commit beside the stale write."""
    claimed = running(run)
    holder, sweeper = sessions.open(), sessions.open()
    assert holder.run(runs.fence(claimed.claim, idle_limit=LIMIT, now=NOW))
    give_back = runs.settle([(claimed.claim, Again(0, Outcome.ABANDONED))], keep=KEEP, now=NOW)

    assert gets_nothing(lambda: sweeper.run(give_back))
    sweeper.rollback()
    holder.commit()

    assert sweeper.run(give_back) == (claimed.claim,)
    sweeper.commit()
    assert state(run, claimed.id) == "scheduled"


def test_a_fence_goes_when_its_transaction_is_rolled_back(run: Run, sessions: Sessions) -> None:
    claimed = running(run)
    holder, other = sessions.open(), sessions.open()
    assert holder.run(runs.fence(claimed.claim, idle_limit=LIMIT, now=NOW))
    holder.rollback()

    assert other.run(runs.settle([(claimed.claim, DONE)], keep=KEEP, now=NOW))


def test_a_run_is_free_for_exactly_the_present_claim(run: Run) -> None:
    old = running(run)
    new = taken_over(run, old)

    stale, present = run(runs.free(old.claim)), run(runs.free(new.claim))
    other = run(runs.free(new.claim._replace(replica=ReplicaId("x"))))
    assert settle(run, new.claim, DONE)

    assert (stale, other, present) == (False, False, True)
    assert not run(runs.free(new.claim))


def test_a_run_is_free_again_when_its_fence_has_gone(run: Run, row_sessions: Sessions) -> None:
    """The look neither waits for the fence nor keeps the next one out."""
    claimed = running(run)
    holder, onlooker = row_sessions.open(), row_sessions.open()
    assert holder.run(runs.fence(claimed.claim, idle_limit=LIMIT, now=NOW))

    during = onlooker.run(runs.free(claimed.claim))
    holder.rollback()
    after = onlooker.run(runs.free(claimed.claim))
    onlooker.rollback()

    assert (during, after) == (False, True)
    assert holder.run(runs.fence(claimed.claim, idle_limit=LIMIT, now=NOW))
    holder.rollback()


def test_a_takeover_that_has_begun_keeps_the_old_holder_from_fencing(
    run: Run, sessions: Sessions
) -> None:
    """C09: whichever locks the row first decides; the other finds the claim superseded."""
    claimed = running(run)
    sweeper, holder = sessions.open(), sessions.open()
    give_back = runs.settle([(claimed.claim, Again(0, Outcome.ABANDONED))], keep=KEEP, now=NOW)
    assert sweeper.run(give_back)

    fence = runs.fence(claimed.claim, idle_limit=LIMIT, now=NOW)
    assert gets_nothing(lambda: holder.run(fence))
    holder.rollback()
    sweeper.commit()

    assert not holder.run(fence)


def test_work_and_completion_commit_together_or_not_at_all(run: Run, sessions: Sessions) -> None:
    """P4, B22: the effect and "done" share a transaction, so neither is without the other."""
    claimed = running(run)
    session = sessions.open()
    for end in (session.rollback, session.commit):
        assert session.run(runs.fence(claimed.claim, idle_limit=LIMIT, now=NOW))
        first = ledger.first_in_run(claimed.claim, "mail/k", "sent", keep=KEEP, now=NOW)
        assert session.run(first)
        done = End(Outcome.SUCCEEDED, result='"sent"')
        assert session.run(runs.settle([(claimed.claim, done)], keep=KEEP, now=NOW))
        before = (state(run, claimed.id), run(ledger.read("mail/k", ["sent"], now=NOW)))
        end()

        assert before == ("running", ())

    assert state(run, claimed.id) == "ended"
    assert len(run(ledger.read("mail/k", ["sent"], now=NOW))) == 1


def test_the_frozen_holder_of_an_old_claim_writes_nothing(run: Run, sessions: Sessions) -> None:
    """A13, B03: frozen before its transaction, thawed after the takeover."""
    old = running(run)
    new = taken_over(run, old, now=NOW + HOUR)
    session = sessions.open()

    fenced = session.run(runs.fence(old.claim, idle_limit=LIMIT, now=NOW + HOUR))
    first = session.run(ledger.first_in_run(old.claim, "mail/k", "sent", keep=KEEP, now=NOW))
    session.commit()

    assert not fenced
    assert not first
    assert run(runs.held(new.replica)) == (new,)
