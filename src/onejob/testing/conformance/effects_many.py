"""Effects by the batch: what holds for one holds for each of many, and one never for another."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from onejob.commands import ledger
from onejob.commands.ledger import Record
from onejob.core.effect import Entry, EntryState
from onejob.core.run import Claim, LeaveUnknown, Token
from onejob.core.time import HOUR
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

SCOPE = "mail/k"


def test_many_are_claimed_for_an_attempt_each_under_a_token_of_its_own(run: Run) -> None:
    claimed = running(run)
    content = {"b": "f2", "a": "f1", "c": ""}

    many = ledger.claim_many_in_run(claimed.claim, SCOPE, content, owner="a/1/x", now=NOW)
    tokens = run(many)

    assert len(set(tokens.values())) == 3
    for key, entry in _entries(run, "abc").items():
        assert (entry.state, entry.token, entry.owner) == (EntryState.CLAIMED, tokens[key], "a/1/x")
        assert (entry.run_id, entry.fingerprint) == (claimed.id, content[key])
        assert (entry.claimed, entry.claim_until, entry.attempt) == (NOW, 0, 1)


def test_of_many_only_what_is_new_is_claimed(run: Run) -> None:
    """E04: what is known stands beside the rest without disturbing it."""
    claimed = running(run)
    before = run(ledger.claim(ledger.NewEntry(SCOPE, "b", "other"), now=NOW))

    tokens = _claimed(run, claimed.claim, "abc")

    assert tokens.keys() == {"a", "c"}
    assert _entries(run, "b")["b"].token == before


def test_a_token_drawn_by_a_batch_is_not_drawn_again(run: Run) -> None:
    """C09"""
    claimed = running(run)
    first = _claimed(run, claimed.claim, "abc")
    second = _claimed(run, claimed.claim, "abcde")
    third = run(ledger.claim(ledger.NewEntry(SCOPE, "f", "other"), now=NOW))

    assert second.keys() == {"d", "e"}
    assert third
    assert max(first.values()) < min(second.values())
    assert max(second.values()) < third


def test_a_superseded_attempt_claims_none_of_many(run: Run) -> None:
    """P2: checked in the store, under the run row's lock."""
    old = running(run)
    new = taken_over(run, old)

    assert _claimed(run, old.claim, "ab") == {}
    assert _claimed(run, new.claim, "ab").keys() == {"a", "b"}


def test_many_outcomes_are_recorded_each_as_it_ended(run: Run) -> None:
    tokens = _claimed(run, running(run).claim, "abcd")
    records = [
        Record("a", tokens["a"], EntryState.DONE, result='"r"'),
        Record("b", tokens["b"], EntryState.FAILED, error="declined"),
        Record("c", tokens["c"], EntryState.UNKNOWN, error="timed out"),
    ]

    for _ in range(2):  # a record whose reply was lost may simply be asked again
        assert run(ledger.record_many(SCOPE, records, keep=KEEP, now=NOW)) == {"a", "b", "c"}

    found = {key: (e.state, e.result, e.error) for key, e in _entries(run, "abcd").items()}
    assert found == {
        "a": (EntryState.DONE, '"r"', None),
        "b": (EntryState.FAILED, None, "declined"),
        "c": (EntryState.UNKNOWN, None, "timed out"),
        "d": (EntryState.CLAIMED, None, None),
    }
    assert run(ledger.purge(limit=10, now=NOW + 10 * KEEP)) == 0  # its run is live


def test_of_many_records_a_stale_one_is_refused(run: Run) -> None:
    """P5: after a reclaim only the new claim's own token speaks."""
    claimed = running(run)
    tokens = _claimed(run, claimed.claim, "ab")
    taken = ledger.NewEntry(SCOPE, "a", "a/1/y")
    assert run(ledger.reclaim(taken, held=tokens["a"], run=claimed.claim, now=NOW))

    accepted = run(ledger.record_many(SCOPE, _done(tokens), keep=KEEP, now=NOW))

    assert accepted == {"b"}
    assert _entries(run, "a")["a"].state == EntryState.CLAIMED


def test_a_superseded_attempt_may_still_record_many(run: Run) -> None:
    """P5, E11"""
    old = running(run)
    tokens = _claimed(run, old.claim, "ab")
    taken_over(run, old)

    assert run(ledger.record_many(SCOPE, _done(tokens), keep=KEEP, now=NOW)) == {"a", "b"}


