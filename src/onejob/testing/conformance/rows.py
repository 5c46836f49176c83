"""Row locks: a locked row is skipped and found again, and holds up nobody else's."""

from __future__ import annotations

from onejob.commands import ledger, runs, schedules
from onejob.core.run import Again, Outcome
from onejob.core.time import SECOND
from onejob.testing.conformance.given import (
    DONE,
    KEEP,
    NOW,
    Run,
    claim,
    defined,
    joined,
    made,
    running,
    settle,
    state,
    step,
)
from onejob.testing.conformance.sessions import Sessions


def test_a_claim_skips_what_another_session_is_claiming(run: Run, row_sessions: Sessions) -> None:
    ids = [made(run, f"k{n}") for n in range(4)]
    first, second = row_sessions.open(), row_sessions.open()
    replica = joined(run)

    mine = claim(first.run, replica, limit=2)
    theirs = claim(second.run, replica, limit=2)

    assert [one.id for one in (*mine, *theirs)] == ids
    assert len({one.token for one in (*mine, *theirs)}) == 4


def test_one_fenced_run_does_not_hold_up_a_batch_of_completions(
    run: Run, row_sessions: Sessions
) -> None:
    """The fenced one is absent from the answer, and its completion succeeds afterwards."""
    ids = [made(run, f"k{n}") for n in range(3)]
    held = claim(run, joined(run))
    holder = row_sessions.open()
    assert holder.run(runs.fence(held[1].claim, idle_limit=SECOND, now=NOW))

    answer = run(runs.settle([(one.claim, DONE) for one in held], keep=KEEP, now=NOW))
    holder.commit()

    assert [one.id for one in answer] == [ids[0], ids[2]]
    assert settle(run, held[1].claim, DONE)


def test_a_sweep_that_skipped_a_fenced_run_gives_it_back_later(
    run: Run, row_sessions: Sessions
) -> None:
    """B07: skipped is not forgotten."""
    claimed = running(run)
    give_back = runs.settle([(claimed.claim, Again(0, Outcome.ABANDONED))], keep=KEEP, now=NOW)
    holder = row_sessions.open()
    assert holder.run(runs.fence(claimed.claim, idle_limit=SECOND, now=NOW))

    skipped = run(give_back)
    holder.rollback()

    assert skipped == ()
    assert run(give_back) == (claimed.claim,)


def test_progress_does_not_wait_for_its_own_fence(run: Run, row_sessions: Sessions) -> None:
    claimed = running(run)
    holder = row_sessions.open()
    assert holder.run(runs.fence(claimed.claim, idle_limit=SECOND, now=NOW))

    assert not run(runs.progress(claimed.claim, "half"))


def test_a_fence_blocks_no_claim_and_no_other_fence(run: Run, row_sessions: Sessions) -> None:
    fenced, other = running(run, "a"), running(run, "b", key="k2")
    due = made(run, "k3")
    first, second = row_sessions.open(), row_sessions.open()

    assert first.run(runs.fence(fenced.claim, idle_limit=SECOND, now=NOW))
    assert second.run(runs.fence(other.claim, idle_limit=SECOND, now=NOW))

    assert [one.id for one in claim(run, joined(run))] == [due]


def test_an_open_pause_holds_up_its_own_schedule_and_no_other(
    run: Run, row_sessions: Sessions
) -> None:
    paused, free = defined(run, "a"), defined(run, "b")
    person = row_sessions.open()
    assert person.run(schedules.pause("a", now=NOW))

    ticked = run(schedules.tick([step(paused, NOW), step(free, NOW)], replica="x", now=NOW))
    person.rollback()
    later = run(schedules.tick([step(paused, NOW)], replica="x", now=NOW))

    assert [one.name for one in ticked] == ["b"]
    assert [one.name for one in later] == ["a"]


def test_two_ticks_in_opposite_orders_do_not_deadlock(run: Run, row_sessions: Sessions) -> None:
    """F15: rows are taken in name order, however they were given, and locked ones are skipped."""
    a, b = defined(run, "a"), defined(run, "b")
    first, second = row_sessions.open(), row_sessions.open()

    one = first.run(schedules.tick([step(a, NOW), step(b, NOW)], replica="x", now=NOW))
    other = second.run(schedules.tick([step(b, NOW), step(a, NOW)], replica="y", now=NOW))

    assert [ticked.name for ticked in one] == ["a", "b"]
    assert other == ()


def test_two_purges_at_once_share_the_work(run: Run, row_sessions: Sessions) -> None:
    """F15"""
    for n in range(4):
        made(run, f"k{n}", keyed=True)
        assert run(ledger.first("inbox", f"m-{n}", owner="a", keep=0, now=NOW))
    run(runs.settle([(one.claim, DONE) for one in claim(run, joined(run))], keep=0, now=NOW))
    first, second = row_sessions.open(), row_sessions.open()

    ends = [one.run(runs.purge(limit=2, now=NOW + 1)) for one in (first, second)]
    entries = [one.run(ledger.purge(limit=2, now=NOW + 1)) for one in (first, second)]

    assert ends == entries == [2, 2]


def test_a_retry_and_a_purge_of_the_same_end_do_not_both_happen(
    run: Run, row_sessions: Sessions
) -> None:
    """P1: a run that was brought back keeps its key; one whose key is going is not brought back."""
    claimed = running(run, key="k", keyed=True)
    assert run(runs.settle([(claimed.claim, DONE)], keep=0, now=NOW))
    person = row_sessions.open()
    assert person.run(runs.retry(claimed.id, now=NOW + 1))

    purged = run(runs.purge(limit=10, now=NOW + 1))
    person.commit()

    assert purged == 0
    assert state(run, claimed.id) == "scheduled"
    assert _made_again(run) == ()


def _made_again(run: Run) -> tuple[runs.Made, ...]:
    """Ask for the same key once more."""
    return run(runs.enqueue([runs.NewRun("mail", "k", "{}", keyed=True)], now=NOW + 1))
