"""Fire times of cron expressions, in ordinary zones, odd ones, and across clock changes."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.slow_cron import fires, utc
from onejob.core.cron import LOOK_BACK_DAYS, Cron
from onejob.core.time import DAY, HOUR, MINUTE, Instant, instant, moment, read_instant, text
from onejob.errors import UsageError


def after(expression: str, tz: str, start: str, count: int = 1) -> list[str | None]:
    cron, at = Cron.parse(expression, tz), read_instant(start, "start")
    found: list[str | None] = []
    while len(found) < count:
        following = cron.after(at)
        found.append(following and text(following))
        if following is None:
            break
        at = following
    return found


@pytest.mark.parametrize(
    ("expression", "tz", "start", "expected"),
    [
        # The repeated hour: the first of the two (D01).
        (
            "30 1 * * *",
            "Europe/London",
            "2025-10-25T12:00Z",
            ["2025-10-26T00:30:00Z", "2025-10-27T01:30:00Z"],
        ),
        # Asked during the second pass, the answer is tomorrow and not an instant in the past.
        ("30 1 * * *", "Europe/London", "2025-10-26T01:10Z", ["2025-10-27T01:30:00Z"]),
        # The skipped hour: the first instant after it (D02).
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00Z",
            ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        ),
        # Two times in one gap are one fire time.
        (
            "0,30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00Z",
            ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"],
        ),
        # A midnight that does not exist.
        (
            "0 0 * * *",
            "America/Sao_Paulo",
            "2018-11-03T12:00Z",
            ["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"],
        ),
        ("15 0 * * *", "Africa/Cairo", "2025-04-24T12:00Z", ["2025-04-24T22:00:00Z"]),
        # A date that does not exist: Apia went from the 29th to the 31st.
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T12:00Z",
            ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"],
        ),
        # Half an hour back.
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T12:00Z",
            ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"],
        ),
    ],
)
def test_a_fixed_time_fires_once_per_local_date(
    expression: str, tz: str, start: str, expected: list[str]
) -> None:
    """D01, D02."""
    assert after(expression, tz, start, len(expected)) == expected


def test_a_wildcard_runs_in_real_time_through_the_repeated_hour() -> None:
    """D03."""
    found = after("*/15 * * * *", "Europe/London", "2025-10-26T00:00Z", 12)

    assert [read_instant(str(at), "at") for at in found] == [
        read_instant("2025-10-26T00:00Z", "start") + n * 15 * MINUTE for n in range(1, 13)
    ]


def test_a_wildcard_has_nothing_to_fire_in_the_gap() -> None:
    """D04."""
    assert after("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:30Z", 2) == [
        "2026-03-29T01:00:00Z",
        "2026-03-29T01:30:00Z",
    ]
    assert after("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", 1) == [
        "2026-03-30T00:00:00Z"
    ]


def test_the_whole_range_is_a_wildcard_too() -> None:
    assert after("0 0-23 * * *", "Europe/London", "2025-10-26T00:00Z", 2) == [
        "2025-10-26T01:00:00Z",
        "2025-10-26T02:00:00Z",
    ]


def test_a_restricted_wildcard_asked_in_the_first_pass_still_fires_in_the_second() -> None:
    assert after("*/30 1 26 10 *", "Europe/London", "2025-10-26T00:45Z") == ["2025-10-26T01:00:00Z"]


@pytest.mark.parametrize(
    ("expression", "start", "expected"),
    [
        ("0 9 15 * 1", "2025-09-01", [1, 8, 15, 22, 29]),  # D14: either, and the 15th once
        ("0 0 */3 * 1-5", "2024-04-01", [1, 4, 10, 16, 19, 22, 25]),  # D15: a leading * means both
        ("0 0 L * *", "2024-02-01", [29]),  # D16
        ("0 0 */10 * *", "2025-03-01", [1, 11, 21, 31]),  # D16
        ("0 0 LW * *", "2025-08-01", [29]),
        ("0 0 * * 5L", "2025-08-01", [29]),
        ("0 0 * * FRIL", "2025-08-01", [29]),
        ("0 0 * * MON#1,WED#3", "2025-08-01", [4, 20]),
        ("0 0 * * 7", "2025-08-01", [3, 10, 17, 24, 31]),
        ("0 0 * * sun", "2025-08-01", [3, 10, 17, 24, 31]),
        ("0 0 10-20/5 AUG-SEP *", "2025-08-01", [10, 15, 20]),
        ("@weekly", "2025-08-01", [3, 10, 17, 24, 31]),
        ("@monthly", "2025-08-01", [1]),
    ],
)
def test_days_of_a_month(expression: str, start: str, expected: list[int]) -> None:
    """D14, D15, D16."""
    first = utc(start)
    cron = Cron.parse(expression, "UTC")
    at = Instant(instant(first, what="first") - 1)
    found = []

    while (following := cron.after(at)) is not None and moment(following).month == first.month:
        found.append(moment(following).day)
        at = following

    assert found == expected


def test_the_last_day_of_the_month_is_right_in_every_month() -> None:
    """D16."""
    found = after("0 0 L * *", "UTC", "2023-12-31T23:00Z", 24)

    assert found[1] == "2024-02-29T00:00:00Z"
    assert found[-1] == "2025-12-31T00:00:00Z"


@pytest.mark.parametrize(
    "expression", ["0 0 31 2 *", "*/5 0 31 2 *", "0 0 30,31 FEB *", "*/30 2 * 3 SUNL"]
)
def test_what_never_comes_is_answered_in_bounded_time(expression: str) -> None:
    """D22: accepted, since people use it on purpose to say "never"."""
    cron = Cron.parse(expression, "Europe/Berlin")
    began = time.process_time()

    assert cron.after(read_instant("2025-01-01T00:00Z", "start")) is None

    assert time.process_time() - began < 0.05


def test_a_leap_day_is_found_over_a_century_that_is_not_leap() -> None:
    """D22."""
    assert after("0 0 29 2 *", "UTC", "2097-01-01T00:00Z") == ["2104-02-29T00:00:00Z"]
    assert after("0 0 29 2 */1", "UTC", "2096-03-01T00:00Z") == ["2104-02-29T00:00:00Z"]
    assert after("0 0 */28 2 3", "UTC", "2096-03-01T00:00Z") == ["2102-02-01T00:00:00Z"]


def test_all_daily_expressions_are_valid_on_every_day() -> None:
    """D05: checking reads no clock, and each gives an answer from any edge of a clock change."""
    edges = [read_instant(f"{day}T00:59:30Z", "edge") for day in ("2025-10-26", "2026-03-29")]

    for minute in range(1_440):
        cron = Cron.parse(f"{minute % 60} {minute // 60} * * *", "Europe/Berlin")
        for edge in edges:
            following = cron.after(edge)
            assert following is not None
            assert edge < following <= edge + DAY + HOUR


@pytest.mark.parametrize(
    ("shortcut", "fields"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@Weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_a_shortcut_is_its_fields(shortcut: str, fields: str) -> None:
    assert after(shortcut, "UTC", "2025-01-01T00:00Z", 5) == after(
        fields, "UTC", "2025-01-01T00:00Z", 5
    )


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("61 * * * *", r"field 1 \(minute\): 61 is outside 0-59"),
        ("* 24 * * *", r"field 2 \(hour\): 24 is outside 0-23"),
        ("0 0 5-1 * *", r"field 3 \(day-of-month\): the range 5-1 runs backwards"),
        ("0 0 L/2 * *", r"field 3 \(day-of-month\): 'L/2' is not understood"),
        ("0 0 ? * *", r"field 3 \(day-of-month\): '\?' is not cron's"),
        ("* * * FOO *", r"field 4 \(month\): 'FOO' is not understood"),
        ("0 0 * * 8", r"field 5 \(day-of-week\): 8 is outside 0-7"),
        ("*/0 * * * *", r"field 1 \(minute\): a step of 0 never moves"),
        ("*/x * * * *", r"field 1 \(minute\): the step 'X' is not a whole number"),
        ("1,,2 * * * *", r"field 1 \(minute\): an item is empty"),
        ("* * * *", "has 4 fields, not 5"),
        ("0 * * * * *", "has 6 fields, not 5.*Seconds"),
        ("", "has 0 fields"),
        ("@dayly", "Use '@daily'"),
        ("@reboot", "names no time"),
        ("é * * * *", "ASCII"),
        pytest.param("1" * 5_000 + " * * * *", "ASCII", id="five thousand digits"),
    ],
)
def test_a_bad_expression_is_refused_with_its_position_and_reason(
    expression: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        Cron.parse(expression, "UTC")


def test_an_unknown_zone_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="Europe/Berlin"):
        Cron.parse("0 2 * * *", "Europe/Berln")


# Odd zones, around their odd moments: (zone, first UTC day of the window).
_MOMENTS = [
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
_EXPRESSIONS = st.one_of(
    st.tuples(_field(0, 59, starred=False), _field(0, 4, starred=False), _DATES),
    st.tuples(_field(0, 59, starred=False), _field(0, 23, starred=False), _DATES),
    st.tuples(_field(0, 59, starred=True), _field(0, 23, starred=True), _DATES),
).map(" ".join)


def _covers_a_range(expression: str) -> bool:
    # Lists whose union is the whole range are wildcards to the one and not to the other.
    minute, hour, *_ = expression.split()
    return ("," in minute and "0-" in minute) or ("," in hour and "0-" in hour)


@settings(max_examples=150, deadline=None)
@given(place=st.sampled_from(_MOMENTS), expression=_EXPRESSIONS)
@example(place=("America/St_Johns", "2006-10-27"), expression="0,1 0 * * *")
@example(place=("Pacific/Kwajalein", "1969-09-29"), expression="30 12 * * *")
@example(place=("Pacific/Kwajalein", "1969-09-29"), expression="*/7 */3 30 * *")
@example(place=("Pacific/Apia", "2011-12-28"), expression="0 0 * * 5")
def test_fire_times_are_those_of_the_slow_reference(
    place: tuple[str, str], expression: str
) -> None:
    """D01 to D04, in zones that change by minutes, hours and days, at midnight and elsewhere."""
    if _covers_a_range(expression):
        return
    tz, day = place
    start, days = utc(day), 5
    cron = Cron.parse(expression, tz)
    until = instant(start + timedelta(days=days), what="until")
    expected = fires(expression, tz, start, days)

    found: list[datetime] = []
    at = cron.after(Instant(instant(start, what="start") - 1))
    while at is not None and at < until:
        found.append(moment(at))
        at = cron.after(at)

    assert found == expected


@settings(max_examples=150, deadline=None)
@given(
    place=st.sampled_from(_MOMENTS),
    expression=_EXPRESSIONS,
    begin=st.integers(0, 3 * 1440),
    length=st.integers(0, 5 * 1440),
    keep=st.sampled_from([1, 5, 10_000]),
)
@example(
    place=("Pacific/Apia", "2011-12-28"), expression="0 12 * * *", begin=0, length=7_000, keep=1
)
def test_due_lists_and_counts_exactly_what_after_walks_through(
    place: tuple[str, str], expression: str, begin: int, length: int, keep: int
) -> None:
    tz, day = place
    cron = Cron.parse(expression, tz)
    start = Instant(instant(utc(day), what="day") + begin * MINUTE)
    until = Instant(start + length * MINUTE)
    walked = []
    at = cron.after(start)
    while at is not None and at <= until:
        walked.append(at)
        at = cron.after(at)

    due = cron.due(start, until, keep=keep)

    assert due.count == len(walked)
    assert list(due.newest) == walked[-keep:]
    assert not due.at_least


def test_a_span_too_long_to_count_says_so() -> None:
    until = read_instant("2026-03-01T00:00Z", "until")

    due = Cron.parse("0 0 * * *", "UTC").due(
        Instant(until - (LOOK_BACK_DAYS + 100) * DAY), until, keep=1
    )

    assert due.at_least
    assert due.newest == (until,)
    assert due.count == pytest.approx(LOOK_BACK_DAYS, abs=2)


@given(at=st.integers(-(10**15), 10**16), expression=_EXPRESSIONS)
@settings(max_examples=200, deadline=None)
def test_after_is_always_later(at: int, expression: str) -> None:
    following = Cron.parse(expression, "Europe/Berlin").after(Instant(at))

    assert following is None or following > at
