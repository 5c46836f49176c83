"""Who waits for a lock: counted by their own word, for no longer than they would have waited."""

from __future__ import annotations

from onejob.commands import leases
from onejob.core.time import HOUR, SECOND, Span
from onejob.testing.conformance.given import NOW, Run
from onejob.testing.conformance.leases import ask, taken


def waiting(run: Run, name: str = "nightly", *, now: int = NOW) -> int:
    """Count who waits for a lock."""
    [found] = run(leases.listed(name=name, free=True, limit=10, now=now))
    return found.waiting


def test_whoever_is_refused_and_waits_is_counted_once_until_it_has_the_lock(run: Run) -> None:
    grip = taken(run, "a", wait=SECOND)
    assert waiting(run) == 0

    for owner in ("b", "c", "b"):
        assert run(ask(owner, wait=5 * SECOND))
    assert waiting(run) == 2

    assert run(leases.release(grip, now=NOW))
    taken(run, "b", wait=SECOND)
    assert waiting(run) == 1


def test_whoever_does_not_wait_is_not_counted(run: Run) -> None:
    taken(run, "a")
    assert run(ask("b"))

    assert waiting(run) == 0


def test_whoever_gives_up_is_counted_no_longer(run: Run) -> None:
    taken(run, "a")
    assert run(ask("b", wait=5 * SECOND))

    assert not run(leases.give_up("shop", "nightly", owner="c"))
    assert not run(leases.give_up("bank", "nightly", owner="b"))
    assert run(leases.give_up("shop", "nightly", owner="b"))

    assert waiting(run) == 0


def test_whoever_died_waiting_is_counted_for_no_longer_than_it_would_have_waited(run: Run) -> None:
    """C05: a waiter leaves nothing behind that stays."""
    taken(run, "a", ttl=Span(2 * HOUR))
    assert run(ask("b", wait=5 * SECOND))

    assert waiting(run, now=NOW + 5 * SECOND - 1) == 1
    assert waiting(run, now=NOW + 5 * SECOND) == 0
    run(leases.purge(unused=Span(SECOND), limit=10, now=NOW + HOUR))
    assert not run(leases.give_up("shop", "nightly", owner="b"))
