"""What happens to fire times where clocks change, for each policy, in zones ordinary and odd."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from onejob.core.cron import Cron
from onejob.core.time import HOUR, MINUTE, Instant, moment, read_instant, text
from onejob.errors import UsageError


def between(expression: str, tz: str, start: str, end: str, **policies: Any) -> list[str]:
    """The fire times after ``start`` and up to ``end``, without their year."""
    cron = Cron.parse(expression, tz, **policies)
    stop = read_instant(end, "end")
    at = cron.after(read_instant(start, "start"))
    found = []
    while at is not None and at <= stop:
        found.append(text(at)[5:-4])
        at = cron.after(at)
    return found


FIXED = [
    # The repeated hour: the first of the two (D01).
    ("30 1 * * *", "Europe/London", "2025-10-25T12:00Z", "2025-10-27T12:00Z",
     ["10-26T00:30", "10-27T01:30"]),
    ("30 1 * * *", "America/New_York", "2025-11-01T12:00Z", "2025-11-03T12:00Z",
     ["11-02T05:30", "11-03T06:30"]),
    # Asked during the second pass, the answer is tomorrow and not an instant in the past.
    ("30 1 * * *", "Europe/London", "2025-10-26T01:10Z", "2025-10-27T12:00Z", ["10-27T01:30"]),
    # The skipped hour: the first instant after it (D02).
    ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-30T12:00Z",
     ["03-29T01:00", "03-30T00:30"]),
    ("30 2 * * *", "America/New_York", "2025-03-08T12:00Z", "2025-03-10T12:00Z",
     ["03-09T07:00", "03-10T06:30"]),
    # Two times in one gap are one fire time, and so are one in it and one at its end.
    ("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-30T00:00Z",
     ["03-29T01:00", "03-30T00:00"]),
    ("0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T12:00Z", ["03-29T01:00"]),
    # A midnight that does not exist.
    ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00Z", "2018-11-05T12:00Z",
     ["11-04T03:00", "11-05T02:00"]),
    ("15 0 * * *", "Africa/Cairo", "2025-04-24T12:00Z", "2025-04-25T12:00Z", ["04-24T22:00"]),
    # A date that does not exist: Apia went from the 29th to the 31st.
    ("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00Z", "2011-12-31T12:00Z",
     ["12-29T22:00", "12-30T10:00", "12-30T22:00"]),
    # Half an hour back, and half an hour forward.
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00Z", "2026-04-05T20:00Z",
     ["04-04T14:45", "04-05T15:15"]),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00Z", "2026-10-04T20:00Z",
     ["10-03T15:30", "10-04T15:15"]),
    # Two hours at once.
    ("30 1 * * *", "Antarctica/Troll", "2025-03-29T12:00Z", "2025-03-30T23:59Z",
     ["03-30T01:00", "03-30T23:30"]),
    # With seconds.
    ("59 30 1 * * *", "Europe/London", "2025-10-25T12:00Z", "2025-10-27T12:00Z",
     ["10-26T00:30", "10-27T01:30"]),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "tz", "start", "end", "expected"), FIXED)
def test_a_fixed_time_fires_once_per_local_date(
    expression: str, tz: str, start: str, end: str, expected: list[str]
) -> None:
    """D01, D02."""
    assert between(expression, tz, start, end) == expected


BERLIN = ("Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T12:00Z")
LONDON = ("Europe/London", "2025-10-25T12:00Z", "2025-10-26T12:00Z")
POLICIES = [
    # Names an hour that the clocks skip.
    ("30 2 * * *", BERLIN, {"on_gap": "shift"}, ["03-29T01:00"]),
    ("30 2 * * *", BERLIN, {"on_gap": "skip"}, []),
    ("*/30 2 * * *", BERLIN, {"on_gap": "shift"}, ["03-29T01:00"]),
    ("*/30 2 * * *", BERLIN, {"on_gap": "skip"}, []),
    ("0 */2 * * *", BERLIN, {"on_gap": "shift"}, [
        "03-28T13:00", "03-28T15:00", "03-28T17:00", "03-28T19:00", "03-28T21:00", "03-28T23:00",
        "03-29T01:00", "03-29T02:00", "03-29T04:00", "03-29T06:00", "03-29T08:00", "03-29T10:00",
        "03-29T12:00"]),
    ("20 1-4 * * *", BERLIN, {"on_gap": "shift"},
     ["03-29T00:20", "03-29T01:00", "03-29T01:20", "03-29T02:20"]),
    ("20 1-4 * * *", BERLIN, {"on_gap": "skip"}, ["03-29T00:20", "03-29T01:20", "03-29T02:20"]),
    ("*/30 30 2 * * *", BERLIN, {"on_gap": "shift"}, ["03-29T01:00"]),
    # Names times that come twice.
    ("30 1 * * *", LONDON, {"on_fold": "first"}, ["10-26T00:30"]),
    ("30 1 * * *", LONDON, {"on_fold": "second"}, ["10-26T01:30"]),
    ("30 1 * * *", LONDON, {"on_fold": "both"}, ["10-26T00:30", "10-26T01:30"]),
    ("0,30 0-2 * * *", LONDON, {"on_fold": "second"},
     ["10-25T23:00", "10-25T23:30", "10-26T01:00", "10-26T01:30", "10-26T02:00", "10-26T02:30"]),
    # A wildcard follows what the wall shows, whatever the policy.
    *(("*/30 1 * * *", LONDON, {"on_fold": fold},
       ["10-26T00:00", "10-26T00:30", "10-26T01:00", "10-26T01:30"])
      for fold in ("first", "second", "both")),
    # The policies are apart from each other.
    ("30 2 * * *", BERLIN, {"on_gap": "shift", "on_fold": "both"}, ["03-29T01:00"]),
    ("30 1 * * *", LONDON, {"on_gap": "skip", "on_fold": "first"}, ["10-26T00:30"]),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "place", "policies", "expected"), POLICIES)
def test_each_policy_does_what_it_says_in_gap_and_fold(
    expression: str, place: tuple[str, str, str], policies: dict[str, str], expected: list[str]
) -> None:
    """D04: the table of policy by gap and fold."""
    assert between(expression, *place, **policies) == expected


def test_a_wildcard_runs_in_real_time_through_the_repeated_hour() -> None:
    """D03."""
    cron = Cron.parse("*/15 * * * *", "Europe/London")
    start = read_instant("2025-10-26T00:00Z", "start")

    assert list(cron.due(start, Instant(start + 3 * HOUR), keep=100).newest) == [
        start + n * 15 * MINUTE for n in range(1, 13)
    ]


@pytest.mark.parametrize("expression", ["*/30 * * * *", "0,30 0-23 * * *", "0 */30 * * * *"])
def test_what_runs_in_every_hour_has_nothing_to_make_up_for_in_the_gap(expression: str) -> None:
    """D03, D04: it goes on in real time there as well."""
    place = ("Europe/Berlin", "2026-03-29T00:00Z", "2026-03-29T02:00Z")

    assert between(expression, *place) == [
        "03-29T00:30", "03-29T01:00", "03-29T01:30", "03-29T02:00",
    ]  # fmt: skip
    past_the_hour = between("7 * * * *", *place)
    assert past_the_hour == ["03-29T00:07", "03-29T01:07"]


def test_the_whole_range_is_a_wildcard_too() -> None:
    """D03."""
    assert between("0 0-23 * * *", "Europe/London", "2025-10-26T00:00Z", "2025-10-26T02:00Z") == [
        "10-26T01:00",
        "10-26T02:00",
    ]


def test_a_restricted_wildcard_asked_in_the_first_pass_still_fires_in_the_second() -> None:
    cron = Cron.parse("*/30 1 26 10 *", "Europe/London")

    assert cron.after(read_instant("2025-10-26T00:45Z", "at")) == read_instant(
        "2025-10-26T01:00Z", "at"
    )


def test_what_a_gap_took_is_listed_with_its_wall_time_and_the_instant_after_it() -> None:
    """D02: skipped by policy, and never in silence."""
    span = read_instant("2026-03-28T12:00Z", "from"), read_instant("2026-03-30T12:00Z", "to")
    skipping = Cron.parse("0,30 2 * * *", "Europe/Berlin", on_gap="skip")
    [found] = skipping.skipped(*span)

    assert text(found.at) == "2026-03-29T01:00:00Z"
    assert moment(Instant(found.wall * 1_000_000)).isoformat() == "2026-03-29T02:00:00+00:00"
    assert found.count == 2
    assert skipping.skipped(span[0], Instant(found.at - 1)) == []
    assert skipping.skipped(found.at, span[1]) == []
    assert Cron.parse("0,30 2 * * *", "Europe/Berlin").skipped(*span) == []
    assert Cron.parse("0 12 * * *", "Europe/Berlin", on_gap="skip").skipped(*span) == []
    assert Cron.parse("30 * * * *", "Europe/Berlin", on_gap="skip").skipped(*span) == []


def test_a_skipped_day_is_listed_once() -> None:
    """D02: the 30th of December 2011 in Apia."""
    span = read_instant("2011-12-01T00:00Z", "from"), read_instant("2012-01-15T00:00Z", "to")

    [found] = Cron.parse("*/5 9-17 * * *", "Pacific/Apia", on_gap="skip").skipped(*span)

    assert text(found.at) == "2011-12-30T10:00:00Z"
    assert found.count == 9 * 12


@pytest.mark.parametrize("policies", [{"on_gap": "run"}, {"on_fold": "last"}, {"on_gap": None}])
def test_a_policy_that_there_is_not_is_refused_with_those_there_are(policies: Any) -> None:
    with pytest.raises(UsageError, match=r"'shift' or 'skip'|'first', 'second' or 'both'"):
        Cron.parse("0 2 * * *", "UTC", **policies)


PROGRAM = """
from onejob.core.cron import Cron
from onejob.core.time import read_instant, text
at = read_instant("2026-03-28T12:00Z", "at")
for zone in ("Europe/Berlin", None):
    for expression in ("30 2 * * *", "*/15 * * * *"):
        print(text(Cron.parse(expression, zone).after(at)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("odd", ["Asia/Calcutta", "Mars/Olympus", ":/nowhere", "", "UTC0UTC,J60"])
def test_the_environments_zone_changes_no_fire_time(odd: str) -> None:
    """D12: TZ set to another zone, an unknown one, a path, nothing, or nonsense."""
    environment = {**os.environ, "TZ": odd}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True
    )

    assert done.stdout.split() == [
        "2026-03-29T01:00:00Z",
        "2026-03-28T12:15:00Z",
        "2026-03-29T02:30:00Z",
        "2026-03-28T12:15:00Z",
    ]
