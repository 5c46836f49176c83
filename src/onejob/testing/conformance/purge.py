"""Purge: what is past its time goes in small batches, and a key never before its run."""

from __future__ import annotations

from onejob.commands import events, ledger, runs, schedules, views
from onejob.commands.runs import Known
from onejob.core.run import Again, End, Kind, Outcome, RunId
from onejob.core.time import DAY, MINUTE, SECOND
from onejob.testing.conformance.given import (
    DONE,
    KEEP,
    NOW,
    Run,
    claim,
    defined,
    joined,
    made,
    resumed,
    running,
    settle,
    state,
)
from onejob.testing.conformance.sessions import Sessions


def test_an_end_is_kept_for_its_time_from_the_end(run: Run) -> None:
    """P1: a run that took a year is kept as long as one that took a second."""
    claimed, end = running(run, key="k", keyed=True), NOW + 365 * DAY
    assert settle(run, claimed.claim, DONE, now=end)

    at_the_last_moment = run(runs.purge(limit=10, now=end + KEEP))
    known = run(runs.by_key(Kind.RUN, "mail", "k"))
    afterwards = run(runs.purge(limit=10, now=end + KEEP + 1))

    assert (at_the_last_moment, afterwards) == (0, 1)
    assert known == Known(claimed.id, "")
    assert run(runs.by_key(Kind.RUN, "mail", "k")) is None
    assert state(run, claimed.id) == "gone"


def test_a_discarded_run_is_purged_at_once_and_its_key_is_free(run: Run) -> None:
    """P1: failed runs are kept until somebody retries them, discards them, or they age out."""
    claimed = running(run, key="k", keyed=True)
    assert settle(run, claimed.claim, End(Outcome.FAILED, "no"))

    discarded = run(runs.discard(claimed.id))
    purged = run(runs.purge(limit=10, now=NOW))

    assert (discarded, purged) == (True, 1)
    assert state(run, claimed.id) == "gone"
    assert run(runs.by_key(Kind.RUN, "mail", "k")) is None
    assert not run(runs.discard(claimed.id))


def test_a_run_that_lives_is_not_discarded_nor_are_its_earlier_ends(run: Run) -> None:
    """P1: a retried run keeps its key and its history."""
    claimed = running(run, key="k", keyed=True)
    refused = run(runs.discard(claimed.id))
    assert settle(run, claimed.claim, End(Outcome.FAILED))
    assert run(runs.retry(claimed.id, now=NOW))

    assert (refused, run(runs.discard(claimed.id))) == (False, False)
    assert run(runs.purge(limit=10, now=NOW)) == 0
    assert run(runs.by_key(Kind.RUN, "mail", "k")) == Known(claimed.id, "")


def test_a_key_is_kept_where_its_run_is_retried_between_discard_and_purge(run: Run) -> None:
    """P1: the purge looks again whether the run lives."""
    claimed = running(run, key="k", keyed=True)
    assert settle(run, claimed.claim, End(Outcome.FAILED))
    assert run(runs.discard(claimed.id))
    assert run(runs.retry(claimed.id, now=NOW))

    run(runs.purge(limit=10, now=NOW))

    assert state(run, claimed.id) == "scheduled"
    assert run(runs.by_key(Kind.RUN, "mail", "k")) == Known(claimed.id, "")


def test_the_keys_of_live_runs_are_never_purged(run: Run) -> None:
    """P1, C04: waiting however long is still being there."""
    made(run, "waiting", keyed=True, at=NOW + 9_000 * DAY)
    made(run, "due", keyed=True)
    running(run, key="running", keyed=True)

    assert run(runs.purge(limit=10, now=NOW + 10_000 * DAY)) == 0
    assert run(ledger.purge(limit=10, now=NOW + 10_000 * DAY)) == 0
    for key in ("waiting", "due", "running"):
        assert run(runs.by_key(Kind.RUN, "mail", key)) is not None


def test_the_key_of_a_retried_run_stays_while_it_lives(run: Run) -> None:
    """P1: though its earlier end is past its time and goes."""
    claimed = running(run, key="k", keyed=True)
    assert settle(run, claimed.claim, End(Outcome.FAILED))
    assert run(runs.retry(claimed.id, now=NOW))

    assert run(runs.purge(limit=10, now=NOW + KEEP + 1)) == 1

    assert run(runs.by_key(Kind.RUN, "mail", "k")) == Known(claimed.id, "")
    assert state(run, claimed.id) == "scheduled"


def test_the_key_goes_with_the_last_end_of_its_run(run: Run) -> None:
    """P1"""
    first = running(run, key="k", keyed=True)
    assert settle(run, first.claim, End(Outcome.FAILED))
    assert run(runs.retry(first.id, now=NOW + DAY))
    [second] = claim(run, first.replica, now=NOW + DAY)
    assert settle(run, second.claim, DONE, now=NOW + DAY)

    one = run(runs.purge(limit=10, now=NOW + KEEP + 1))
    between = run(runs.by_key(Kind.RUN, "mail", "k"))
    other = run(runs.purge(limit=10, now=NOW + DAY + KEEP + 1))

    assert (one, other) == (1, 1)
    assert between == Known(first.id, "")
    assert run(runs.by_key(Kind.RUN, "mail", "k")) is None


def test_an_old_end_does_not_take_the_key_of_a_newer_run(run: Run) -> None:
    """P1: the key is compared with the run that it names."""
    old, late = _ended_twice(run), NOW + SECOND
    assert run(runs.purge(limit=1, now=late)) == 1
    new = made(run, "k", keyed=True, now=late)

    assert run(runs.purge(limit=1, now=late)) == 1

    assert state(run, old) == "gone"
    assert run(runs.by_key(Kind.RUN, "mail", "k")) == Known(new, "")


