"""Claims outside runs: one holder at a time, taken over when it lapses, kept when it is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onejob.commands import claims, ledger, schedules, views
from onejob.commands.claims import Busy, ClaimView, Finished, LedgerClaim, Taken, Unsure, Won
from onejob.commands.command import Command
from onejob.core.keys import fire_key
from onejob.core.time import DAY, HOUR, SECOND, Instant, Span
from onejob.testing.conformance.given import KEEP, LEASE, NOW, Run, defined, joined, step
from onejob.testing.conformance.sessions import Sessions, gets_nothing

LAPSED = NOW + LEASE


def test_one_of_many_wins_a_claim_and_the_others_learn_whose_it_is(run: Run) -> None:
    """A01, A06, A20"""
    won, *lost = [take(run, owner) for owner in ("a", "b", "c")]

    assert isinstance(won, Won)
    assert (won.attempt, won.since, won.until) == (1, NOW, LAPSED)
    assert won.claim.token > 0
    assert lost == [Busy("a", won.claim.token, "claimed", NOW, LAPSED, NOW)] * 2


def test_an_owner_that_asks_again_is_given_the_same_answer(run: Run) -> None:
    """The reply may have been lost: it must not wait for its own claim to lapse."""
    won = take(run, "a")

    again = take(run, "a", now=NOW + 1)

    assert isinstance(won, Won)
    assert isinstance(again, Won)
    assert (again.claim, again.until) == (won.claim, won.until)
    assert run(views.events()) == ()
    assert run(claims.end(won.claim, keep=KEEP, now=NOW))
    assert isinstance(take(run, "a"), Finished)


def test_kind_scope_and_key_each_tell_claims_apart(run: Run) -> None:
    """E15"""
    held(run, "a")

    assert isinstance(take(run, "b", kind=claims.TICK), Won)
    assert isinstance(take(run, "b", scope="digest-2"), Won)
    assert isinstance(take(run, "b", key="2026-11-30"), Won)
    assert run(ledger.first("digest", "2026-11-29", owner="b", keep=KEEP, now=NOW))


def test_what_is_done_is_finished_for_everybody(run: Run) -> None:
    """A14, D10: the second replica comes when the first has long gone, and still does nothing."""
    claim = held(run, "a")

    assert run(claims.end(claim, keep=KEEP, now=NOW + 1))

    later = NOW + 13 * HOUR
    assert take(run, "b", now=later) == Finished("a", claim.token, "done", NOW, NOW + 1, later)
    assert take(run, "a", now=later) == Finished("a", claim.token, "done", NOW, NOW + 1, later)


def test_what_failed_and_counts_is_finished_too(run: Run) -> None:
    claim = held(run, "a")

    assert run(claims.end(claim, keep=KEEP, state="failed", error="exit 3", now=NOW))

    answer = take(run, "b")
    assert isinstance(answer, Finished)
    assert answer.state == "failed"
    assert seen(run).error == "exit 3"


def test_a_lapsed_claim_is_taken_over_under_a_later_token(run: Run) -> None:
    """B07, P3"""
    old = held(run, "a")

    assert isinstance(take(run, "b", now=LAPSED - 1), Busy)
    taken = take(run, "b", now=LAPSED)

    assert isinstance(taken, Won)
    assert taken.claim.token > old.token
    assert (taken.attempt, taken.since, taken.until) == (2, LAPSED, LAPSED + LEASE)
    assert isinstance(take(run, "c", now=LAPSED), Busy)


def test_a_holder_that_was_overtaken_writes_nothing(run: Run) -> None:
    """A13, B03, C01: neither under its token, nor under its own name and the new one's token."""
    old = held(run, "a")
    new = held(run, "b", now=LAPSED)

    for stale in (old, replace(new, owner="a"), replace(old, owner="b")):
        assert not run(claims.mark(stale, lease=LEASE, now=LAPSED))
        assert not run(claims.end(stale, keep=KEEP, now=LAPSED))
        assert not run(claims.release(stale, keep=KEEP, now=LAPSED))
        assert run(claims.renew([(stale, LEASE)], now=LAPSED)) == frozenset()

    assert (seen(run).state, seen(run).owner, seen(run).token) == ("claimed", "b", new.token)


