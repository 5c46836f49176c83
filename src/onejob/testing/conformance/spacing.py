"""Claims that stand for all ticks of a name, and what is recorded of those who lost."""

from __future__ import annotations

import json

from onejob.commands import claims, events, views
from onejob.commands.claims import Busy, Finished, Unsure, Won
from onejob.commands.views import EventView
from onejob.core.time import DAY, HOUR, MINUTE, SECOND, Span
from onejob.testing.conformance.claims import held, take
from onejob.testing.conformance.given import KEEP, LEASE, NOW, Run
from onejob.testing.conformance.sessions import Sessions

INTERVAL = Span(5 * MINUTE)
SPACING = Span(INTERVAL - SECOND)


def test_of_replicas_with_phases_of_their_own_one_fires_in_each_interval(run: Run) -> None:
    """A14: rounding to the nearest boundary would let each phase through."""
    won = []
    for tick in range(10):
        for owner, phase in (("a", 0), ("b", 100 * SECOND), ("c", 200 * SECOND)):
            now = NOW + tick * INTERVAL + phase
            answer = take(run, owner, spacing=SPACING, now=now)
            if isinstance(answer, Won):
                won.append((tick, owner))
                assert run(claims.end(answer.claim, keep=KEEP, now=now))

    assert won == [(tick, "a") for tick in range(10)]


def test_a_tick_is_admitted_a_little_early_and_not_earlier(run: Run) -> None:
    """D10"""
    first = held(run, "a", spacing=SPACING)
    assert run(claims.end(first, keep=KEEP, now=NOW))

    early = take(run, "b", spacing=SPACING, now=NOW + SPACING - 1)
    next = take(run, "b", spacing=SPACING, now=NOW + SPACING)

    assert isinstance(early, Finished)
    assert isinstance(next, Won)
    assert (next.attempt, next.since) == (1, NOW + SPACING)


def test_a_takeover_does_the_same_tick_and_moves_nothing(run: Run) -> None:
    """B07: the next one comes when it would have come."""
    old = held(run, "a", spacing=SPACING)
    lapsed = NOW + LEASE

    taken = take(run, "b", spacing=SPACING, now=lapsed)

    assert isinstance(taken, Won)
    assert (taken.attempt, taken.since) == (2, NOW)
    assert taken.claim.token > old.token
    assert isinstance(take(run, "c", spacing=SPACING, now=NOW + SPACING), Won)


def test_a_tick_that_was_given_back_can_be_had_within_its_interval(run: Run) -> None:
    claim = held(run, "a", spacing=SPACING)
    assert run(claims.release(claim, keep=KEEP, now=NOW + SECOND))

    taken = take(run, "b", spacing=SPACING, now=NOW + 2 * SECOND)

    assert isinstance(taken, Won)
    assert (taken.attempt, taken.since) == (2, NOW)


def test_the_next_tick_comes_whatever_became_of_the_last(run: Run) -> None:
    """P3: even where it is unknown, or held for long."""
    for begin in (False, True):
        claim = held(run, "a", spacing=SPACING, key=str(begin))
        if begin:
            assert run(claims.mark(claim, lease=LEASE, now=NOW))
            unsure = take(run, "b", spacing=SPACING, key=str(begin), now=NOW + LEASE)
            assert isinstance(unsure, Unsure)
        later = NOW + SPACING - SECOND
        assert run(claims.renew([(claim, LEASE)], now=later)) == {"a"}

        taken = take(run, "b", spacing=SPACING, key=str(begin), now=NOW + SPACING)

        assert isinstance(taken, Won)
        assert taken.attempt == 1
        assert not run(claims.mark(claim, lease=LEASE, now=NOW + SPACING))


def test_a_clock_set_back_does_not_silence_a_name_until_it_has_caught_up(run: Run) -> None:
    """D06: two hours back would be two hours without a tick."""
    claim = held(run, "a", spacing=SPACING)
    assert run(claims.end(claim, keep=KEEP, now=NOW))

    for_an_instant = take(run, "b", spacing=SPACING, now=NOW - SPACING)
    for_good = take(run, "b", spacing=SPACING, now=NOW - 2 * HOUR)

    assert isinstance(for_an_instant, Finished)
    assert isinstance(for_good, Won)
    assert for_good.since == NOW - 2 * HOUR


def test_of_two_ticks_at_once_one_waits_and_is_refused(run: Run, sessions: Sessions) -> None:
    """A01"""
    done = held(run, "a", spacing=SPACING)
    assert run(claims.end(done, keep=KEEP, now=NOW))
    now = NOW + INTERVAL
    one = sessions.open()
    ask = claims.take(
        claims.PERIOD,
        "digest",
        "2026-11-29",
        owner="b",
        lease=LEASE,
        keep=KEEP,
        spacing=SPACING,
        now=now,
    )
    assert isinstance(one.run(ask), Won)
    one.commit()

    assert isinstance(take(run, "c", spacing=SPACING, now=now - 1), Busy)


def test_who_lost_is_told_once_with_the_one_who_won(run: Run) -> None:
    """P7, A06"""
    won = held(run, "a", kind=claims.TICK, scope="nightly")
    for tell in (True, False):
        take(run, "b", kind=claims.TICK, scope="nightly", tell=tell, now=NOW + SECOND)

    [event] = told(run, "nightly")

    assert (event.kind, event.at, event.job, event.key) == (
        "tick.lost",
        NOW + SECOND,
        "nightly",
        "2026-11-29",
    )
    assert (event.token, event.replica) == (won.token, "b")
    assert json.loads(event.detail) == {"holder": "a", "state": "claimed"}


def test_who_abandoned_is_told_with_the_one_who_took_over(run: Run) -> None:
    """P7, B07"""
    old = held(run, "a")
    held(run, "b", now=NOW + LEASE)

    [event] = told(run, "digest")

    assert (event.kind, event.at, event.token) == ("period.abandoned", NOW + LEASE, old.token)
    assert event.replica == "a"
    assert json.loads(event.detail) == {"taken_by": "b", "state": "claimed"}


def test_what_was_done_or_given_back_is_abandoned_by_nobody(run: Run) -> None:
    """P7"""
    first = held(run, "a", spacing=SPACING)
    assert run(claims.end(first, keep=KEEP, now=NOW))
    second = held(run, "b", spacing=SPACING, now=NOW + INTERVAL)
    assert run(claims.release(second, keep=KEEP, error="exit 3", now=NOW + INTERVAL))
    held(run, "c", spacing=SPACING, now=NOW + 2 * INTERVAL)

    [event] = told(run, "digest")

    assert (event.kind, event.token, event.replica) == ("period.released", second.token, "b")
    assert json.loads(event.detail) == {"error": "exit 3"}


def test_a_tick_whose_holder_was_overtaken_by_the_next_is_told(run: Run) -> None:
    """P7: that one may not have been fired."""
    old = held(run, "a", spacing=SPACING)
    assert run(claims.mark(old, lease=LEASE, now=NOW))
    held(run, "b", spacing=SPACING, now=NOW + INTERVAL)

    [event] = told(run, "digest")

    assert (event.kind, event.token) == ("period.abandoned", old.token)
    assert json.loads(event.detail) == {"taken_by": "b", "state": "firing"}


def test_what_is_told_of_claims_is_forgotten_in_time(run: Run) -> None:
    """F15"""
    held(run, "a")
    take(run, "b")

    assert run(events.purge(before=NOW + DAY, limit=10)) == 1
    assert told(run, "digest") == ()


def told(run: Run, scope: str) -> tuple[EventView, ...]:
    """Return what was recorded of a scope."""
    return run(views.events(schedule=scope))
