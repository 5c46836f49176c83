"""What becomes of fire times that nobody ticked: paused, skipped by a gap, or too many to keep."""

from __future__ import annotations

import time
import tracemalloc
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from onejob.core.cron import Cron
from onejob.core.every import Every, Once
from onejob.core.policy import CatchUp, Overlap, Policy, policy_restored, policy_stored
from onejob.core.schedule import MISSED_KEPT, advance, first_fire, pass_over
from onejob.core.time import DAY, HOUR, MINUTE, SECOND, Instant, Span, instant
from onejob.core.timing import Timing
from onejob.errors import UsageError

NOW = Instant(1_780_000_000_000_000 // DAY * DAY)
MINUTELY = Cron.parse("* * * * *", "Europe/Berlin")


@pytest.mark.parametrize("catch_up", list(CatchUp))
@pytest.mark.parametrize("timing", [MINUTELY, Every(MINUTE, Instant(0))], ids=["cron", "every"])
def test_a_month_of_minutes_is_judged_quickly_and_kept_in_a_handful(
    timing: Timing, catch_up: CatchUp
) -> None:
    """D17: 43,200 fire times; never a list of them."""
    policy = Policy(catch_up=catch_up)
    advance(timing, policy, last=None, next_fire=NOW, now=Instant(NOW + HOUR))
    until = Instant(NOW + 30 * DAY)

    began = time.process_time()
    advanced = advance(timing, policy, last=Instant(NOW - MINUTE), next_fire=NOW, now=until)
    took = time.process_time() - began
    tracemalloc.start()
    advance(timing, policy, last=Instant(NOW - MINUTE), next_fire=NOW, now=until)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(advanced.fire) + advanced.missed_count == 43_201
    assert len(advanced.missed) == MISSED_KEPT
    # Ten times the bound, since this machine may be busy; the figure itself is a benchmark's.
    assert took < 1.0
    assert most < 500_000


def test_what_passed_while_paused_is_missed_whatever_the_catch_up_rule() -> None:
    passed = pass_over(
        Every(MINUTE, Instant(0)),
        last=Instant(NOW - MINUTE),
        next_fire=NOW,
        now=Instant(NOW + 100 * MINUTE + SECOND),
    )

    assert passed.fire == ()
    assert (passed.missed_count, len(passed.missed)) == (101, MISSED_KEPT)
    assert {missed.reason for missed in passed.missed} == {"paused"}
    assert (passed.last, passed.next_fire) == (NOW + 100 * MINUTE, NOW + 101 * MINUTE)


def test_a_pause_in_which_nothing_was_due_changes_nothing() -> None:
    passed = pass_over(Every(DAY, Instant(0)), last=None, next_fire=NOW, now=Instant(NOW - HOUR))

    assert (passed.missed_count, passed.last, passed.next_fire) == (0, None, NOW)


def test_one_instant_that_has_passed_already_is_due_at_once() -> None:
    assert first_fire(Once(NOW), Instant(NOW + HOUR)) == NOW
    late = advance(Once(NOW), Policy(), last=None, next_fire=NOW, now=Instant(NOW + HOUR))
    assert (late.fire, late.next_fire) == ((NOW,), None)


@pytest.mark.parametrize("after", [0, SECOND])
def test_one_instant_that_is_put_after_a_later_one_has_fired_is_due(after: int) -> None:
    last, now = Instant(NOW + after), Instant(NOW + HOUR)

    late = advance(Once(NOW), Policy(), last=last, next_fire=NOW, now=now)
    passed = pass_over(Once(NOW), last=last, next_fire=NOW, now=now)

    assert (late.fire, late.next_fire) == ((NOW,), None)
    assert (passed.missed_count, passed.next_fire) == (1, None)


def test_a_pause_past_the_only_fire_time_ends_the_schedule() -> None:
    passed = pass_over(Once(NOW), last=None, next_fire=NOW, now=Instant(NOW + HOUR))

    assert (passed.missed_count, passed.next_fire) == (1, None)


def test_a_fire_time_that_fired_before_the_pause_is_not_missed() -> None:
    passed = pass_over(Every(DAY, Instant(0)), last=NOW, next_fire=NOW, now=Instant(NOW + HOUR))

    assert (passed.missed_count, passed.next_fire) == (0, NOW + DAY)


def test_a_wall_time_that_the_clocks_skipped_is_told_as_such() -> None:
    """D02: on_gap="skip" leaves 02:30 out on the night of the change, and says so."""
    berlin = ZoneInfo("Europe/Berlin")
    timing = Cron.parse("30 2 * * *", "Europe/Berlin", on_gap="skip")
    before = instant(datetime(2026, 3, 28, 2, 30, tzinfo=berlin), what="at")
    after = instant(datetime(2026, 3, 30, 2, 30, tzinfo=berlin), what="at")

    advanced = advance(timing, Policy(), last=before, next_fire=after, now=after)

    assert advanced.fire == (after,)
    [missed] = advanced.missed
    assert (missed.reason, advanced.missed_count) == ("gap", 1)
    assert before < missed.at < after


def test_missed_fire_times_are_listed_in_order_whatever_their_reason() -> None:
    timing = Cron.parse("30 2 * * *", "Europe/Berlin", on_gap="skip")
    berlin = ZoneInfo("Europe/Berlin")
    before = instant(datetime(2026, 3, 25, 2, 30, tzinfo=berlin), what="at")
    first = timing.after(before)
    assert first is not None

    advanced = advance(timing, Policy(), last=before, next_fire=first, now=Instant(first + 6 * DAY))

    assert all(one.at < other.at for one, other in pairwise(advanced.missed))
    assert {missed.reason for missed in advanced.missed} == {"gap", "catch_up"}


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(CatchUp.ALL, 7, Span(HOUR), Overlap.QUEUE, Span(MINUTE)),
        Policy(CatchUp.NONE, overlap=Overlap.CANCEL),
    ],
)
def test_a_policy_comes_back_from_the_store_as_it_was(policy: Policy) -> None:
    assert policy_restored(policy_stored(policy)) == policy


@pytest.mark.parametrize(
    "kept",
    [
        {"catch_up": "some", "catch_up_cap": 1, "overlap": "skip"},
        {"catch_up": "all", "catch_up_cap": 0, "overlap": "skip"},
        {"catch_up": "all", "catch_up_cap": 1, "overlap": "perhaps"},
    ],
)
def test_a_rule_that_this_version_does_not_know_is_an_error(kept: dict[str, object]) -> None:
    with pytest.raises((ValueError, UsageError)):
        policy_restored(kept)
