"""Cancel: a run ends though its holder did not say so, and its holder is refused from then on."""

from __future__ import annotations

import json

from onejob.commands import ledger, overlap, runs, views
from onejob.commands.ledger import NewEntry
from onejob.core.run import Again, Outcome, RunId
from onejob.core.time import SECOND
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
from onejob.testing.conformance.sessions import Sessions


def test_cancelling_a_running_run_makes_its_token_invalid_at_once(run: Run) -> None:
    """B06, P2"""
    claimed = running(run)

    assert run(runs.cancel(claimed.id, keep=KEEP, now=NOW + SECOND))

    view = run(views.run_get(claimed.id))
    assert view is not None
    assert (view.state, view.outcome, view.ended) == ("ended", "cancelled", NOW + SECOND)
    assert (view.token, view.replica) == (claimed.token, claimed.replica)
    effect = NewEntry(claimed.scope, "charge", "a", "", 0)
    assert not settle(run, claimed.claim, DONE)
    assert not settle(run, claimed.claim, Again(0, Outcome.FAILED))
    assert not run(runs.fence(claimed.claim, idle_limit=SECOND, now=NOW))
    assert not run(runs.progress(claimed.claim, "half"))
    assert not run(ledger.claim_in_run(claimed.claim, effect, now=NOW))


def test_its_holder_can_ask_what_was_cancelled_under_it(run: Run) -> None:
    """B06"""
    made(run, "k1")
    made(run, "k2")
    gone, kept = claim(run, joined(run))
    assert run(runs.cancel(gone.id, keep=KEEP, now=NOW))

    assert run(overlap.recalled([kept.claim, gone.claim])) == (gone.claim,)


def test_a_cancelled_run_that_was_retried_since_is_another_attempt(run: Run) -> None:
    claimed = running(run)
    assert run(runs.cancel(claimed.id, keep=KEEP, now=NOW))
    assert run(runs.retry(claimed.id, now=NOW))
    [again] = claim(run, claimed.replica)

    assert again.token > claimed.token
    assert run(overlap.recalled([again.claim])) == ()
    assert settle(run, again.claim, DONE)


def test_a_cancellation_is_told_with_where_the_run_stood(run: Run) -> None:
    """P7"""
    claimed = running(run)
    assert run(runs.cancel(claimed.id, keep=KEEP, now=NOW + 1))

    [event] = [e for e in run(views.events(run_id=claimed.id)) if e.kind == "run.cancelled"]

    assert (event.at, event.token, event.replica) == (NOW + 1, claimed.token, claimed.replica)
    assert json.loads(event.detail) == {"state": "running", "why": "asked"}


def test_what_nobody_knows_or_has_ended_is_not_cancelled(run: Run) -> None:
    claimed = running(run)
    assert settle(run, claimed.claim, DONE)

    assert not run(runs.cancel(claimed.id, keep=KEEP, now=NOW))
    assert not run(runs.cancel(RunId(404), keep=KEEP, now=NOW))
    assert run(overlap.asked(limit=10)) == ()
    assert state(run, claimed.id) == "ended"


def test_a_fenced_run_is_cancelled_when_its_transaction_has_ended(
    run: Run, row_sessions: Sessions
) -> None:
    """B06: whoever asks waits for nobody, and the request is not lost."""
    claimed = running(run)
    holder = row_sessions.open()
    assert holder.run(runs.fence(claimed.claim, idle_limit=SECOND, now=NOW))

    assert run(runs.cancel(claimed.id, keep=KEEP, now=NOW))
    asked = run(overlap.asked(limit=10))
    in_vain = run(overlap.cancel(asked, keep=KEEP, now=NOW))
    standing = state(run, claimed.id)
    holder.rollback()
    ended = run(overlap.cancel(asked, keep=KEEP, now=NOW))

    assert (asked, in_vain, standing) == ((claimed.id,), (), "running")
    assert ended == (claimed.id,)
    assert run(overlap.asked(limit=10)) == ()
    assert not settle(run, claimed.claim, DONE)


def test_a_fenced_run_that_completes_in_its_transaction_has_succeeded(
    run: Run, row_sessions: Sessions
) -> None:
    """P4: what is committed with the holder's writes is not taken back by a later request."""
    claimed = running(run)
    holder = row_sessions.open()
    assert holder.run(runs.fence(claimed.claim, idle_limit=SECOND, now=NOW))
    assert run(runs.cancel(claimed.id, keep=KEEP, now=NOW))

    assert holder.run(runs.settle([(claimed.claim, DONE)], keep=KEEP, now=NOW))
    holder.commit()
    asked = run(overlap.asked(limit=10))
    ended = run(overlap.cancel(asked, keep=KEEP, now=NOW))

    view = run(views.run_get(claimed.id))
    assert view is not None
    assert (ended, view.outcome) == ((), "succeeded")
    assert run(overlap.asked(limit=10)) == ()
