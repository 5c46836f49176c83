"""The ledger's simplest use: "the first time?", asked and answered in the effect's transaction."""

from __future__ import annotations

from onejob.commands import ledger
from onejob.core.effect import EntryState
from onejob.core.run import ReplicaId
from onejob.core.time import DAY, SECOND
from onejob.testing.conformance.given import (
    DONE,
    KEEP,
    NOW,
    Run,
    running,
    settle,
    taken_over,
)
from onejob.testing.conformance.sessions import Sessions, gets_nothing


def test_the_first_is_first_and_the_second_is_not(run: Run) -> None:
    """E22, E23"""
    answers = [
        run(ledger.first("inbox", "m-1", owner=owner, keep=KEEP, now=NOW)) for owner in "abc"
    ]

    assert answers == [True, False, False]
    [entry] = run(ledger.read("inbox", ["m-1"], now=NOW))
    assert (entry.state, entry.owner, entry.claimed) == (EntryState.DONE, "a", NOW)


def test_the_same_key_in_another_scope_is_another_key(run: Run) -> None:
    """E15"""
    assert run(ledger.first("orders", "1", owner="a", keep=KEEP, now=NOW))
    assert run(ledger.first("refunds", "1", owner="a", keep=KEEP, now=NOW))


def test_scope_and_key_are_not_joined(run: Run) -> None:
    """C21"""
    assert run(ledger.first("a", "b/c", owner="x", keep=KEEP, now=NOW))
    assert run(ledger.first("a/b", "c", owner="x", keep=KEEP, now=NOW))


def test_many_at_once_answer_which_are_first(run: Run) -> None:
    """E04: known ones and duplicates in the list are ordinary."""
    assert run(ledger.first("inbox", "m-2", owner="a", keep=KEEP, now=NOW))
    keys = ["m-3", "m-1", "m-2", "m-3"]

    first = run(ledger.first_many("inbox", keys, owner="b", keep=KEEP, now=NOW))
    again = run(ledger.first_many("inbox", keys, owner="c", keep=KEEP, now=NOW))

    assert sorted(first) == ["m-1", "m-3"]
    assert not again
    found = run(ledger.read("inbox", keys, now=NOW))
    assert {entry.key: entry.owner for entry in found} == {"m-1": "b", "m-2": "a", "m-3": "b"}


def test_an_inbox_and_an_effect_never_collide(run: Run) -> None:
    """E15"""
    assert run(ledger.first("orders", "1", owner="a", keep=KEEP, now=NOW))
    assert run(ledger.first("orders", "1", kind="inbox", owner="a", keep=KEEP, now=NOW))
    assert not run(ledger.first("orders", "1", kind="inbox", owner="b", keep=KEEP, now=NOW))


def test_first_in_a_run_needs_the_claim_that_holds_it(run: Run) -> None:
    """B22, C09"""
    old = running(run)
    new = taken_over(run, old)

    stale = run(ledger.first_in_run(old.claim, "mail/k", "sent", keep=KEEP, now=NOW))
    borrowed = new.claim._replace(replica=ReplicaId("replica-a"))
    foreign = run(ledger.first_in_run(borrowed, "mail/k", "sent", keep=KEEP, now=NOW))
    first = run(ledger.first_in_run(new.claim, "mail/k", "sent", keep=KEEP, now=NOW))
    second = run(ledger.first_in_run(new.claim, "mail/k", "sent", keep=KEEP, now=NOW))

    assert (stale, foreign, first, second) == (False, False, True, False)
    [entry] = run(ledger.read("mail/k", ["sent"], now=NOW))
    assert (entry.run_id, entry.state) == (new.id, EntryState.DONE)


def test_first_in_a_run_that_has_ended_is_refused(run: Run) -> None:
    claimed = running(run)
    assert settle(run, claimed.claim, DONE)

    assert not run(ledger.first_in_run(claimed.claim, "mail/k", "sent", keep=KEEP, now=NOW))
    assert run(ledger.read("mail/k", ["sent"], now=NOW)) == ()


def test_what_an_earlier_attempt_did_is_known_to_the_next(run: Run) -> None:
    """E24, P4"""
    old = running(run)
    assert run(ledger.first_in_run(old.claim, "mail/k", "sent", keep=KEEP, now=NOW))

    new = taken_over(run, old)

    assert not run(ledger.first_in_run(new.claim, "mail/k", "sent", keep=KEEP, now=NOW))


def test_entries_are_purged_only_after_their_time(run: Run) -> None:
    """E25: kept for as long as was said, to the microsecond."""
    assert run(ledger.first("inbox", "m-1", owner="a", keep=DAY, now=NOW))

    at_the_last_moment = run(ledger.purge(limit=10, now=NOW + DAY))
    afterwards = run(ledger.purge(limit=10, now=NOW + DAY + 1))

    assert (at_the_last_moment, afterwards) == (0, 1)
    assert run(ledger.first("inbox", "m-1", owner="b", keep=DAY, now=NOW + DAY + 1))


