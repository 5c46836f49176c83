"""What cron expressions mean: days, shortcuts, seconds, what never comes, what is refused."""

from __future__ import annotations

import time

import pytest

from core.slow_cron import utc
from onejob.core.cron import LOOK_BACK_DAYS, Cron
from onejob.core.time import DAY, HOUR, SECOND, Instant, instant, moment, read_instant, text
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
    "expression",
    [
        "0 0 31 2 *",
        "*/5 0 31 2 *",
        "0 0 30,31 FEB *",
        "* * * 31 4,6 *",
        "30 2 * 3 SUNL",  # the hour that the clocks skip, each year
        "*/30 2 * 3 SUNL",
    ],
)
def test_what_never_comes_is_answered_in_bounded_time(expression: str) -> None:
    """D22: accepted, since people use it on purpose to say "never"."""
    cron = Cron.parse(expression, "Europe/Berlin", on_gap="skip")
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
    ("expression", "expected"),
    [
        ("*/20 * * * * *", ["00:00:20", "00:00:40", "00:01:00"]),
        ("15,45 59 23 * * *", ["23:59:15", "23:59:45"]),
        ("0 0 6 * * *", ["06:00:00"]),
        ("58-59 29 */12 * * *", ["00:29:58", "00:29:59", "12:29:58", "12:29:59"]),
    ],
)
def test_a_sixth_field_put_first_holds_seconds(expression: str, expected: list[str]) -> None:
    found = after(expression, "UTC", "2025-01-01T00:00Z", len(expected))

    assert found == [f"2025-01-01T{at}Z" for at in expected]


def test_a_fire_time_is_found_from_any_fraction_of_a_second() -> None:
    cron = Cron.parse("* * * * * *", "UTC")
    at = read_instant("2025-01-01T00:00:00Z", "at")

    assert cron.after(Instant(at - 1)) == at
    assert cron.after(at) == at + SECOND
    assert cron.after(Instant(at + 1)) == at + SECOND
    assert cron.due(Instant(at - 1), Instant(at + SECOND - 1), keep=5).newest == (at,)


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
        ("0 0 12 * * ? 2026", "has 7 fields, not 5.*seconds, comes first"),
        ("60 0 * * * *", r"field 1 \(second\): 60 is outside 0-59"),
        ("0 61 * * * *", r"field 2 \(minute\): 61 is outside 0-59"),
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


def test_a_span_too_long_to_count_says_so() -> None:
    until = read_instant("2026-03-01T00:00Z", "until")

    due = Cron.parse("0 0 * * *", "UTC").due(
        Instant(until - (LOOK_BACK_DAYS + 100) * DAY), until, keep=1
    )

    assert due.at_least
    assert due.newest == (until,)
    assert due.count == pytest.approx(LOOK_BACK_DAYS, abs=2)
