"""What expressions mean, in words; what clock changes do to them; what to know before they run."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onejob.core.cautions import cautions
from onejob.core.clock_words import clock_changes, explain
from onejob.core.cron import Cron
from onejob.core.cron_fields import parse
from onejob.core.cron_words import words
from onejob.core.every import Every, Once
from onejob.core.time import DAY, HOUR, Instant, Span, read_instant, text

T = read_instant("2026-11-01T00:00Z", "T")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("0 2 * * *", "every day at 02:00"),
        ("@daily", "every day at 00:00"),
        ("@weekly", "at 00:00 on Sunday"),
        ("@yearly", "at 00:00 on day 1 of January"),
        ("@hourly", "every hour at :00"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0,30 * * * *", "every 30 minutes"),
        ("7 * * * *", "every hour at :07"),
        ("5-7,40 * * * *", "every hour at :05 to :07 and :40"),
        ("*/7 * * * *", "every hour at :00, :07, :14 … :56 (9 of them)"),
        ("0 */2 * * *", "every 2 hours at :00"),
        ("0 */5 * * *", "every day at 00:00, 05:00, 10:00, 15:00 and 20:00"),
        ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
        ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:45 on Monday to Friday"),
        ("1-5 1,3,9,20 * * *", "every day at :01 to :05 of the hours 01, 03, 09 and 20"),
        ("30 1 1,15 JAN,JUL *", "at 01:30 on days 1 and 15 of January and July"),
        ("0 6 * 6-8 *", "at 06:00 on every day of June to August"),
        ("0 6 * 6-8 SAT,SUN", "at 06:00 on Saturday and Sunday in June to August"),
        ("0 9 15 * 1", "at 09:00 on day 15 of the month, and on Monday as well"),
        ("0 0 */10 * 1", "at 00:00 on days 1, 11, 21 and 31 of the month where that is Monday"),
        ("0 0 1-31 * 1", "every day at 00:00"),
        ("0 0 L * *", "at 00:00 on the last day of the month"),
        ("0 0 1,L * *", "at 00:00 on day 1 and the last day of the month"),
        ("0 0 LW * *", "at 00:00 on the last working day (Monday to Friday) of the month"),
        ("0 0 * * 5L", "at 00:00 on the last Friday of the month"),
        ("0 0 * * MON#1", "at 00:00 on the first Monday of the month"),
        ("* * * * * *", "every second"),
        ("*/20 * * * * *", "every 20 seconds"),
        ("15,45 59 23 * * *", "every day at 23:59:15 and 23:59:45"),
        ("15,40 * * * * *", "at second 15 and 40 of every minute"),
        ("5 */30 * * * *", "at second 5 of the minutes :00 and :30 of every hour"),
        ("*/10 * 3 * * *", "every 10 seconds from 03:00 to 03:59"),
    ],
)
def test_an_expression_is_told_in_words(expression: str, said: str) -> None:
    """D14, D15, D16."""
    assert words(parse(expression)) == said


def _explained(expression: str, tz: str, **policies: Any) -> str:
    return explain(Cron.parse(expression, tz, **policies), T)


@pytest.mark.parametrize(
    ("expression", "tz", "policies", "said"),
    [
        (
            "0 2 * * *",
            "Europe/Berlin",
            {},
            "every day at 02:00 in Europe/Berlin; on 2027-03-28 02:00 does not exist: runs at "
            "03:00 CEST; on 2027-10-31 02:00 comes twice: runs at the first (CEST)",
        ),
        (
            "30 2 * * *",
            "Europe/Berlin",
            {"on_gap": "skip", "on_fold": "second"},
            "every day at 02:30 in Europe/Berlin; on 2027-03-28 02:30 does not exist: skipped, and "
            "recorded as missed; on 2027-10-31 02:30 comes twice: runs at the second (CET)",
        ),
        (
            "0,20,40 2,3 * * *",
            "Europe/Berlin",
            {"on_fold": "both"},
            "every day at 02:00, 02:20, 02:40, 03:00, 03:20 and 03:40 in Europe/Berlin; "
            "on 2027-03-28 02:00 to 02:40 (3 times) do not exist: runs once, at 03:00 CEST, "
            "together with that of 03:00; "
            "on 2027-10-31 02:00 to 02:40 (3 times) come twice: runs at both",
        ),
        (
            "*/30 2 * * *",
            "Europe/Berlin",
            {},
            "every day at 02:00 and 02:30 in Europe/Berlin; on 2027-03-28 02:00 and 02:30 do not "
            "exist: runs once, at 03:00 CEST; on 2027-10-31 02:00 and 02:30 come twice: it goes on "
            "in real elapsed time",
        ),
        (
            "*/15 * * * *",
            "Europe/Berlin",
            {},
            "every 15 minutes in Europe/Berlin; on 2027-03-28 the clocks go from 02:00 to 03:00 "
            "CEST: it goes on in real elapsed time; on 2027-10-31 02:00 to 02:45 (4 times) come "
            "twice: it goes on in real elapsed time",
        ),
        (
            "0 12 * * *",
            "Australia/Lord_Howe",
            {},
            "every day at 12:00 in Australia/Lord_Howe; on 2027-04-04 the clocks go back from "
            "02:00 to 01:30 +1030: no fire time comes twice; on 2027-10-03 the clocks go from "
            "02:00 to 02:30 +11: no fire time is in between",
        ),
        ("0 2 * * *", "UTC", {}, "every day at 02:00 in UTC"),
        (
            "0 2 * * *",
            "Asia/Tokyo",
            {},
            "every day at 02:00 in Asia/Tokyo, where the clocks do not change",
        ),
        ("0 0 31 2 *", "UTC", {}, "never fires: at 00:00 on day 31 of February in UTC"),
    ],
)
def test_the_next_two_clock_changes_are_told_with_what_they_do(
    expression: str, tz: str, policies: dict[str, str], said: str
) -> None:
    """D04: shown before it happens, by policy."""
    assert _explained(expression, tz, **policies) == said


def test_a_date_that_a_zone_skipped_is_told_with_both_dates() -> None:
    """D04."""
    apia = Cron.parse("0 12 * * *", "Pacific/Apia")
    [skipped, _] = clock_changes(apia, read_instant("2011-12-01T00:00Z", "T"))

    assert skipped.says == "on 2011-12-30 12:00 does not exist: runs at 2011-12-31 00:00 +14"
    assert (text(skipped.at), skipped.moved) == ("2011-12-30T10:00:00Z", DAY)


def test_what_is_told_of_a_change_is_what_happens_there() -> None:
    """D04: the instant that is named is a fire time, or is not one."""
    for policy in ("shift", "skip"):
        cron = Cron.parse("30 2 * * *", "Europe/Berlin", on_gap=policy)  # type: ignore[arg-type]
        [gap, _] = clock_changes(cron, T)
        fires = cron.after(Instant(gap.at - 1)) == gap.at

        assert fires == ("runs at" in gap.says)


def test_intervals_and_single_instants_are_told_too() -> None:
    assert explain(Every(Span(5 * HOUR), Instant(0)), T) == (
        "every 5h, on a grid through 1970-01-01T00:00:00Z; in real elapsed time, whatever the "
        "clocks do"
    )
    assert explain(Once(T), T) == "once, at 2026-11-01T00:00:00Z"


@pytest.mark.parametrize(
    ("expression", "policies", "says"),
    [
        ("0 9 15 * 1", {}, ["either matches.*2026-11 6, 2026-12 5, 2027-01 5, 2027-02 4"]),
        ("0 0 1-31 * 1", {}, ["one of them is every day.*fires every day"]),
        ("0 0 */3 * *", {}, [r"\*/3 in day-of-month begins anew each month: days 1, 4, 7 … 31"]),
        ("0 0 */3 * 1-5", {}, ["begins anew", "must both match, as in cronie"]),
        ("0 0 31 * *", {}, ["day 31 does not exist in February, April, June, September and Nov"]),
        ("0 0 30 * *", {}, ["day 30 does not exist in February. .*write L"]),
        ("0 0 29 * *", {}, ["day 29 exists in February of leap years only"]),
        ("0 0 31 1,3,4 *", {}, ["day 31 does not exist in April"]),
        ("0 0 31 2 *", {}, ["never fires: no such date"]),
        ("0 0 30 2 *", {}, ["never fires: no such date"]),
        ("30 2 * 3 SUNL", {"on_gap": "skip"}, ["never fires: none of its times"]),
        ("*/20 * * * * *", {}, ["more than once a minute: 4,320 times a day"]),
        ("0 */5 * * *", {}, [r"\*/5 in hour does not divide 24: from 20 to the next 0 it is 4"]),
        ("*/7 * * * *", {}, [r"\*/7 in minute does not divide 60: from 56 to the next 0 it is 4"]),
        ("0 */45 * * * *", {}, [r"\*/45 in minute .*from 45 to the next 0 it is 15"]),
        ("*/5 2 * * *", {"on_fold": "both"}, ["on_fold='both' says nothing"]),
        ("30 * * * *", {"on_gap": "skip"}, ["on_gap='skip' says nothing"]),
    ],
)
def test_what_people_read_otherwise_is_said(
    expression: str, policies: dict[str, Any], says: list[str]
) -> None:
    """D14, D15, D16, D22."""
    found = cautions(Cron.parse(expression, "Europe/Berlin", **policies), T)

    assert len(found) == len(says), found
    for caution, pattern in zip(found, says, strict=True):
        assert re.search(pattern, caution), caution


@pytest.mark.parametrize(
    "expression",
    [
        *("0 2 * * *", "*/15 * * * *", "0 */6 * * *", "0 9 * * 1-5", "0 0 L * *", "0 0 1,15 * *"),
        *("@daily", "@hourly", "0 0 31 1,3,5 *", "0 0 1-31 * *", "0 0 * * 5L", "30 2 * * *"),
    ],
)
def test_what_says_what_it_means_is_passed_over_in_silence(expression: str) -> None:
    """D16: a warning that comes every time is read by nobody."""
    assert cautions(Cron.parse(expression, "Europe/Berlin"), T) == []


def test_the_count_per_month_is_that_of_the_fire_times() -> None:
    """D14: `0 9 15 * 1` in September 2025 is five days, the 15th once."""
    start = read_instant("2025-09-10T00:00Z", "start")
    [caution] = cautions(Cron.parse("0 9 15 * 1", "UTC"), start)

    assert "2025-09 5, 2025-10 5," in caution


def test_long_intervals_are_told_from_times_of_day() -> None:
    [caution] = cautions(Every(Span(DAY), Instant(0)), T)

    assert "local time moves" in caution
    assert cautions(Every(Span(HOUR), Instant(0)), T) == []
    assert cautions(Once(T), T) == []


_ITEM = st.integers(0, 6).map(str)
_FIELD = st.one_of(st.sampled_from(["*", "*/2", "*/3", "1-4"]), _ITEM)


@settings(max_examples=200, deadline=None)
@given(
    fields=st.tuples(_FIELD, _FIELD, st.sampled_from(["*", "*/3", "31", "L"]), _FIELD, _FIELD),
    seconds=st.sampled_from(["", "0 ", "*/7 ", "* "]),
    tz=st.sampled_from(["UTC", "Europe/Berlin", "Africa/Cairo", "Pacific/Apia"]),
)
def test_everything_that_parses_can_be_told(fields: tuple[str, ...], seconds: str, tz: str) -> None:
    minute, hour, day, month, weekday = fields
    expression = f"{seconds}{minute} {hour} {day} {month.replace('0', '7')} {weekday}"
    cron = Cron.parse(expression, tz)

    said = explain(cron, T)

    assert tz in said
    assert all(caution.endswith(".") for caution in cautions(cron, T))