def test_a_purge_takes_only_the_entry_whose_time_has_passed(run: Run) -> None:
    """E15: not the same key in another scope, nor another key in the same."""
    assert run(ledger.first("a", "1", owner="o", keep=0, now=NOW))
    assert run(ledger.first("b", "1", owner="o", keep=KEEP, now=NOW))
    assert run(ledger.first("a", "2", owner="o", keep=KEEP, now=NOW))

    assert run(ledger.purge(limit=10, now=NOW + SECOND)) == 1

    left = [*run(ledger.read("a", ["1", "2"], now=NOW)), *run(ledger.read("b", ["1"], now=NOW))]
    assert [(entry.scope, entry.key) for entry in left] == [("a", "2"), ("b", "1")]


def test_a_purge_is_bounded(run: Run) -> None:
    """C05, F15"""
    for n in range(5):
        assert run(ledger.first("inbox", f"m-{n}", owner="a", keep=0, now=NOW))

    assert [run(ledger.purge(limit=2, now=NOW + SECOND)) for _ in range(4)] == [2, 2, 1, 0]


def test_reading_finds_exactly_the_keys_asked_for(run: Run) -> None:
    for key in ("a", "b", "c"):
        assert run(ledger.first("inbox", key, owner="o", keep=KEEP, now=NOW))

    found = run(ledger.read("inbox", ["a", "c", "z"], now=NOW + SECOND))

    assert {entry.key for entry in found} == {"a", "c"}
    assert {entry.now for entry in found} == {NOW + SECOND}


def test_the_second_waits_and_is_first_when_the_first_rolls_back(
    run: Run, sessions: Sessions
) -> None:
    """E06, E24: nobody is told "known" on the word of a transaction that may not commit."""
    ask = ledger.first("inbox", "m-1", owner="a", keep=KEEP, now=NOW)
    first, second = sessions.open(), sessions.open()
    assert first.run(ask)

    assert gets_nothing(lambda: second.run(ask))
    second.rollback()
    first.rollback()

    assert second.run(ask)


def test_the_second_waits_and_finds_it_known_when_the_first_commits(
    run: Run, sessions: Sessions
) -> None:
    """E06, E23"""
    ask = ledger.first("inbox", "m-1", owner="a", keep=KEEP, now=NOW)
    first, second = sessions.open(), sessions.open()
    assert first.run(ask)
    assert gets_nothing(lambda: second.run(ask))
    second.rollback()
    first.commit()

    assert not second.run(ask)


def test_overlapping_sets_wait_for_each_other(run: Run, sessions: Sessions) -> None:
    """E06: in bulk as one by one; whoever waits is first for what the other rolls back."""
    one, other = sessions.open(), sessions.open()
    mine = ledger.first_many("inbox", ["a", "b"], owner="1", keep=KEEP, now=NOW)
    theirs = ledger.first_many("inbox", ["c", "b"], owner="2", keep=KEEP, now=NOW)
    assert one.run(mine) == {"a", "b"}

    assert gets_nothing(lambda: other.run(theirs))
    other.rollback()
    one.rollback()

    assert other.run(theirs) == {"b", "c"}


def test_a_rolled_back_transaction_leaves_no_entry(run: Run, sessions: Sessions) -> None:
    """E24"""
    session = sessions.open()
    assert session.run(ledger.first("inbox", "m-1", owner="a", keep=KEEP, now=NOW))
    session.rollback()

    assert run(ledger.read("inbox", ["m-1"], now=NOW)) == ()


def test_a_known_key_does_not_abort_the_callers_transaction(run: Run, sessions: Sessions) -> None:
    """E08, E04: ten messages of which three are known: seven handled, no error."""
    for n in (2, 5, 8):
        assert run(ledger.first("inbox", f"m-{n}", owner="a", keep=KEEP, now=NOW))
    session = sessions.open()

    answers = [
        session.run(ledger.first("inbox", f"m-{n}", owner="b", keep=KEEP, now=NOW))
        for n in range(10)
    ]
    session.commit()

    assert [n for n, first in enumerate(answers) if not first] == [2, 5, 8]
    assert len(run(ledger.read("inbox", [f"m-{n}" for n in range(10)], now=NOW))) == 10


def test_first_in_a_run_keeps_the_run_to_the_end_of_the_transaction(
    run: Run, sessions: Sessions
) -> None:
    """C09: the guard outlives the statement that asked it."""
    claimed = running(run)
    holder, other = sessions.open(), sessions.open()
    assert holder.run(ledger.first_in_run(claimed.claim, "mail/k", "sent", keep=KEEP, now=NOW))

    assert gets_nothing(lambda: settle(other.run, claimed.claim, DONE))
    other.rollback()
    holder.commit()

    assert settle(other.run, claimed.claim, DONE)
