"""Instants, spans and zones as people write them."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta, timezone
from io import BytesIO
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onejob.core.time import (
    LONGEST,
    SECOND,
    Duration,
    Instant,
    Span,
    duration,
    in_zone,
    instant,
    moment,
    read_instant,
    show_span,
    text,
    zone,
)
from onejob.errors import UsageError


@pytest.mark.parametrize(
    ("value", "microseconds"),
    [
        ("30s", 30_000_000),
        ("10m", 600_000_000),
        ("1h30m", 5_400_000_000),
        ("1h 30m", 5_400_000_000),
        ("7d", 604_800_000_000),
        ("2w", 1_209_600_000_000),
        ("500ms", 500_000),
        ("5us", 5),
        ("1.5h", 5_400_000_000),
        ("0s", 0),
        (0, 0),
        (90, 90_000_000),
        (0.25, 250_000),
        (timedelta(days=1, microseconds=1), 86_400_000_001),
    ],
)
def test_a_duration_is_read(value: Duration, microseconds: int) -> None:
    assert duration(value, what="ttl") == microseconds


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("30", "such as '30s'"),
        ("", "not a duration"),
        ("-5s", "not a duration"),
        ("soon", "not a duration"),
        ("1h1h", "names a unit twice"),
        ("1h30", "not a duration"),
        ("1 2s 3", "not a duration"),
        ("٣s", "not a duration"),
        ("0.0000001s", "less than a microsecond"),
        pytest.param("9" * 1_000 + "s", "too long", id="a thousand digits"),
        ("2000000d", "1000 years"),
        (True, "bool given"),
        (None, "NoneType given"),
        (-1, "negative"),
        (timedelta(seconds=-1), "negative"),
        (float("nan"), "not a duration"),
        (float("inf"), "not a duration"),
        (1e300, "1000 years"),
        pytest.param(10**5_000, "1000 years", id="an int too long to print"),
    ],
)
def test_what_is_no_duration_is_refused_by_name_with_an_example(value: object, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refusal:
        duration(value, what="ttl")  # type: ignore[arg-type]  # wrong on purpose

    assert str(refusal.value).startswith("ttl=")
    assert "'" in str(refusal.value)


def test_a_duration_below_the_least_is_refused() -> None:
    with pytest.raises(UsageError, match="lease='1s' is shorter than 3s"):
        duration("1s", what="lease", least=Span(3 * SECOND))


@given(st.integers(0, LONGEST))
def test_a_shown_span_is_read_back_as_the_same_span(span: int) -> None:
    assert duration(show_span(Span(span)), what="span") == span


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        (5_400_000_000, "1h30m"),
        (250_000, "250ms"),
        (1_500, "1.5ms"),
        (1_500_000, "1.5s"),
        (60_500_000, "1m0.5s"),
        (0, "0s"),
        (7, "7us"),
        (-30_000_000, "-30s"),
    ],
)
def test_a_span_is_shown_as_people_write_it(span: int, shown: str) -> None:
    assert show_span(Span(span)) == shown


def test_a_naive_datetime_is_refused_by_name_with_what_to_do() -> None:
    """D12."""
    with pytest.raises(UsageError, match=r"at=.* is naive.*ZoneInfo"):
        instant(datetime(2026, 3, 29, 2, 0), what="at")  # noqa: DTZ001

    with pytest.raises(UsageError, match="names no time zone"):
        read_instant("2026-03-29T02:00:00", "at")


def test_the_fold_of_a_datetime_is_respected() -> None:
    first = datetime(2025, 10, 26, 1, 30, tzinfo=ZoneInfo("Europe/London"))

    assert text(instant(first, what="at")) == "2025-10-26T00:30:00Z"
    assert text(instant(first.replace(fold=1), what="at")) == "2025-10-26T01:30:00Z"


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_survives_its_text_and_its_datetime(when: datetime) -> None:
    at = instant(when, what="at")

    assert moment(at) == when
    assert read_instant(text(at), "at") == at
    assert -(2**63) < at < 2**63


@pytest.mark.parametrize(
    ("at", "written"),
    [
        (1_774_746_000_000_000, "2026-03-29T01:00:00Z"),
        (1_774_746_000_500_000, "2026-03-29T01:00:00.5Z"),
        (1_774_746_000_000_001, "2026-03-29T01:00:00.000001Z"),
        (-62_135_596_800_000_000, "0001-01-01T00:00:00Z"),
    ],
)
def test_an_instant_has_one_text(at: int, written: str) -> None:
    assert text(Instant(at)) == written


@pytest.mark.parametrize("given_text", ["2026-03-29T03:00+02:00", "2026-03-29 01:00:00z"])
def test_other_forms_of_rfc_3339_are_read(given_text: str) -> None:
    assert text(read_instant(given_text, "from")) == "2026-03-29T01:00:00Z"


@pytest.mark.parametrize("bad", ["2026-02-30T00:00:00Z", "2026-03-29", "now", "", None, 7])
def test_what_is_no_instant_is_refused(bad: object) -> None:
    with pytest.raises(UsageError, match=r"^from="):
        read_instant(bad, "from")  # type: ignore[arg-type]  # wrong on purpose


def test_a_datetime_outside_the_calendar_is_refused() -> None:
    with pytest.raises(UsageError, match="year 1"):
        instant(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))), what="at")
    with pytest.raises(UsageError, match="not a datetime"):
        instant("tomorrow", what="at")  # type: ignore[arg-type]  # wrong on purpose


def test_an_instant_is_shown_in_a_zone() -> None:
    shown = in_zone(read_instant("2026-03-29T01:00:00Z", "at"), ZoneInfo("Europe/Berlin"))

    assert shown.isoformat() == "2026-03-29T03:00:00+02:00"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("berlin", "Europe/Berlin"),
        ("America", "not a known time zone"),
        ("../etc/passwd", "not a known time zone"),
        ("", "not a known time zone"),
        pytest.param("x" * 5_000, "not a known time zone", id="five thousand letters"),
        (7, "IANA name"),
    ],
)
def test_an_unknown_zone_is_refused_with_close_names(name: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        zone(name, "tz")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("name", ["localtime", "posixrules", "right/Europe/Berlin", "posix/UTC"])
def test_a_zone_that_is_another_one_elsewhere_is_refused(name: str) -> None:
    """D12: what this machine was set to must not decide when the fleet's jobs run."""
    with pytest.raises(UsageError, match="not the same on every machine"):
        zone(name, "tz")


def test_a_zone_of_the_machine_is_refused_as_an_object_too() -> None:
    # A zone's file in its oldest form: one kind of time, UTC, and no change.
    file = b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + bytes(6) + b"UTC\0"
    local = ZoneInfo.from_file(BytesIO(file), key="localtime")

    with pytest.raises(UsageError, match="not the same on every machine"):
        zone(local, "tz")


def test_no_zone_means_utc() -> None:
    assert zone(None, "tz").key == "UTC"
    assert zone(ZoneInfo("Asia/Tokyo"), "tz").key == "Asia/Tokyo"
