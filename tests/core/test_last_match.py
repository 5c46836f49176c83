"""Which fire time a library means that only says: due now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onejob.core.last_match import Crontab, last_match, last_matching_minute
from onejob.core.time import DAY, HOUR, MINUTE, SECOND, Instant, instant, moment, text

BERLIN = ZoneInfo("Europe/Berlin")
EVERY = {
    "minutes": range(60),
    "hours": range(24),
    "days": range(1, 32),
    "months": range(1, 13),
    "weekdays": range(7),
}


def crontab(**fields: object) -> Crontab:
    """Return a crontab; what is not said is every."""
    return Crontab(**{name: set(fields.get(name, every)) for name, every in EVERY.items()})


def at(when: str) -> Instant:
    return instant(datetime.fromisoformat(when), what="when")


def meant(tab: Crontab, now: str, zone: ZoneInfo = BERLIN) -> str:
    found = last_match(tab, at(now), zone)
    assert found is not None
    return text(found[0])


TWO = crontab(minutes=[0], hours=[2])
QUARTERS = crontab(minutes=[0, 15, 30, 45])


@pytest.mark.parametrize(
    ("tab", "now", "fire_time"),
    [
        (TWO, "2026-01-15T01:59:35+01:00", "2026-01-15T01:00:00Z"),  # 25 s early
        (TWO, "2026-01-15T01:59:25+01:00", "2026-01-14T01:00:00Z"),  # 35 s: still yesterday's
        (TWO, "2026-01-15T02:00:00+01:00", "2026-01-15T01:00:00Z"),
        (TWO, "2026-01-15T15:00:00+01:00", "2026-01-15T01:00:00Z"),  # 13 hours late
        (QUARTERS, "2026-01-15T10:14:31+01:00", "2026-01-15T09:15:00Z"),
        (crontab(), "2026-01-15T10:14:53+01:00", "2026-01-15T09:14:00Z"),  # 7 s early of a minute
        (crontab(), "2026-01-15T10:14:54+01:00", "2026-01-15T09:15:00Z"),  # 6 s: a tenth
        (crontab(days=[29], months=[2], minutes=[0], hours=[0]), "2026-01-01T00:00:00Z",
         "2024-02-28T23:00:00Z"),
    ],
)  # fmt: skip
def test_the_last_match_within_the_allowance_is_meant(
    tab: Crontab, now: str, fire_time: str
) -> None:
    assert meant(tab, now) == fire_time


@pytest.mark.parametrize(
    ("tab", "now", "fire_time"),
    [
        # The gap from 2 to 3: the first instant after it, however late one asks.
        (TWO, "2026-03-29T03:00:00+02:00", "2026-03-29T01:00:00Z"),
        (TWO, "2026-03-29T09:00:00+02:00", "2026-03-29T01:00:00Z"),
        # Distinct from the one before the gap.
        (crontab(minutes=[30], hours=[1, 2]), "2026-03-29T01:30:00+01:00", "2026-03-29T00:30:00Z"),
        (crontab(minutes=[30], hours=[1, 2]), "2026-03-29T03:00:00+02:00", "2026-03-29T01:00:00Z"),
        # 2:00 comes twice: once for a fixed hour, both times for every hour.
        (TWO, "2026-10-25T02:00:00+02:00", "2026-10-25T00:00:00Z"),
        (TWO, "2026-10-25T02:00:00+01:00", "2026-10-25T00:00:00Z"),
        (crontab(minutes=[0]), "2026-10-25T02:00:00+02:00", "2026-10-25T00:00:00Z"),
        (crontab(minutes=[0]), "2026-10-25T02:00:00+01:00", "2026-10-25T01:00:00Z"),
        (crontab(minutes=[30]), "2026-10-25T02:10:00+01:00", "2026-10-25T00:30:00Z"),
    ],
)
def test_clock_changes_leave_one_fire_time_for_each_match(
    tab: Crontab, now: str, fire_time: str
) -> None:
    assert meant(tab, now) == fire_time


def test_what_never_comes_means_nothing() -> None:
    assert last_match(crontab(days=[31], months=[2]), at("2026-01-01T00:00:00Z"), BERLIN) is None


def test_the_period_is_the_distance_to_the_match_before() -> None:
    found = last_match(TWO, at("2026-01-15T02:00:00+01:00"), BERLIN)

    assert found == (at("2026-01-15T02:00:00+01:00"), DAY)


NOWS = st.integers(0, 4 * 365 * 24 * 3600).map(
    lambda seconds: Instant((1_700_000_000 + seconds) * SECOND)
)
SETS = {
    "minutes": st.sets(st.integers(0, 59), min_size=1),
    "hours": st.sets(st.integers(0, 23), min_size=1),
    "weekdays": st.sets(st.integers(0, 6), min_size=1),
}


@given(st.builds(crontab, **SETS), NOWS)
def test_it_is_what_a_walk_back_minute_by_minute_finds(tab: Crontab, now: Instant) -> None:
    """In UTC, where nothing hides; the walk is the plainest there is."""
    found = last_match(tab, now, UTC)

    assert found is not None
    walked = (now + 30 * SECOND) // MINUTE * MINUTE
    while not tab.matches(moment(Instant(walked))):
        walked -= MINUTE
    before = walked - MINUTE
    while not tab.matches(moment(Instant(before))):
        before -= MINUTE
    early = min(30 * SECOND, (walked - before) // 10)
    assert found[0] == (walked if walked <= now + early else before)


@given(st.builds(crontab, **SETS), NOWS, st.integers(-25, 3_000))
def test_replicas_a_little_apart_mean_one_fire_time(
    tab: Crontab, now: Instant, late_seconds: int
) -> None:
    """Whoever fires up to a tenth of the period early or any time late, before the next, agrees."""
    found = last_match(tab, now, BERLIN)
    assert found is not None
    fire_time, period = found
    late = min(max(late_seconds * SECOND, -min(30 * SECOND, period // 10)), MINUTE // 2)

    again = last_match(tab, Instant(fire_time + late), BERLIN)

    assert again is not None
    assert again[0] == fire_time


def test_a_library_that_only_tells_matches_is_asked_backwards() -> None:
    def quarter(minute: datetime) -> bool:
        return minute.minute % 15 == 0

    assert last_matching_minute(quarter, at("2026-01-15T10:15:59Z")) == at("2026-01-15T10:15:00Z")
    assert last_matching_minute(quarter, at("2026-01-15T10:14:31Z")) == at("2026-01-15T10:15:00Z")
    assert last_matching_minute(quarter, at("2026-01-15T10:20:00Z")) == at("2026-01-15T10:15:00Z")


def test_of_every_minute_the_next_is_meant_only_just_before_it() -> None:
    def always(_: datetime) -> bool:
        return True

    assert last_matching_minute(always, at("2026-01-15T10:14:50Z")) == at("2026-01-15T10:14:00Z")
    assert last_matching_minute(always, at("2026-01-15T10:14:55Z")) == at("2026-01-15T10:15:00Z")


def test_where_nothing_matches_nothing_is_meant() -> None:
    assert last_matching_minute(lambda _: False, at("2026-01-15T10:14:50Z")) is None


def test_it_looks_no_further_back_than_matters() -> None:
    asked = []

    last_matching_minute(lambda minute: bool(asked.append(minute)), Instant(10 * HOUR))

    assert max(asked) - min(asked) <= timedelta(minutes=6)
