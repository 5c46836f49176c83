"""At every change of the clocks of every zone, fire times are those of the slow reference."""

from __future__ import annotations

from datetime import datetime, timedelta
from operator import sub
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.slow_cron import DAY, SECOND, changes, fires, window
from core.walk import POLICIES, found

#: "localtime" is whatever this machine was set to, and refused.
ZONES = sorted(available_timezones() - {"localtime"})
#: Of the soak, so that each is done within a minute.
PARTS = 60
HOUR = timedelta(hours=1)

#: Tried at each change: fixed times, wildcards, both, and dates that depend on the change.
AT_A_CHANGE = [
    "{minute} {hour} * * *",
    "0,30 {hour},{next} * * *",
    "*/20 {hour} * * *",
    "*/7 * * * *",
    "{minute} */2 * * *",
    "0 0 * * *",
    "5 {hour} {day} * *",
    "*/10 */3 {day} * 0",
]


def _agrees_at(tz: str, change: datetime) -> None:
    """Compare with the slow reference, for four hours on each side of a change of clocks."""
    before, after = (change + d for d in (-SECOND, timedelta(0)))
    walls = [at.astimezone(ZoneInfo(tz)).replace(tzinfo=None, fold=0) for at in (before, after)]
    moved = abs(walls[1] - walls[0])
    begin = (change - 4 * HOUR).replace(second=0)
    seen = window(tz, begin, 8 * HOUR, margin=moved + HOUR)
    # An hour that lies in the gap or in the fold, or near.
    middle = min(walls) + moved / 2
    names = {
        "minute": middle.minute,
        "hour": middle.hour,
        "next": (middle.hour + 1) % 24,
        "day": middle.day,
    }
    for pattern in AT_A_CHANGE:
        expression = pattern.format(**names)
        for policies in POLICIES:
            expected = fires(expression, seen, **policies)
            assert found(expression, tz, seen, **policies) == expected, (tz, change, expression)


@settings(max_examples=25, deadline=None)
@given(tz=st.sampled_from(ZONES), data=st.data())
def test_at_any_change_in_any_zone_fire_times_are_those_of_the_slow_reference(
    tz: str, data: st.DataObject
) -> None:
    """D01, D02, D03, D04: a few of them here, each of them in the soak."""
    known = changes(tz, 1880, 2040)
    if known:
        _agrees_at(tz, data.draw(st.sampled_from(known)))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_at_every_change_in_every_zone_fire_times_are_those_of_the_slow_reference(
    part: int,
) -> None:
    """D01, D02, D03, D04: each zone of the database, from 1880 to 2040."""
    for tz in ZONES[part::PARTS]:
        for change in changes(tz, 1880, 2040):
            _agrees_at(tz, change)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_no_zone_changes_twice_within_the_time_that_changes_are_looked_for_in(part: int) -> None:
    """What ``core/local_clock.py`` relies on: the database knows none closer than 95 hours."""
    for tz in ZONES[part::PARTS]:
        known = changes(tz, 1880, 2040)
        assert min(map(sub, known[1:], known), default=DAY * 365) > 94 * HOUR, tz