def test_a_holder_in_the_right_scope_alone_holds_nothing_elsewhere(run: Run) -> None:
    """E15: each part of the name is compared."""
    claim = held(run, "a")

    for other in (
        replace(claim, kind=claims.TICK),
        replace(claim, scope="other"),
        replace(claim, key="other"),
    ):
        assert not run(claims.mark(other, lease=LEASE, now=NOW))
        assert not run(claims.end(other, keep=KEEP, now=NOW))
        assert not run(claims.release(other, keep=KEEP, now=NOW))
        assert run(claims.renew([(other, LEASE)], now=NOW)) == frozenset()


def test_what_was_given_back_goes_to_the_next_under_a_later_token(run: Run) -> None:
    """C01"""
    first = held(run, "a")
    assert run(claims.release(first, keep=KEEP, error="ValueError: no", now=NOW))
    assert seen(run).error == "ValueError: no"

    second = take(run, "b", now=NOW + 1)

    assert isinstance(second, Won)
    assert second.claim.token > first.token
    assert (second.attempt, second.since) == (2, NOW + 1)
    assert seen(run).error is None
    assert not run(claims.end(first, keep=KEEP, now=NOW + 1))


def test_what_is_done_can_not_be_given_back_or_renewed(run: Run) -> None:
    """E11"""
    claim = held(run, "a")
    assert run(claims.end(claim, keep=KEEP, now=NOW))

    assert not run(claims.release(claim, keep=KEEP, now=NOW))
    assert not run(claims.mark(claim, lease=LEASE, now=NOW))
    assert not run(claims.end(claim, keep=KEEP, state="failed", now=NOW))
    assert run(claims.renew([(claim, LEASE)], now=NOW)) == frozenset()
    assert isinstance(take(run, "b", now=NOW + DAY), Finished)


def test_a_claim_that_had_begun_to_fire_and_lapsed_is_unknown(run: Run) -> None:
    """P5, B07: whether it fired nobody knows; it is not fired again by itself."""
    claim = held(run, "a")
    assert run(claims.mark(claim, lease=LEASE, now=NOW + SECOND))
    lapsed = LAPSED + SECOND

    busy = take(run, "b", now=lapsed - 1)
    unsure = take(run, "b", now=lapsed)

    assert busy == Busy("a", claim.token, "firing", NOW, lapsed, lapsed - 1)
    assert unsure == Unsure("a", claim.token, NOW, lapsed, lapsed)
    assert isinstance(take(run, "b", now=lapsed - 1, even_if_unsure=True), Busy)
    taken = take(run, "b", now=lapsed, even_if_unsure=True)
    assert isinstance(taken, Won)
    assert taken.claim.token > claim.token


def test_a_holder_may_end_late_while_nobody_has_taken_over(run: Run) -> None:
    """P5: it knows the truth."""
    claim = held(run, "a")
    assert run(claims.mark(claim, lease=LEASE, now=NOW))

    assert run(claims.end(claim, keep=KEEP, now=NOW + HOUR))

    assert isinstance(take(run, "b", now=NOW + HOUR), Finished)


def test_what_was_asked_twice_after_a_lost_reply_is_answered_alike(run: Run) -> None:
    ended, freed = held(run, "a"), held(run, "a", key="other")

    assert run(claims.mark(ended, lease=LEASE, now=NOW))
    assert run(claims.mark(ended, lease=LEASE, now=NOW))
    assert run(claims.end(ended, keep=KEEP, now=NOW))
    assert run(claims.release(freed, keep=KEEP, now=NOW))
    before = [seen(run), seen(run, key="other"), run(views.events())]

    assert run(claims.end(ended, keep=KEEP, now=NOW + SECOND))
    assert run(claims.release(freed, keep=KEEP, now=NOW + SECOND))
    assert [seen(run), seen(run, key="other"), run(views.events())] == before


def test_a_batch_renews_those_that_hold_and_says_which(run: Run) -> None:
    """P6"""
    one, two = held(run, "a", key="1"), held(run, "b", key="2")
    gone, done = held(run, "c", key="3"), held(run, "d", key="4")
    held(run, "e", key="3", now=LAPSED)
    assert run(claims.mark(two, lease=LEASE, now=NOW))
    assert run(claims.end(done, keep=KEEP, now=NOW))
    later = NOW + 5 * SECOND

    batch = [(one, LEASE), (two, Span(2 * LEASE)), (gone, LEASE), (done, LEASE)]
    renewed = run(claims.renew(batch, now=later))

    assert renewed == {"a", "b"}
    assert seen(run, key="1").until == later + LEASE
    assert (seen(run, key="2").until, seen(run, key="2").state) == (later + 2 * LEASE, "firing")
    assert isinstance(take(run, "f", key="1", now=LAPSED), Busy)


