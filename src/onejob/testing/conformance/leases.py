"""Named locks: who gets one, under which token, for how long, and who is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from onejob.commands import leases, views
from onejob.commands.command import Command
from onejob.core.hold import Grip, Standing
from onejob.core.run import Token
from onejob.core.time import HOUR, SECOND, Span
from onejob.testing.conformance.given import LEASE, NOW, Run
from onejob.testing.conformance.sessions import Sessions, gets_nothing

TTL = Span(LEASE)


def ask(
    owner: str, name: str = "nightly", *, scope: str = "shop", now: int = NOW, **more: Any
) -> Command[Standing | None]:
    """Ask for a lock under an owner of its own."""
    holder = f"host:{owner}"
    more = {"ttl": TTL, **more}
    return leases.acquire(scope, name, owner=owner, holder=holder, now=now, **more)


def asked(run: Run, owner: str, name: str = "nightly", **more: Any) -> Standing:
    """Ask for a lock, again where its row had to be made first; return how it stands then."""
    standing = run(ask(owner, name, **more)) or run(ask(owner, name, **more))
    assert standing is not None
    return standing


def taken(run: Run, owner: str = "a", name: str = "nightly", **more: Any) -> Grip:
    """Take a lock that is free; return what its holder shows."""
    standing = asked(run, owner, name, **more)
    assert standing.owner == owner
    return Grip(standing.scope, standing.name, standing.token, standing.owner)


def listed(run: Run, *, now: int = NOW, **more: Any) -> list[Standing]:
    """Read locks as they stand."""
    found = run(leases.listed(**{"limit": 100, **more}, now=now))
    return [one.standing for one in found]


def test_a_free_lock_is_taken_under_a_token_for_the_length_of_the_lease(run: Run) -> None:
    standing = asked(run, "a")

    assert standing.owner == "a"
    assert standing.holder == "host:a"
    assert standing.token > 0
    assert (standing.acquired, standing.expires, standing.now) == (NOW, NOW + TTL, NOW)


def test_a_name_that_is_new_gets_its_row_first_and_nobody_yet(run: Run) -> None:
    """C09: its first token is drawn as every other is, by the row that changes hands."""
    assert run(ask("a")) is None

    [row] = listed(run, free=True, limit=10, now=NOW)
    assert (row.token, row.owner, row.expires) == (0, "", 0)


def test_a_taken_lock_is_refused_and_says_who_has_it_until_when(run: Run) -> None:
    taken(run, "a")

    standing = run(ask("b", now=NOW + SECOND))

    assert standing is not None
    assert (standing.owner, standing.holder) == ("a", "host:a")
    assert (standing.acquired, standing.expires) == (NOW, NOW + TTL)
    assert standing.now == NOW + SECOND


def test_a_second_request_of_the_same_process_is_refused_like_any_other(run: Run) -> None:
    """C16, A10: no lock is re-entrant; each acquisition is an owner of its own."""
    taken(run, "a")

    standing = run(ask("a-again"))

    assert standing is not None
    assert standing.owner == "a"


def test_the_same_owner_asking_again_gets_the_same_answer(run: Run) -> None:
    """A reply may be lost: the holder finds itself in the lock, under the same token."""
    grip = taken(run, "a")

    again = run(ask("a", now=NOW + SECOND))

    assert again is not None
    assert (again.owner, again.token, again.expires) == ("a", grip.token, NOW + TTL)


def test_each_change_of_holder_draws_a_higher_token(run: Run) -> None:
    """C09"""
    tokens = []
    for n in range(5):
        grip = taken(run, f"owner-{n}")
        tokens.append(grip.token)
        assert run(leases.release(grip, now=NOW))

    assert tokens == sorted(set(tokens))


def test_a_lease_that_lapsed_is_taken_over_at_its_end_and_not_before(run: Run) -> None:
    """C04, C17: free after the lease, whatever became of the holder and its connections."""
    old = taken(run, "a")

    early = run(ask("b", now=NOW + TTL - 1))
    assert early is not None
    assert early.owner == "a"

    new = taken(run, "b", now=NOW + TTL)
    assert new.token > old.token


def test_a_takeover_of_a_lapsed_lease_is_recorded(run: Run) -> None:
    """P7: who let it lapse, and who came."""
    old = taken(run, "a")
    taken(run, "b", now=NOW + TTL)

    [event] = run(views.events(limit=10))

    assert (event.kind, event.key, event.token) == ("lock.lapsed", "nightly", old.token)
    assert (event.replica, event.detail) == ("host:a", "host:b")


def test_a_lock_that_was_released_changes_hands_without_a_word(run: Run) -> None:
    assert run(leases.release(taken(run, "a"), now=NOW))
    taken(run, "b")

    assert run(views.events(limit=10)) == ()


def test_a_renewal_counts_from_the_stores_now(run: Run) -> None:
    grip = taken(run)

    assert run(leases.renew([(grip, TTL)], now=NOW + SECOND)) == {"a"}

    [standing] = listed(run, limit=10, now=NOW)
    assert (standing.acquired, standing.expires) == (NOW, NOW + SECOND + TTL)


def test_one_renewal_serves_many_locks_and_answers_for_each(run: Run) -> None:
    mine = [taken(run, f"owner-{n}", f"lock-{n}") for n in range(20)]
    assert run(leases.release(mine[3], now=NOW))
    lapsing = taken(run, "short", "lock-short", ttl=Span(SECOND))

    batch = [(grip, Span(TTL + n)) for n, grip in enumerate([*mine, lapsing])]
    renewed = run(leases.renew(batch, now=NOW + 2 * SECOND))

    assert renewed == {grip.owner for grip in mine if grip is not mine[3]}
    found = {one.owner: one.expires for one in listed(run, now=NOW + TTL + 1)}
    assert found["owner-7"] == NOW + 2 * SECOND + TTL + 7


def test_a_lease_that_lapsed_is_not_revived_even_if_nobody_came(run: Run) -> None:
    """C19: lapsed is lost, in the store as for its holder."""
    grip = taken(run)

    assert run(leases.renew([(grip, TTL)], now=NOW + TTL)) == frozenset()
    assert taken(run, "b", now=NOW + TTL).token > grip.token


MISSES: dict[str, Callable[[Grip], Grip]] = {
    "older token": lambda grip: replace(grip, token=Token(grip.token - 1)),
    "other owner": lambda grip: replace(grip, owner="b"),
    "other name": lambda grip: replace(grip, name="other"),
    "other app": lambda grip: replace(grip, scope="other"),
}

GUARDED: dict[str, Callable[[Grip], Command[Any]]] = {
    "renew": lambda grip: leases.renew([(grip, TTL)], now=NOW),
    "release": lambda grip: leases.release(grip, now=NOW),
    "fence": lambda grip: leases.fence(grip, idle_limit=TTL, now=NOW),
}


@pytest.mark.parametrize("command", GUARDED)
def test_the_right_grip_passes(run: Run, command: str) -> None:
    assert run(GUARDED[command](taken(run)))


@pytest.mark.parametrize("miss", MISSES)
@pytest.mark.parametrize("command", GUARDED)
def test_a_grip_that_is_wrong_in_one_part_moves_nothing(run: Run, command: str, miss: str) -> None:
    """C01, C02, C08: token and owner are compared in the store, in the same statement."""
    grip = taken(run)
    neighbours = [taken(run, "b", "other"), taken(run, "b", "nightly", scope="other")]
    before = listed(run, free=True, limit=10, now=NOW)
    assert len(before) == 1 + len(neighbours)

    assert not run(GUARDED[command](MISSES[miss](grip)))

    assert listed(run, free=True, limit=10, now=NOW) == before


@pytest.mark.parametrize("command", GUARDED)
def test_whoever_was_superseded_moves_nothing_of_the_next_holder(run: Run, command: str) -> None:
    """C01, C02, C08: the old one wakes up after its lease, renews and releases."""
    old = taken(run, "a", now=NOW - TTL)
    taken(run, "b")
    before = listed(run, limit=10, now=NOW)

    assert not run(GUARDED[command](old))

    assert listed(run, limit=10, now=NOW) == before


def test_a_released_lock_is_free_at_once(run: Run) -> None:
    grip = taken(run)

    assert run(leases.release(grip, now=NOW + SECOND))
    assert taken(run, "b", now=NOW + SECOND).token > grip.token
    assert not run(leases.release(grip, now=NOW + SECOND))


def test_a_release_whose_reply_was_lost_is_asked_again_and_was_done(run: Run) -> None:
    """The block went well to its end: nobody may tell it that it had lost the lock."""
    grip = taken(run, at_least=Span(5 * SECOND))
    assert run(leases.release(grip, now=NOW + SECOND))
    before = listed(run, limit=10, free=True, now=NOW)

    assert run(leases.release(grip, now=NOW + 2 * SECOND))

    assert listed(run, limit=10, free=True, now=NOW) == before


def test_a_released_lock_is_kept_for_its_minimum_and_says_so(run: Run) -> None:
    """A14: a short job on replicas whose clocks differ must not run twice."""
    grip = taken(run, at_least=Span(5 * SECOND))
    assert run(leases.release(grip, now=NOW + SECOND))

    standing = run(ask("b", now=NOW + 5 * SECOND - 1))
    assert standing is not None
    assert (standing.owner, standing.expires) == ("", NOW + 5 * SECOND)

    taken(run, "b", now=NOW + 5 * SECOND)


def test_a_minimum_outlives_a_holder_that_died_or_renews_for_less(run: Run) -> None:
    minimum = Span(4 * TTL)
    grip = taken(run, at_least=minimum)
    assert asked(run, "b").expires == NOW + minimum

    assert run(leases.renew([(grip, TTL)], now=NOW + SECOND))

    assert asked(run, "b", now=NOW + minimum - 1).owner == "a"
    assert asked(run, "b", now=NOW + minimum).owner == "b"


def test_what_nobody_was_told_of_having_is_freed_by_its_owner_alone(run: Run) -> None:
    """Its minimum is for what has run, and nothing has."""
    grip = taken(run, at_least=Span(5 * SECOND))
    assert not run(leases.undo("shop", "nightly", owner="b", now=NOW))
    assert not run(leases.undo("shop", "other", owner="a", now=NOW))
    assert not run(leases.undo("bank", "nightly", owner="a", now=NOW))
    assert asked(run, "b").owner == "a"

    assert run(leases.undo("shop", "nightly", owner="a", now=NOW + SECOND))

    assert not run(leases.undo("shop", "nightly", owner="a", now=NOW + SECOND))
    assert not run(leases.renew([(grip, TTL)], now=NOW + SECOND))
    assert taken(run, "b", now=NOW + SECOND).token > grip.token


def test_the_same_name_of_two_apps_is_two_locks(run: Run) -> None:
    """C21, C26"""
    taken(run, "a", scope="shop")
    taken(run, "b", scope="bank")

    assert [one.scope for one in listed(run, limit=10, now=NOW)] == ["bank", "shop"]
    assert [one.owner for one in listed(run, scope="bank", limit=10, now=NOW)] == ["b"]


@pytest.mark.parametrize("name", ["名" * 341, "a b", "x" * 1_024, "'); DROP", "Ünïcode", "a/b\n"])
def test_names_of_any_length_and_script_are_kept_in_full_and_told_apart(
    run: Run, name: str
) -> None:
    """C20, C25: a lock that was folded to some other's would be refused without a reason."""
    taken(run, "a", name)
    taken(run, "b", f"{name[:-1]}y")

    [standing] = listed(run, scope="shop", name=name, limit=10, now=NOW)
    assert (standing.name, standing.owner) == (name, "a")


