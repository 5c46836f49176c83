"""Fences at resources: the highest token wins, from the announcement on; and breaking a lock."""

from __future__ import annotations

from onejob.commands import fences, leases, views
from onejob.core.run import Token
from onejob.core.time import HOUR, SECOND, Span
from onejob.testing.conformance.given import NOW, Run
from onejob.testing.conformance.leases import TTL, ask, asked, taken
from onejob.testing.conformance.sessions import Sessions, gets_nothing

EXPORT = "ledger-export"


def passes(run: Run, token: int, resource: str = EXPORT, *, scope: str = "shop") -> bool:
    """Show a token at a resource."""
    return run(fences.check(scope, resource, Token(token), idle_limit=TTL, now=NOW))


def test_a_token_passes_where_none_is_known_and_again(run: Run) -> None:
    assert run(fences.known("shop", EXPORT)) is None
    assert passes(run, 7)
    assert passes(run, 7)
    assert run(fences.known("shop", EXPORT)) == 7


def test_a_higher_token_passes_and_an_older_one_is_refused_from_then_on(run: Run) -> None:
    """C09"""
    assert passes(run, 7)
    assert passes(run, 9)
    assert not passes(run, 8)
    assert not passes(run, 7)
    assert run(fences.known("shop", EXPORT)) == 9


def test_resources_and_apps_know_nothing_of_each_other(run: Run) -> None:
    assert passes(run, 9)

    assert passes(run, 7, "another")
    assert passes(run, 7, scope="bank")
    assert not passes(run, 7)


def test_a_new_holder_announces_its_token_as_it_takes_the_lock(run: Run) -> None:
    """C09: the paused one that writes first is refused too; a token compared only at the write
    would let it."""
    old = taken(run, "a", resources=[EXPORT, "mail"])
    assert passes(run, old.token)

    new = taken(run, "b", resources=["mail", EXPORT, EXPORT], now=NOW + TTL)

    assert not passes(run, old.token)
    assert not passes(run, old.token, "mail")
    assert passes(run, new.token)


def test_whoever_is_refused_announces_nothing(run: Run) -> None:
    grip = taken(run, "a", resources=[EXPORT])

    assert asked(run, "b", resources=[EXPORT, "mail"]).owner == "a"

    assert run(fences.known("shop", EXPORT)) == grip.token
    assert run(fences.known("shop", "mail")) is None


def test_asking_again_after_a_lost_reply_announces_the_same_token(run: Run) -> None:
    grip = taken(run, "a", resources=[EXPORT])

    assert asked(run, "a", resources=[EXPORT]).token == grip.token

    assert run(fences.known("shop", EXPORT)) == grip.token


def test_nobody_with_another_token_writes_beside_a_fenced_transaction(
    run: Run, sessions: Sessions
) -> None:
    assert passes(run, 7)
    first, second = sessions.open(), sessions.open()
    check = fences.check("shop", EXPORT, Token(8), idle_limit=TTL, now=NOW)
    assert first.run(check)

    newer = fences.check("shop", EXPORT, Token(9), idle_limit=TTL, now=NOW)
    assert gets_nothing(lambda: second.run(newer))
    second.rollback()
    first.commit()

    assert second.run(newer)
    second.commit()
    assert not passes(run, 8)


def test_a_lock_is_not_taken_while_a_transaction_is_open_at_its_resource(
    run: Run, sessions: Sessions
) -> None:
    """Its announcement would come after the old holder's write, or wait for it without a bound."""
    old = taken(run, "a", resources=[EXPORT])
    writer, other = sessions.open(), sessions.open()
    assert writer.run(fences.check("shop", EXPORT, old.token, idle_limit=TTL, now=NOW))

    def taken_over() -> bool:
        standing = other.run(ask("b", resources=[EXPORT], now=NOW + TTL))
        return standing is not None and standing.owner == "b"

    assert gets_nothing(taken_over)
    other.rollback()
    writer.commit()

    assert taken_over()
    other.commit()


