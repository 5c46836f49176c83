"""Which fire times become runs, which were missed, and why."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onejob.core.cron import Cron
from onejob.core.schedule import (
    MISSED_KEPT,
    PUNCTUAL,
    Advance,
    CatchUp,
    Every,
    Missed,
    Policy,
    advance,
    first_fire,
    stable_jitter,
)
from onejob.core.time import DAY, HOUR, MINUTE, SECOND, Instant, Span, read_instant
from onejob.errors import UsageError

T = read_instant("2026-03-10T10:00:00Z", "T")
HOURLY = Cron.parse("0 * * * *", "UTC")
MINUTELY = Cron.parse("* * * * *", "UTC")


def later(span: int) -> Instant:
    return Instant(T + span)


def tick(timing: Cron | Every, now: int, policy: Policy = Policy()) -> Advance:  # noqa: B008
    """A tick ``now`` after T, for a schedule whose next fire time is T."""
    return advance(timing, policy, last=None, next_fire=T, now=later(now))


def test_waking_early_yields_nothing_and_waking_again_yields_one_run() -> None:
    """A09."""
    early = tick(HOURLY, -160_000)
    assert early.next_fire is not None
    on_time = advance(HOURLY, Policy(), last=early.last, next_fire=early.next_fire, now=T)

    assert (early.fire, early.missed, early.next_fire) == ((), (), T)
    assert on_time.fire == (T,)
    assert on_time.next_fire == later(HOUR)


def test_ten_thousand_ticks_with_a_frozen_clock_make_one_run() -> None:
    """A17."""
    last: Instant | None = None
    next_fire = T
    fired: list[Instant] = []

    for _ in range(10_000):
        answer = advance(HOURLY, Policy(), last=last, next_fire=next_fire, now=later(SECOND))
        assert answer.next_fire is not None
        fired += answer.fire
        last, next_fire = answer.last, answer.next_fire

    assert fired == [T]


def test_a_next_fire_time_that_was_not_moved_on_cannot_fire_twice() -> None:
    """A17: the stored last fire time is believed before the stored next one."""
    answer = advance(HOURLY, Policy(), last=T, next_fire=T, now=later(SECOND))

    assert answer == Advance((), (), 0, T, later(HOUR))


def test_a_few_seconds_late_still_fires() -> None:
    """D20."""
    assert tick(Cron.parse("0 10 * * 2", "UTC"), 4 * SECOND).fire == (T,)


def test_the_next_fire_time_follows_from_the_last_one_and_not_from_now() -> None:
    """D11, D19: an interval does not drift by how late each tick was."""
    every = Every(Span(MINUTE), anchor=T)
    at = T
    for n in range(1, 100):
        answer = advance(every, Policy(), last=None, next_fire=at, now=Instant(at + 7 * SECOND))
        assert answer.next_fire == later(n * MINUTE)
        at = answer.next_fire


def test_after_an_outage_one_run_stands_for_all_and_the_rest_are_missed() -> None:
    """D17, D18: a day down; each missed fire time is counted."""
    answer = tick(HOURLY, DAY + 5 * MINUTE)

    assert answer.fire == (later(DAY),)
    assert answer.missed_count == 24
    assert answer.missed[-1] == Missed(later(23 * HOUR), "catch_up")
    assert len(answer.missed) == MISSED_KEPT
    assert answer.last == later(DAY)
    assert answer.next_fire == later(25 * HOUR)


@pytest.mark.parametrize(("down", "missed"), [(31 * MINUTE, 31), (4 * DAY, 5_760)])
def test_the_count_of_missed_is_exact_whatever_the_outage(down: int, missed: int) -> None:
    """D18."""
    answer = tick(MINUTELY, down)

    assert answer.missed_count == missed
    assert not answer.missed_at_least


def test_catching_up_on_all_is_capped_at_the_newest() -> None:
    """D07, D17: a clock that jumped cannot queue more than the cap."""
    answer = tick(MINUTELY, 1_000 * MINUTE, Policy(catch_up=CatchUp.ALL, catch_up_cap=100))

    assert answer.fire == tuple(later(n * MINUTE) for n in range(901, 1_001))
    assert answer.missed_count == 901
    assert {missed.reason for missed in answer.missed} == {"cap"}


def test_catching_up_on_nothing_fires_only_what_is_punctual() -> None:
    """D17."""
    none = Policy(catch_up=CatchUp.NONE)

    assert tick(HOURLY, PUNCTUAL, none).fire == (T,)
    late = tick(HOURLY, PUNCTUAL + 1, none)
    assert (late.fire, late.missed) == ((), (Missed(T, "catch_up"),))
    assert late.next_fire == later(HOUR)


def test_a_thaw_fires_once_and_not_for_every_missed_tick() -> None:
    """D08: an interval of 200 ms, frozen for 10 s."""
    every = Every(Span(200_000), anchor=T)

    assert len(tick(every, 10 * SECOND).fire) == 1
    assert len(tick(every, 10 * SECOND, Policy(catch_up=CatchUp.NONE)).fire) == 1


def test_what_is_too_late_is_missed_as_late() -> None:
    """D17."""
    hour = Span(HOUR)
    by_all = Policy(catch_up=CatchUp.ALL, max_lateness=hour)

    assert tick(HOURLY, HOUR, by_all).fire == (T, later(HOUR))
    answer = tick(HOURLY, HOUR + 1, by_all)
    assert answer.fire == (later(HOUR),)
    assert answer.missed == (Missed(T, "late"),)

    daily = Cron.parse("0 10 * * *", "UTC")
    answer = tick(daily, 2 * HOUR, Policy(max_lateness=hour))
    assert (answer.fire, answer.missed) == ((), (Missed(T, "late"),))


@pytest.mark.parametrize(
    ("timing", "down"),
    [
        (MINUTELY, 30 * DAY),
        (Cron.parse("* * * * *", "Europe/Berlin"), 30 * DAY),
        (Every(Span(SECOND), anchor=T), 365 * DAY),
        (MINUTELY, 300 * 365 * DAY),
    ],
)
def test_a_long_outage_is_judged_in_bounded_time(timing: Cron | Every, down: int) -> None:
    """D17: no list of all that was missed is ever made."""
    began = time.process_time()

    answer = tick(timing, down, Policy(catch_up=CatchUp.ALL))

    assert time.process_time() - began < 0.5  # seldom 0.05; a busy machine is no failure
    assert len(answer.fire) == 100
    assert len(answer.missed) == MISSED_KEPT
    assert answer.missed_at_least == (down > 30 * 365 * DAY)


def test_a_first_deploy_fires_nothing_from_before() -> None:
    assert first_fire(HOURLY, T) == later(HOUR)
    assert first_fire(Every(Span(MINUTE), anchor=T), later(90 * SECOND)) == later(2 * MINUTE)
    assert first_fire(Cron.parse("0 0 31 2 *", "UTC"), T) is None


def test_a_schedule_without_a_next_fire_time_ends() -> None:
    """D22."""
    answer = tick(Cron.parse("0 0 31 2 *", "UTC"), SECOND)

    assert (answer.fire, answer.next_fire) == ((T,), None)


def test_replicas_that_start_at_different_moments_share_one_grid() -> None:
    """A23."""
    every = Every(Span(30 * SECOND), anchor=T)

    assert {every.after(later(n * SECOND)) for n in range(30)} == {later(30 * SECOND)}


@given(st.integers(1, 10**12), st.integers(-(10**16), 10**16), st.integers(-(10**16), 10**16))
def test_an_interval_fires_on_its_grid_before_the_anchor_too(
    interval: int, anchor: int, at: int
) -> None:
    following = Every(Span(interval), Instant(anchor)).after(Instant(at))

    assert at < following <= at + interval
    assert (following - anchor) % interval == 0


def test_an_interval_that_never_moves_is_refused() -> None:
    with pytest.raises(UsageError, match="never moves"):
        Every(Span(0), anchor=T)
    with pytest.raises(UsageError, match="catch_up_cap=0"):
        Policy(catch_up_cap=0)


@given(
    timing=st.sampled_from([HOURLY, MINUTELY, Every(Span(90 * SECOND), anchor=T)]),
    catch_up=st.sampled_from(CatchUp),
    cap=st.integers(1, 30),
    lateness=st.none() | st.integers(0, 3 * HOUR).map(Span),
    now=st.integers(-HOUR, 6 * HOUR),
    wakes=st.lists(st.integers(0, 3 * HOUR), max_size=6),
)
def test_no_fire_time_is_lost_or_comes_twice(
    timing: Cron | Every,
    catch_up: CatchUp,
    cap: int,
    lateness: Span | None,
    now: int,
    wakes: list[int],
) -> None:
    """A17, D18: over any wake-ups, fired and missed together are all that were due, once each."""
    policy = Policy(catch_up, cap, lateness)
    last: Instant | None = None
    next_fire = T
    fired: list[Instant] = []
    missed = 0
    at = later(now)

    for wake in [0, *wakes]:
        at = Instant(at + wake)
        answer = advance(timing, policy, last=last, next_fire=next_fire, now=at)
        assert answer.next_fire is not None
        assert answer.next_fire > at
        fired += answer.fire
        missed += answer.missed_count
        last, next_fire = answer.last, answer.next_fire

    due = timing.due(Instant(T - 1), at, keep=10_000)
    assert fired == sorted(set(fired))
    assert set(fired) <= set(due.newest)
    assert len(fired) + missed == due.count


def test_jitter_is_the_same_in_every_process() -> None:
    """A24."""
    code = (
        "from onejob.core.schedule import stable_jitter;print(stable_jitter('nightly', 60_000_000))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout.strip()
        for seed in ("1", "2")
    }

    assert found == {str(stable_jitter("nightly", Span(MINUTE)))}


def test_jitter_spreads_names_over_the_window() -> None:
    """D21: of 100 schedules of a minute, no second holds more than 8."""
    seconds = Counter(stable_jitter(f"job-{n}", Span(MINUTE)) // SECOND for n in range(100))

    assert max(seconds.values()) <= 8
    assert all(0 <= second < 60 for second in seconds)
    assert stable_jitter("x", Span(0)) == 0