def test_only_taken_locks_are_listed_unless_all_are_asked_for(run: Run) -> None:
    for name in ("c", "a", "b"):
        taken(run, name, name)
    assert run(leases.release(Grip("shop", "b", asked(run, "x", "b").token, "b"), now=NOW))

    held = listed(run, limit=10, now=NOW + 1)
    every = listed(run, free=True, limit=10, now=NOW + 1)

    assert [one.name for one in held] == ["a", "c"]
    assert [one.name for one in every] == ["a", "b", "c"]
    assert [one.name for one in listed(run, free=True, limit=2, now=NOW)] == ["a", "b"]


def test_locks_that_nobody_uses_are_forgotten_and_no_token_comes_again(run: Run) -> None:
    """C05, C09: ten thousand dead names don't stay, and a purge gives no number back."""
    released = taken(run, "a", "released")
    assert run(leases.release(released, now=NOW))
    lapsed = taken(run, "b", "lapsed")
    held = taken(run, "c", "held", ttl=Span(3 * HOUR))
    recent = taken(run, "d", "recent", now=NOW + 2 * HOUR)
    later = NOW + HOUR + TTL + 1

    assert run(leases.purge(unused=Span(HOUR), limit=1, now=later)) == 1
    assert run(leases.purge(unused=Span(HOUR), limit=10, now=later)) == 1

    left = [one.name for one in listed(run, free=True, limit=10, now=later)]
    assert left == [held.name, recent.name]
    assert taken(run, "e", "lapsed", now=later).token > max(lapsed.token, recent.token)


