"""The quick way to a lock that was given back; a store may always refer to the other one."""

from __future__ import annotations

from onejob.commands import leases
from onejob.commands.command import Command
from onejob.core.hold import Standing
from onejob.core.time import SECOND
from onejob.testing.conformance.given import NOW, Run
from onejob.testing.conformance.leases import TTL, asked, listed, taken
from onejob.testing.conformance.sessions import Sessions, gets_nothing


def quick(owner: str, *, now: int = NOW) -> Command[Standing | None]:
    """Ask the quick way."""
    return leases.take("shop", "nightly", owner=owner, holder=f"host:{owner}", ttl=TTL, now=now)


def test_the_quick_way_gives_what_the_other_one_gives(run: Run) -> None:
    old = taken(run, "a", resources=["ledger"])
    assert run(leases.release(old, now=NOW))

    standing = run(quick("b", now=NOW + SECOND)) or asked(run, "b", now=NOW + SECOND)

    assert standing.token > old.token
    assert (standing.owner, standing.holder, standing.resources) == ("b", "host:b", "[]")
    assert (standing.acquired, standing.expires) == (NOW + SECOND, NOW + SECOND + TTL)
    assert asked(run, "c", now=NOW + SECOND).owner == "b"


def test_the_quick_way_is_only_for_a_lock_that_was_given_back(run: Run) -> None:
    """Whose lease lapsed is told of, and who is new gets a row first: by the other way."""
    assert run(quick("a")) is None
    assert listed(run, free=True) == []
    grip = taken(run, "a")

    assert run(quick("b")) is None
    assert run(quick("b", now=NOW + TTL)) is None
    assert run(quick("a")) is None

    [standing] = listed(run)
    assert (standing.owner, standing.token) == ("a", grip.token)


def test_the_quick_way_is_shut_too_while_a_fenced_transaction_is_open(
    run: Run, row_sessions: Sessions
) -> None:
    """Given back by a holder whose transaction has not ended yet."""
    grip = taken(run, "a")
    holder, other = row_sessions.open(), row_sessions.open()
    assert holder.run(leases.fence(grip, idle_limit=TTL, now=NOW))
    assert run(leases.release(grip, now=NOW))

    assert gets_nothing(lambda: other.run(quick("b")))
    other.rollback()
    holder.commit()
    assert asked(run, "b").owner == "b"