def test_nothing_to_renew_is_nothing_renewed(run: Run) -> None:
    assert run(claims.renew([], now=NOW)) == frozenset()


def test_the_key_of_a_run_is_never_taken_over(run: Run) -> None:
    """P1: the tick of a schedule of ours that lives in the same ledger."""
    joined(run)
    fired = run(schedules.tick([step(defined(run), NOW)], replica="replica-a", now=NOW))
    assert [tick.answer for tick in fired] == ["fired"]

    answer = take(
        run,
        "b",
        kind=claims.TICK,
        scope="mail",
        key=fire_key("nightly", Instant(NOW)),
        spacing=SECOND,
        even_if_unsure=True,
        now=NOW + 1_000 * DAY,
    )

    assert isinstance(answer, Busy)
    assert answer.until == 0


def test_the_second_of_two_claims_waits_for_the_first_and_loses(
    run: Run, sessions: Sessions
) -> None:
    """A01: insert first. Whoever looked first would find nothing, and claim it too."""
    ask = asking("b")
    first, second = sessions.open(), sessions.open()
    won = first.run(asking("a"))
    assert isinstance(won, Won)

    assert gets_nothing(lambda: second.run(ask))
    second.rollback()
    first.commit()

    assert second.run(ask) == Busy("a", won.claim.token, "claimed", NOW, LAPSED, NOW)


def test_a_claim_that_is_rolled_back_was_never_there(run: Run, sessions: Sessions) -> None:
    first, second = sessions.open(), sessions.open()
    assert isinstance(first.run(asking("a")), Won)
    first.rollback()

    assert isinstance(second.run(asking("b")), Won)


def test_of_two_who_take_over_one_wins_and_the_last_to_win_has_the_later_token(
    run: Run, sessions: Sessions
) -> None:
    """B07, C09"""
    old = held(run, "a")
    one, two = sessions.open(), sessions.open()
    won = one.run(asking("b", now=LAPSED))
    assert isinstance(won, Won)

    assert gets_nothing(lambda: two.run(asking("c", now=LAPSED)))
    two.rollback()
    one.commit()
    answer = two.run(asking("c", now=LAPSED))
    two.commit()

    assert isinstance(answer, Busy)
    assert (answer.owner, answer.token) == ("b", won.claim.token)
    assert won.claim.token > old.token


def test_a_takeover_under_way_keeps_its_old_holder_from_ending(
    run: Run, sessions: Sessions
) -> None:
    """C09: whichever has the row first decides."""
    old = held(run, "a")
    taker, holder = sessions.open(), sessions.open()
    assert isinstance(taker.run(asking("b", now=LAPSED)), Won)
    end = claims.end(old, keep=KEEP, now=LAPSED)

    assert gets_nothing(lambda: holder.run(end))
    holder.rollback()
    taker.commit()

    assert not holder.run(end)


def test_an_end_under_way_keeps_others_from_taking_over(run: Run, sessions: Sessions) -> None:
    """C09"""
    old = held(run, "a")
    holder, taker = sessions.open(), sessions.open()
    assert holder.run(claims.end(old, keep=KEEP, now=LAPSED))

    assert gets_nothing(lambda: taker.run(asking("b", now=LAPSED)))
    taker.rollback()
    holder.commit()

    assert isinstance(taker.run(asking("b", now=LAPSED)), Finished)


def asking(
    owner: str,
    *,
    kind: str = claims.PERIOD,
    scope: str = "digest",
    key: str = "2026-11-29",
    spacing: Span = Span(0),
    even_if_unsure: bool = False,
    tell: bool = True,
    now: int = NOW,
) -> Command[Taken]:
    """Return the command that claims a period, or another key."""
    return claims.take(
        kind,
        scope,
        key,
        owner=owner,
        lease=LEASE,
        keep=KEEP,
        spacing=spacing,
        even_if_unsure=even_if_unsure,
        tell=tell,
        now=now,
    )


def take(run: Run, owner: str, **fields: Any) -> Taken:
    """Ask for a claim; return the answer."""
    return run(asking(owner, **fields))


def held(run: Run, owner: str, **fields: Any) -> LedgerClaim:
    """Return a claim that this owner has just won."""
    answer = take(run, owner, **fields)
    assert isinstance(answer, Won)
    return answer.claim


def seen(run: Run, *, key: str = "2026-11-29") -> ClaimView:
    """Return a row as it stands."""
    [view] = run(claims.read(claims.PERIOD, "digest", [key], now=NOW))
    return view