def test_a_lock_is_not_forgotten_before_its_time(run: Run) -> None:
    grip = taken(run)
    assert run(leases.release(grip, now=NOW))

    assert run(leases.purge(unused=Span(HOUR), limit=10, now=NOW + HOUR)) == 0
    assert run(leases.purge(unused=Span(HOUR), limit=10, now=NOW + HOUR + 1)) == 1


def test_nobody_takes_a_lock_over_while_its_fenced_transaction_is_open(
    run: Run, sessions: Sessions
) -> None:
    """C09: a lease that was only read would let the takeover commit beside the stale write."""
    grip = taken(run)
    holder, other = sessions.open(), sessions.open()
    assert holder.run(leases.fence(grip, idle_limit=TTL, now=NOW))

    def taken_over() -> bool:
        standing = other.run(ask("b", now=NOW + TTL))
        return standing is not None and standing.owner == "b"

    assert gets_nothing(taken_over)
    other.rollback()
    holder.commit()

    assert taken_over()
    other.commit()


def test_a_lock_that_is_being_taken_over_cannot_be_fenced_by_its_old_holder(
    run: Run, sessions: Sessions
) -> None:
    """C09: whichever locks the row first decides."""
    grip = taken(run)
    other, holder = sessions.open(), sessions.open()
    standing = other.run(ask("b", now=NOW + TTL))
    assert standing is not None
    assert standing.owner == "b"

    fence = leases.fence(grip, idle_limit=TTL, now=NOW)
    assert gets_nothing(lambda: holder.run(fence))
    holder.rollback()
    other.commit()

    assert not holder.run(fence)


def test_of_two_that_ask_at_once_one_gets_the_lock(run: Run, sessions: Sessions) -> None:
    run(ask("nobody"))
    first, second = sessions.open(), sessions.open()
    standing = first.run(ask("a"))
    assert standing is not None
    assert standing.owner == "a"

    def second_gets_it() -> bool:
        found = second.run(ask("b"))
        return found is not None and found.owner == "b"

    assert gets_nothing(second_gets_it)
    second.rollback()
    first.commit()
    assert not second_gets_it()


def test_renewals_go_on_while_a_fenced_transaction_is_open(
    run: Run, row_sessions: Sessions
) -> None:
    """The holder's own transaction must not cost it the lock."""
    grip = taken(run)
    holder = row_sessions.open()
    assert holder.run(leases.fence(grip, idle_limit=TTL, now=NOW))

    renewed = run(leases.renew([(grip, TTL)], now=NOW + SECOND))

    assert renewed == {"a"}
    late = row_sessions.open()
    standing = late.run(ask("b", now=NOW + HOUR))
    assert standing is not None
    assert standing.owner == "a"
