"""The inbox: a message is claimed by one, taken over only after its time, counted by its key."""

from __future__ import annotations

from dataclasses import replace

from onejob.commands import inbox, ledger
from onejob.commands.ledger import NewEntry
from onejob.core.effect import EntryState
from onejob.core.time import DAY, SECOND
from onejob.testing.conformance.given import KEEP, NOW, Run
from onejob.testing.conformance.sessions import Sessions, gets_nothing

BOX = "orders"
MESSAGE = NewEntry(BOX, "m-1", "a", "f1", claim_for=10 * SECOND)


def test_a_message_is_claimed_once(run: Run) -> None:
    """E05, B10"""
    token = run(inbox.claim(MESSAGE, now=NOW))

    assert token
    assert run(inbox.claim(replace(MESSAGE, owner="b"), now=NOW + SECOND)) is None
    entry = run(inbox.read(BOX, "m-1", now=NOW + SECOND))
    assert entry is not None
    assert (entry.state, entry.token, entry.owner) == (EntryState.CLAIMED, token, "a")
    assert (entry.age, entry.fingerprint) == (SECOND, "f1")


def test_a_claimed_message_is_taken_over_only_after_its_time(run: Run) -> None:
    """E18, to the microsecond."""
    held = run(inbox.claim(MESSAGE, now=NOW))
    assert held
    other = replace(MESSAGE, owner="b")

    early = run(inbox.take_over(other, held=held, now=NOW + 10 * SECOND - 1))
    taken = run(inbox.take_over(other, held=held, now=NOW + 10 * SECOND))
    again = run(inbox.take_over(other, held=held, now=NOW + 10 * SECOND))

    assert (early, again) == (None, None)
    assert taken
    assert taken > held


def test_a_stale_holder_of_a_message_is_refused(run: Run) -> None:
    """B13, B20: what became of it is recorded, or given back, under the newest claim only."""
    stale = run(inbox.claim(MESSAGE, now=NOW))
    assert stale
    token = run(inbox.take_over(replace(MESSAGE, owner="b"), held=stale, now=NOW + 10 * SECOND))
    assert token

    assert not recorded(run, stale)
    assert not run(inbox.give_back(BOX, "m-1", token=stale, now=NOW))
    assert recorded(run, token)
    assert not run(inbox.give_back(BOX, "m-1", token=token, now=NOW))


def test_a_late_holder_records_what_it_knows_while_nobody_took_over(run: Run) -> None:
    token = run(inbox.claim(MESSAGE, now=NOW))
    assert token

    assert recorded(run, token, now=NOW + DAY)
    assert run(inbox.unsettled(BOX, limit=10, now=NOW + DAY)) == ()


def test_a_message_that_is_given_back_is_new_again(run: Run) -> None:
    token = run(inbox.claim(MESSAGE, now=NOW))
    assert token

    assert run(inbox.give_back(BOX, "m-1", token=token, now=NOW))
    assert run(inbox.read(BOX, "m-1", now=NOW)) is None
    assert run(inbox.claim(replace(MESSAGE, owner="b"), now=NOW))


def test_done_messages_are_purged_after_their_time_and_open_ones_never(run: Run) -> None:
    """E25: in progress and unknown stay, however old."""
    kinds = {"done": EntryState.DONE, "unknown": EntryState.UNKNOWN, "open": None}
    for key, state in kinds.items():
        token = run(inbox.claim(replace(MESSAGE, key=key), now=NOW))
        assert token
        if state is not None:
            assert recorded(run, token, key=key, state=state, keep=DAY)

    assert run(ledger.purge(limit=10, now=NOW + DAY)) == 0
    assert run(ledger.purge(limit=10, now=NOW + 400 * DAY)) == 1

    unsettled = run(inbox.unsettled(BOX, limit=10, now=NOW + 400 * DAY))
    assert [entry.key for entry in unsettled] == ["open", "unknown"]


def test_beginnings_are_counted_by_key_whatever_the_broker_says(run: Run) -> None:
    """B05, B06"""
    counts = [run(inbox.begun(BOX, "m-1", least=least, keep=DAY, now=NOW)) for least in (1, 1, 2)]
    redelivered = run(inbox.begun(BOX, "m-2", least=2, keep=DAY, now=NOW))

    assert counts == [1, 2, 3]
    assert redelivered == 2
    assert run(inbox.read(BOX, "m-1", now=NOW)) is None
    assert run(ledger.purge(limit=10, now=NOW + DAY + 1)) == 2


def test_the_second_claim_of_a_message_waits_for_the_first(run: Run, sessions: Sessions) -> None:
    """E06, E23"""
    one, other = sessions.open(), sessions.open()
    assert one.run(inbox.claim(MESSAGE, now=NOW))

    assert gets_nothing(lambda: other.run(inbox.claim(MESSAGE, now=NOW)))
    other.rollback()
    one.rollback()

    assert other.run(inbox.claim(MESSAGE, now=NOW))


def test_of_two_who_take_a_message_over_one_does(run: Run, sessions: Sessions) -> None:
    """C09: the guard holds between connections too."""
    held = run(inbox.claim(MESSAGE, now=NOW))
    assert held
    ask = inbox.take_over(MESSAGE, held=held, now=NOW + 10 * SECOND)
    one, other = sessions.open(), sessions.open()
    assert one.run(ask)
    assert gets_nothing(lambda: other.run(ask))
    other.rollback()
    one.commit()

    assert other.run(ask) is None


def recorded(
    run: Run,
    token: int,
    *,
    key: str = "m-1",
    state: EntryState = EntryState.DONE,
    keep: int = KEEP,
    now: int = NOW,
) -> bool:
    return run(
        inbox.record(BOX, key, token=token, state=state, result=None, keep=keep, now=now)  # type: ignore[arg-type]
    )