def test_an_old_end_does_not_come_back_beside_a_newer_run_of_its_key(run: Run) -> None:
    """P1: one run per key, so retry needs the key still to belong to that run."""
    old, late = _ended_twice(run), NOW + SECOND
    assert run(runs.purge(limit=1, now=late)) == 1
    new = made(run, "k", keyed=True, now=late)

    assert not run(runs.retry(old, now=late))

    assert state(run, old) == "ended"
    assert [view.id for view in run(views.runs(state="scheduled"))] == [new]


def test_a_purge_is_bounded_and_takes_the_oldest_runs_first(run: Run) -> None:
    """F15"""
    ids = [made(run, f"k{n}") for n in range(5)]
    ends = [(one.claim, DONE) for one in claim(run, joined(run))]
    run(runs.settle(ends, keep=0, now=NOW))

    assert run(runs.purge(limit=2, now=NOW + 1)) == 2
    assert [view.id for view in run(views.runs())] == ids[:1:-1]
    assert [run(runs.purge(limit=2, now=NOW + 1)) for _ in range(3)] == [2, 1, 0]


def test_events_go_with_their_run(run: Run) -> None:
    """C05: nothing is left behind that grows for ever."""
    claimed = running(run)
    assert settle(run, claimed.claim, Again(0, Outcome.FAILED))
    [again] = claim(run, claimed.replica)
    assert settle(run, again.claim, DONE)
    other = running(run, "replica-b", key="other")
    assert settle(run, other.claim, Again(0, Outcome.FAILED))
    assert len(run(views.events())) == 2

    assert run(runs.purge(limit=10, now=NOW + KEEP + 1)) == 1

    assert [event.key for event in run(views.events())] == ["other"]


def test_the_story_of_a_run_that_lives_again_is_kept(run: Run) -> None:
    """P7: though its earlier end is past its time and goes."""
    claimed = running(run)
    assert settle(run, claimed.claim, End(Outcome.FAILED))
    assert run(runs.retry(claimed.id, now=NOW))

    assert run(runs.purge(limit=10, now=NOW + KEEP + 1)) == 1

    assert len(run(views.events(run_id=claimed.id))) == 2


def test_the_story_of_a_run_is_kept_with_its_latest_end(run: Run) -> None:
    """P7"""
    first = running(run)
    assert run(runs.settle([(first.claim, End(Outcome.FAILED))], keep=0, now=NOW))
    assert run(runs.retry(first.id, now=NOW))
    [second] = claim(run, first.replica)
    assert settle(run, second.claim, DONE)

    assert run(runs.purge(limit=10, now=NOW + 1)) == 1

    assert len(run(views.events(run_id=first.id))) == 2


def test_purging_a_run_leaves_its_effects(run: Run) -> None:
    """E25: effects are kept longer than runs; their time is their own."""
    claimed = running(run)
    assert run(ledger.first_in_run(claimed.claim, "mail/k", "sent", keep=10 * KEEP, now=NOW))
    assert settle(run, claimed.claim, DONE)

    assert run(runs.purge(limit=10, now=NOW + KEEP + 1)) == 1

    assert len(run(ledger.read("mail/k", ["sent"], now=NOW))) == 1


def test_a_purge_that_is_rolled_back_has_forgotten_nothing(run: Run, sessions: Sessions) -> None:
    claimed = running(run, key="k", keyed=True)
    assert settle(run, claimed.claim, DONE)
    session = sessions.open()
    assert session.run(runs.purge(limit=10, now=NOW + KEEP + SECOND)) == 1
    session.rollback()

    assert state(run, claimed.id) == "ended"
    assert run(runs.by_key(Kind.RUN, "mail", "k")) == Known(claimed.id, "")


def _ended_twice(run: Run) -> RunId:
    """Leave two ends of one keyed run, both past their time at once."""
    first = running(run, key="k", keyed=True)
    assert run(runs.settle([(first.claim, End(Outcome.FAILED))], keep=0, now=NOW))
    assert run(runs.retry(first.id, now=NOW))
    [second] = claim(run, first.replica)
    assert run(runs.settle([(second.claim, DONE)], keep=0, now=NOW))
    return first.id


def test_old_events_that_belong_to_no_run_go_in_small_batches(run: Run) -> None:
    """P7 is about what happened lately: schedules that live for years must not fill the store."""
    defined(run)
    for minute in (0, 2):
        run(schedules.pause("nightly", now=NOW + minute * MINUTE))
        resumed(run, now=NOW + minute * MINUTE + MINUTE)
    settle(run, running(run).claim, Again(0, Outcome.FAILED, "why"), now=NOW)
    before = NOW + 2 * MINUTE

    purged = [run(events.purge(before=before, limit=2)) for _ in range(3)]

    assert purged == [2, 1, 0]
    told = run(views.events(schedule="nightly"))
    assert [event.at for event in told] == [before, before + MINUTE]
    assert [event.kind for event in run(views.events()) if event.run_id] == ["attempt.failed"]


def test_what_a_live_run_has_done_is_not_forgotten(run: Run) -> None:
    """P5: its next attempt would do it again."""
    claimed = running(run)
    assert run(ledger.first_in_run(claimed.claim, "mail/k", "sent", keep=SECOND, now=NOW))

    while_it_lives = run(ledger.purge(limit=10, now=NOW + DAY))
    assert settle(run, claimed.claim, DONE)
    afterwards = run(ledger.purge(limit=10, now=NOW + DAY))

    assert (while_it_lives, afterwards) == (0, 1)