def test_records_stay_in_their_scope(run: Run) -> None:
    tokens = _claimed(run, running(run).claim, "a")

    assert run(ledger.record_many("mail/other", _done(tokens), keep=KEEP, now=NOW)) == frozenset()
    assert run(ledger.release_many("mail/other", tokens, now=NOW)) == frozenset()
    assert _entries(run, "a")["a"].state == EntryState.CLAIMED


def test_many_that_were_not_sent_are_released(run: Run) -> None:
    """E13"""
    claimed = running(run)
    tokens = _claimed(run, claimed.claim, "abc")
    assert run(ledger.record_many(SCOPE, _done({"b": tokens["b"]}), keep=KEEP, now=NOW))
    stale = {**tokens, "c": Token(tokens["c"] + 2**40)}

    assert run(ledger.release_many(SCOPE, stale, now=NOW)) == {"a"}
    assert _entries(run, "abc").keys() == {"b", "c"}


@pytest.mark.parametrize("outcome", [EntryState.DONE, EntryState.FAILED, EntryState.UNKNOWN, None])
def test_a_known_outcome_among_many_wakes_the_run(run: Run, outcome: EntryState | None) -> None:
    """P5: also when the batch came from an attempt that was superseded."""
    claimed = running(run)
    tokens = _claimed(run, claimed.claim, "ab")
    assert settle(run, claimed.claim, LeaveUnknown("a"))

    if outcome is None:
        run(ledger.release_many(SCOPE, tokens, now=NOW))
    else:
        records = [Record(key, token, outcome) for key, token in tokens.items()]
        run(ledger.record_many(SCOPE, records, keep=KEEP, now=NOW + HOUR))

    unknown = outcome is EntryState.UNKNOWN
    assert state(run, claimed.id) == ("unknown" if unknown else "scheduled")


def test_a_batch_for_a_run_that_waits_for_a_person_frees_it_not(run: Run) -> None:
    """P5, F11"""
    claimed = running(run, on_loss="unknown")
    tokens = _claimed(run, claimed.claim, "ab")
    assert settle(run, claimed.claim, LeaveUnknown("its replica died", lost=True))

    assert run(ledger.record_many(SCOPE, _done({"a": tokens["a"]}), keep=KEEP, now=NOW))
    assert run(ledger.release_many(SCOPE, {"b": tokens["b"]}, now=NOW))

    assert state(run, claimed.id) == "unknown"


def test_a_claim_of_many_keeps_the_run_until_it_is_committed(run: Run, sessions: Sessions) -> None:
    """P2: between the check and the claims nobody takes the run over."""
    claimed = running(run)
    holder, other = sessions.open(), sessions.open()
    many = ledger.claim_many_in_run(claimed.claim, SCOPE, {"a": "", "b": ""}, owner="a/1", now=NOW)
    assert holder.run(many)

    assert gets_nothing(lambda: settle(other.run, claimed.claim, DONE))
    other.rollback()
    holder.commit()

    assert settle(other.run, claimed.claim, DONE)


def test_a_claim_of_many_waits_for_one_that_may_yet_roll_back(run: Run, sessions: Sessions) -> None:
    """E06"""
    claimed = running(run)
    first, second = sessions.open(), sessions.open()
    assert first.run(ledger.claim(ledger.NewEntry(SCOPE, "a", "other"), now=NOW))

    def claim_many() -> dict[str, Token]:
        content = {"a": "", "b": ""}
        many = ledger.claim_many_in_run(claimed.claim, SCOPE, content, owner="a/1", now=NOW)
        return second.run(many)

    assert gets_nothing(claim_many)
    second.rollback()
    first.rollback()

    assert claim_many().keys() == {"a", "b"}


def _claimed(run: Run, claim: Claim, keys: str) -> dict[str, Token]:
    content = dict.fromkeys(keys, "")
    return run(ledger.claim_many_in_run(claim, SCOPE, content, owner="a/1/x", now=NOW))


def _done(tokens: Mapping[str, Token]) -> list[Record]:
    return [Record(key, token, EntryState.DONE) for key, token in tokens.items()]


def _entries(run: Run, keys: str) -> dict[str, Entry]:
    return {entry.key: entry for entry in run(ledger.read(SCOPE, list(keys), now=NOW))}
