"""Fire times are those of the slow reference, at odd moments of odd zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.slow_cron import (
    DAY,
    MINUTE,
    SECOND,
    Window,
    fires,
    taken_by_gaps,
    utc,
    window,
)
from core.walk import POLICIES, found
from onejob.core.cron import Cron, _calendar
from onejob.core.local_clock import local_clock
from onejob.core.time import Instant, instant, moment

HOUR = timedelta(hours=1)

#: Odd zones, around their odd moments: (zone, first UTC day of the window).
MOMENTS = [
    ("Europe/London", "2025-10-24"),
    ("Europe/Berlin", "2026-03-27"),
    ("Australia/Lord_Howe", "2026-04-03"),
    ("Australia/Lord_Howe", "2026-10-02"),
    ("Pacific/Apia", "2011-12-28"),
    ("America/Sao_Paulo", "2018-11-02"),
    ("America/Sao_Paulo", "2018-02-16"),
    ("Africa/Cairo", "2025-04-23"),
    ("Africa/Cairo", "2025-10-29"),
    ("America/St_Johns", "2006-10-27"),  # back at 00:01
    ("America/Havana", "2025-11-01"),
    ("Asia/Kathmandu", "1985-12-30"),  # a quarter of an hour forward at midnight
    ("Antarctica/Troll", "2025-03-29"),  # two hours
    ("Pacific/Kwajalein", "1993-08-19"),  # a day skipped
    ("Pacific/Kwajalein", "1969-09-29"),  # nearly a day repeated
    ("Asia/Pyongyang", "2018-05-03"),
    ("Africa/Casablanca", "2025-02-22"),
    ("Africa/Monrovia", "1972-01-05"),  # 44 minutes and 30 seconds
    ("UTC", "2025-03-01"),
]


def _field(least: int, most: int, *, starred: bool) -> st.SearchStrategy[str]:
    numbers = st.integers(least, most)
    items = st.one_of(
        numbers.map(str),
        st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}"),
    ).filter(lambda item: item != f"{least}-{most}")
    lists = st.lists(items, min_size=1, max_size=2).map(",".join)
    stars = st.sampled_from(["*", "*/2", "*/3", "*/7", "*/15"])
    return st.one_of(lists, stars) if starred else lists


_DATES = st.tuples(
    st.one_of(_field(1, 31, starred=True), st.just("L"), st.just("*")),
    st.just("*"),
    st.one_of(st.just("*"), _field(0, 7, starred=True)),
).map(" ".join)
EXPRESSIONS = st.one_of(
    st.tuples(_field(0, 59, starred=False), _field(0, 4, starred=False), _DATES),
    st.tuples(_field(0, 59, starred=False), _field(0, 23, starred=False), _DATES),
    st.tuples(_field(0, 59, starred=True), _field(0, 23, starred=True), _DATES),
).map(" ".join)


def _covers_a_range(expression: str) -> bool:
    # Lists whose union is the whole range are wildcards to the one and not to the other.
    minute, hour, *_ = expression.split()
    return ("," in minute and "0-" in minute) or ("," in hour and "0-" in hour)


@cache
def _moment(place: tuple[str, str]) -> Window:
    tz, day = place
    return window(tz, utc(day), timedelta(days=5))


@settings(max_examples=150, deadline=None)
@given(
    place=st.sampled_from(MOMENTS),
    expression=EXPRESSIONS.filter(lambda e: not _covers_a_range(e)),
    policies=st.fixed_dictionaries(
        {
            "on_gap": st.sampled_from(["shift", "skip"]),
            "on_fold": st.sampled_from(["first", "second", "both"]),
        }
    ),
)
@example(place=("America/St_Johns", "2006-10-27"), expression="0,1 0 * * *", policies={})
@example(place=("Pacific/Kwajalein", "1969-09-29"), expression="30 12 * * *", policies={})
@example(place=("Pacific/Kwajalein", "1969-09-29"), expression="*/7 */3 30 * *", policies={})
@example(place=("Pacific/Apia", "2011-12-28"), expression="0 0 * * 5", policies={})
@example(place=("Pacific/Apia", "2011-12-28"), expression="0 12 * * *", policies={})
@example(
    place=("Pacific/Kwajalein", "1969-09-29"),
    expression="0 23 * * *",
    policies={"on_fold": "second"},
)
def test_fire_times_at_odd_moments_are_those_of_the_slow_reference(
    place: tuple[str, str], expression: str, policies: dict[str, Any]
) -> None:
    """D01, D02, D03, D04: zones that change by minutes, hours and days, at midnight or not."""
    seen = _moment(place)

    assert found(expression, place[0], seen, **policies) == fires(expression, seen, **policies)


def test_what_gaps_took_is_what_the_slow_reference_never_sees() -> None:
    """D02."""
    for place in MOMENTS:
        seen = _moment(place)
        for expression in ("30 2 * * *", "*/30 0-3 * * *", "0 12 30 12 *", "7,9 */5 * * *"):
            cron = Cron.parse(expression, place[0], on_gap="skip")
            before = Instant(instant(seen.start, what="start") - 1)
            last = Instant(instant(seen.stop, what="stop") - 1)
            expected: dict[datetime, list[datetime]] = {}
            for wall, after in taken_by_gaps(expression, seen):
                expected.setdefault(after, []).append(wall)

            taken = cron.skipped(before, last)

            assert [(moment(gap.at), gap.count) for gap in taken] == [
                (after, len(walls)) for after, walls in expected.items()
            ]
            assert [moment(Instant(gap.wall * 1_000_000)) for gap in taken] == [
                walls[0].replace(tzinfo=UTC) for walls in expected.values()
            ]


@pytest.mark.parametrize("place", MOMENTS, ids=str)
@pytest.mark.parametrize("known", [True, False])
def test_a_date_years_away_is_as_exact_as_one_tomorrow(place: tuple[str, str], known: bool) -> None:
    """D02, D04: whether the years between have been worked out before or not."""
    tz, day = place
    seen = _moment(place)
    middle = utc(day) + timedelta(days=2)
    before = Instant(instant(middle - timedelta(days=800), what="before"))
    for hour in (0, 2, 12, 23):
        for date in (middle - DAY, middle, middle + DAY):
            expression = f"30 {hour} {date.day} {date.month} *"
            for policies in POLICIES:
                expected = fires(expression, seen, **policies)
                local_clock.cache_clear()
                _calendar.cache_clear()
                cron = Cron.parse(expression, tz, **policies)
                if known:
                    cron.due(before, Instant(instant(seen.stop, what="stop")), keep=1)
                at = cron.after(before)
                while at is not None and moment(at) < seen.start:
                    at = cron.after(at)

                assert [at is not None and moment(at)][: len(expected)] == expected[:1]


@pytest.mark.parametrize(
    ("tz", "start"),
    [
        ("Europe/Berlin", "2026-03-29 00:00"),
        ("Europe/Berlin", "2026-10-25 00:00"),
        ("Australia/Lord_Howe", "2026-04-04 14:00"),
        ("Africa/Monrovia", "1972-01-07 00:00"),
    ],
)
def test_seconds_follow_the_same_rules(tz: str, start: str) -> None:
    """D01, D02, D03: a sixth field adds no rule of its own."""
    seen = window(tz, utc(start), 2 * HOUR, step=SECOND, margin=HOUR)
    for expression in (
        "17 30 2 * * *",
        "*/20 30 2 * * *",
        "5 */30 * * * *",
        "59 59 0-3 * * *",
        "* 15 1 * * *",
        "0 44 23,0 * * *",
    ):
        for policies in POLICIES:
            assert found(expression, tz, seen, **policies) == fires(expression, seen, **policies)


@settings(max_examples=200, deadline=None)
@given(at=st.integers(-(10**15), 10**16), expression=EXPRESSIONS)
def test_after_is_always_later(at: int, expression: str) -> None:
    following = Cron.parse(expression, "Europe/Berlin").after(Instant(at))

    assert following is None or following > at


@settings(max_examples=150, deadline=None)
@given(
    place=st.sampled_from(MOMENTS),
    expression=EXPRESSIONS,
    begin=st.integers(0, 3 * 1440),
    length=st.integers(0, 5 * 1440),
    keep=st.sampled_from([0, 1, 5, 10_000]),
)
@example(
    place=("Pacific/Apia", "2011-12-28"), expression="0 12 * * *", begin=0, length=7_000, keep=1
)
def test_due_lists_and_counts_exactly_what_after_walks_through(
    place: tuple[str, str], expression: str, begin: int, length: int, keep: int
) -> None:
    """D17: a part of a day, days, and any number of them kept."""
    tz, day = place
    cron = Cron.parse(expression, tz)
    start = Instant(instant(utc(day) + begin * MINUTE, what="day"))
    until = Instant(start + length * 60_000_000)
    walked = []
    at = cron.after(start)
    while at is not None and at <= until:
        walked.append(at)
        at = cron.after(at)

    due = cron.due(start, until, keep=keep)

    assert due.count == len(walked)
    assert list(due.newest) == (walked[-keep:] if keep else [])
    assert not due.at_least