def test_nobody_waits_for_a_lock_whose_resource_somebody_writes_at(
    run: Run, row_sessions: Sessions
) -> None:
    """C24: refused at once; an open transaction may stay open for long."""
    old = taken(run, "a", resources=[EXPORT])
    writer, other = row_sessions.open(), row_sessions.open()
    assert writer.run(fences.check("shop", EXPORT, old.token, idle_limit=TTL, now=NOW))

    standing = other.run(ask("b", resources=[EXPORT], now=NOW + TTL))

    assert standing is not None
    assert standing.owner == "a"
    other.rollback()
    writer.commit()


def test_a_fence_that_was_rolled_back_is_not_known(run: Run, sessions: Sessions) -> None:
    assert passes(run, 7)
    session = sessions.open()
    assert session.run(fences.check("shop", EXPORT, Token(9), idle_limit=TTL, now=NOW))
    session.rollback()

    assert passes(run, 8)


def test_resources_are_forgotten_long_after_the_last_token(run: Run) -> None:
    assert passes(run, 7)
    assert passes(run, 7, "another")

    assert run(fences.purge(unused=Span(HOUR), limit=10, now=NOW + HOUR)) == 0
    assert run(fences.purge(unused=Span(HOUR), limit=1, now=NOW + HOUR + 1)) == 1
    assert run(fences.purge(unused=Span(HOUR), limit=10, now=NOW + HOUR + 1)) == 1
    assert run(fences.known("shop", EXPORT)) is None


def test_breaking_a_lock_frees_it_under_a_higher_token_that_its_resources_know(run: Run) -> None:
    old = taken(run, "a", at_least=Span(HOUR), resources=[EXPORT])
    later = NOW + SECOND

    by, reason = "ada", "stuck since noon"
    after = run(leases.break_("shop", "nightly", token=old.token, by=by, reason=reason, now=later))

    assert after is not None
    assert after.token > old.token
    assert (after.owner, after.free) == ("", True)
    assert run(fences.known("shop", EXPORT)) == after.token
    assert run(leases.renew([(old, TTL)], now=later)) == frozenset()
    assert not run(leases.release(old, now=later))
    assert taken(run, "b", now=later).token > after.token


def test_breaking_a_lock_is_recorded_with_its_reason(run: Run) -> None:
    old = taken(run, "a")
    assert run(leases.break_("shop", "nightly", token=old.token, by="ada", reason="x", now=NOW))

    [event] = run(views.events(limit=10))

    assert (event.kind, event.key, event.token) == ("lock.broken", "nightly", old.token)
    assert (event.replica, event.detail) == ("host:a", "ada: x")


def test_only_the_holder_that_was_looked_at_is_broken(run: Run) -> None:
    old = taken(run, "a")
    new = taken(run, "b", now=NOW + TTL)
    stale = leases.break_("shop", "nightly", token=old.token, by="ada", reason="x", now=NOW + TTL)
    other = leases.break_("bank", "nightly", token=new.token, by="ada", reason="x", now=NOW + TTL)

    assert run(stale) is None
    assert run(other) is None
    assert asked(run, "c", now=NOW + TTL).owner == "b"


def test_a_lock_that_is_free_is_not_broken(run: Run) -> None:
    grip = taken(run)
    assert run(leases.release(grip, now=NOW))

    assert (
        run(leases.break_("shop", "nightly", token=grip.token, by="a", reason="x", now=NOW)) is None
    )
    assert run(views.events(limit=10)) == ()


def test_a_lock_is_not_broken_while_its_fenced_transaction_is_open(
    run: Run, sessions: Sessions
) -> None:
    grip = taken(run)
    holder, person = sessions.open(), sessions.open()
    assert holder.run(leases.fence(grip, idle_limit=TTL, now=NOW))
    break_ = leases.break_("shop", "nightly", token=grip.token, by="ada", reason="x", now=NOW)

    assert gets_nothing(lambda: person.run(break_))
    person.rollback()
    holder.commit()

    assert person.run(break_)
    person.commit()
