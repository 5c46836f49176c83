"""Which period an instant means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from onejob.core.period import Per, early
from onejob.core.time import DAY, HOUR, MINUTE, SECOND, Instant, Span, in_zone, instant, text
from onejob.errors import UsageError

ZONES = ["UTC", "Europe/Berlin", "America/Havana", "Asia/Kathmandu", "Australia/Lord_Howe"]


def at(when: str, tz: str = "UTC") -> Instant:
    return instant(datetime.fromisoformat(when).replace(tzinfo=ZoneInfo(tz)), what="when")


@pytest.mark.parametrize(
    ("per", "tz", "now", "key"),
    [
        ("day", None, "2026-11-29 00:00", "2026-11-29"),
        ("day", None, "2026-11-29 13:00", "2026-11-29"),
        ("day", None, "2026-11-29 23:59:29", "2026-11-29"),
        ("day", None, "2026-11-29 23:59:30", "2026-11-30"),
        ("Day", "Europe/Berlin", "2026-11-29 22:59:29", "2026-11-29"),
        ("day", "Europe/Berlin", "2026-11-29 22:59:30", "2026-11-30"),
        ("day", "Europe/Berlin", "2026-11-29 23:30", "2026-11-30"),
        ("week", None, "2026-11-29 13:00", "2026-11-23"),
        ("month", None, "2026-11-29 13:00", "2026-11"),
        ("month", None, "2026-11-30 23:59:45", "2026-12"),
        ("hour", None, "2026-11-29 13:59:29", "2026-11-29T13:00:00Z"),
        ("hour", None, "2026-11-29 13:59:30", "2026-11-29T14:00:00Z"),
        ("hour", "Asia/Kathmandu", "2026-11-29 13:20", "2026-11-29T13:15:00Z"),
        ("minute", None, "2026-11-29 13:00:53.999", "2026-11-29T13:00:00Z"),
        ("minute", None, "2026-11-29 13:00:54", "2026-11-29T13:01:00Z"),
        ("15m", None, "2026-11-29 13:44:29", "2026-11-29T13:30:00Z"),
        ("15m", "Europe/Berlin", "2026-11-29 13:44:30", "2026-11-29T13:45:00Z"),
        (timedelta(hours=6), None, "2026-11-29 13:00", "2026-11-29T12:00:00Z"),
        (90, None, "2026-11-29 00:01:20", "2026-11-29T00:00:00Z"),
        (90, None, "2026-11-29 00:01:21", "2026-11-29T00:01:30Z"),
        ("2s", None, "2026-11-29 00:00:00.9", "2026-11-29T00:00:00Z"),
        ("2s", None, "2026-11-29 00:00:01", "2026-11-29T00:00:02Z"),
        ("1d", "Etc/UTC", "2026-11-29 13:00", "2026-11-29T00:00:00Z"),
        ("0 6 * * 1-5", "Europe/Berlin", "2026-11-29 13:00", "2026-11-27T05:00:00Z"),
        ("@daily", "Europe/Berlin", "2026-11-29 13:00", "2026-11-28T23:00:00Z"),
        ("0 0 29 2 *", None, "2026-11-29 13:00", "2024-02-29T00:00:00Z"),
    ],
)
def test_a_period_is_named_by_its_last_boundary(
    per: str | int, tz: str | None, now: str, key: str
) -> None:
    assert Per.parse(per, tz).at(at(now)).key == key


def test_a_boundary_that_came_decades_ago_is_found() -> None:
    period = Per.parse("0 0 29 2 *").at(at("1907-06-01 00:00"))

    assert period.key == "1904-02-29T00:00:00Z"


@pytest.mark.parametrize("late", [0, 1, 13 * HOUR, 24 * HOUR - 30 * SECOND - 1])
def test_a_run_hours_late_still_means_its_own_period(late: int) -> None:
    """D10: the replica that was down at two comes back in the afternoon."""
    two = at("2026-11-29 02:00", "Europe/Berlin")
    per = Per.parse("0 2 * * *", "Europe/Berlin")

    assert per.at(Instant(two + late)).begin == two


@pytest.mark.parametrize(
    ("period", "allowed"),
    [
        (DAY, 30 * SECOND),
        (5 * MINUTE, 30 * SECOND),
        (MINUTE, 6 * SECOND),
        (10 * SECOND, SECOND),
        (SECOND, SECOND // 2),
    ],
)
def test_replicas_a_little_early_mean_the_period_that_is_coming(period: int, allowed: int) -> None:
    """D10"""
    assert early(Span(period)) == allowed


@pytest.mark.parametrize("per", ["day", "hour", "15m", "10s", "1s", "0 9,10 * * *", "*/7 * * * *"])
def test_replicas_within_the_allowance_of_a_boundary_agree(per: str) -> None:
    """D10"""
    cut = Per.parse(per)
    boundary = cut.at(at("2026-11-29 09:30")).end
    assert boundary is not None
    before = min(SECOND // 2, early(Span(boundary - cut.at(at("2026-11-29 09:30")).begin)))

    keys = {cut.at(Instant(boundary + offset)).key for offset in (-before, -1, 0, 1)}

    assert keys == {text(boundary) if per != "day" else "2026-11-30"}


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("per", ["day", "week", "month", "hour", "30 2 * * *", "*/30 * * * *"])
def test_periods_follow_each_other_without_gap_or_overlap_through_a_year(per: str, tz: str) -> None:
    """D01, D02: also where clocks change at midnight, or by half an hour."""
    cut, step = Per.parse(per, tz), 29 * HOUR + 13 * MINUTE
    looks = range(at("2026-01-01 00:00", tz), at("2027-01-01 00:00", tz), step)
    periods = [cut.at(Instant(now)) for now in looks]

    for now, period in zip(looks, periods, strict=True):
        assert period.end is not None
        allowance = early(Span(DAY))
        assert period.begin - allowance <= now < period.end
        assert cut.at(period.begin) == period
        following = cut.at(period.end)
        assert following.begin == period.end
        assert following.key != period.key
    assert all(one.begin <= two.begin for one, two in pairwise(periods))


def test_a_day_whose_midnight_the_clocks_skip_is_named_by_its_own_date() -> None:
    """D02: in Havana there is no 00:00 on the day on which summer time begins."""
    period = Per.parse("day", "America/Havana").at(at("2026-03-08 12:00", "America/Havana"))

    assert period.key == "2026-03-08"
    assert in_zone(period.begin, ZoneInfo("America/Havana")).hour == 1


def test_a_midnight_that_comes_twice_begins_one_day() -> None:
    """D01"""
    per, havana = Per.parse("day", "America/Havana"), ZoneInfo("America/Havana")
    first = datetime(2026, 11, 1, 0, 10, tzinfo=havana)

    keys = [per.at(instant(first.replace(fold=fold), what="now")).key for fold in (0, 1)]

    assert keys == ["2026-11-01"] * 2


def test_a_key_is_kept_for_as_long_as_anybody_can_mean_it() -> None:
    """A month is longer than what keys are kept for by default."""
    now = at("2026-12-01 00:00")
    month, day = Per.parse("month").at(now), Per.parse("day").at(now)

    assert month.keep(Span(30 * DAY), now=now) == 32 * DAY
    assert day.keep(Span(30 * DAY), now=now) == 30 * DAY


@pytest.mark.parametrize(
    ("per", "tz", "said"),
    [
        ("fortnight", None, "names no period. Give one of minute, hour, day, week, month"),
        ("", None, "names no period"),
        ("15 minutes", None, "not a duration"),
        ("0s", None, "shorter than 1s"),
        ("500ms", None, "shorter than 1s"),
        (-5, None, "negative"),
        (None, None, "not a duration"),
        (True, None, "not a duration"),
        ("61 * * * *", None, "minute"),
        ("0 0 31 2 *", None, "never comes"),
        ("day", "Europe/Berlim", "Did you mean 'Europe/Berlin'"),
        ("24h", "Europe/Berlin", "a zone means nothing to it"),
        ("7m", "Europe/Berlin", "a zone means nothing to it"),
    ],
)
def test_what_is_no_period_is_refused(per: object, tz: str | None, said: str) -> None:
    """P8"""
    with pytest.raises(UsageError, match=said):
        Per.parse(per, tz)  # type: ignore[arg-type]


def test_periods_can_be_named_far_from_today() -> None:
    for year in (1970, 2_400, 9_990):
        now = instant(datetime(year, 6, 1, tzinfo=UTC), what="now")

        assert Per.parse("day", "Europe/Berlin").at(now).key == f"{year}-06-01"
