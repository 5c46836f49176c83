"""How a store keeps a timing, and fire times that need no calendar."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onejob.core.cron import Cron
from onejob.core.every import Every, Once
from onejob.core.time import HOUR, MINUTE, SECOND, Instant, Span, read_instant
from onejob.core.timing import Timing, restored, stored
from onejob.errors import UsageError

T = read_instant("2026-03-10T10:00:00Z", "T")

TIMINGS: list[Timing] = [
    Cron.parse("0  2 * * *", "Europe/Berlin"),
    Cron.parse("@daily", "UTC"),
    Cron.parse("30 2 * * *", "Europe/Berlin", on_gap="skip"),
    Cron.parse("30 2 * * *", "Europe/Berlin", on_fold="both"),
    Every(Span(5 * MINUTE), anchor=T),
    Once(T),
]


@pytest.mark.parametrize("timing", TIMINGS, ids=str)
def test_what_was_stored_is_restored(timing: Timing) -> None:
    assert restored(json.loads(json.dumps(stored(timing)))) == timing


@pytest.mark.parametrize("kept", [{}, {"moon": "full"}, {"cron": "0 2 * * *"}, {"every": "5m"}])
def test_a_form_of_a_newer_version_is_refused_and_not_guessed_at(kept: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="upgrade onejob"):
        restored(kept)


def test_usual_policies_are_left_out_and_others_are_kept() -> None:
    usual = Cron.parse("0 2 * * *", "UTC")
    other = Cron.parse("0 2 * * *", "UTC", on_gap="skip", on_fold="second")

    assert stored(usual) == {"cron": "0 2 * * *", "tz": "UTC"}
    assert stored(other) == {**stored(usual), "on_gap": "skip", "on_fold": "second"}


def test_a_stored_zone_that_this_machine_does_not_know_is_refused() -> None:
    with pytest.raises(UsageError, match="not a known time zone"):
        restored({"cron": "0 2 * * *", "tz": "Mars/Olympus"})


def test_one_instant_fires_once_and_never_again() -> None:
    once = Once(T)

    assert once.after(Instant(T - 1)) == T
    assert once.after(T) is None
    assert once.due(Instant(T - HOUR), T, keep=5).newest == (T,)
    assert once.due(Instant(T - HOUR), T, keep=0).count == 1
    assert once.due(T, Instant(T + HOUR), keep=5).count == 0
    assert once.due(Instant(T - HOUR), Instant(T - 1), keep=5).count == 0


@given(
    interval=st.integers(1, 10**13),
    anchor=st.integers(-(10**16), 10**16),
    at=st.integers(-(10**16), 10**16),
)
def test_an_interval_stands_on_its_grid_before_and_after_its_anchor(
    interval: int, anchor: int, at: int
) -> None:
    following = Every(Span(interval), Instant(anchor)).after(Instant(at))

    assert 0 < following - at <= interval
    assert (following - anchor) % interval == 0


def test_a_span_of_an_interval_is_counted_and_its_newest_listed() -> None:
    every = Every(Span(SECOND), anchor=T)

    due = every.due(T, Instant(T + HOUR), keep=2)

    assert (due.count, due.at_least) == (3_600, False)
    assert due.newest == (T + HOUR - SECOND, T + HOUR)
