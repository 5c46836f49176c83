"""The last instant that a cron expression of another library names: its fire time, seen from after.

A library that only says "due now" has not said for which fire time. Its replicas say so a little
early or late, or hours later after a restart, and all must mean the same one: the last match that
is not after now and an allowance, min(30 s, a tenth of the period).
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from onejob.core.guarding import EARLY, early
from onejob.core.time import EPOCH, MINUTE, SECOND, Instant, Span, moment

#: 29 February on a given weekday comes back within 40 years.
_DAYS_MAX: Final = 366 * 41

#: A tenth of five minutes is the whole allowance: no longer period need be told from it.
_MINUTES_MAX: Final = 1 + int(10 * EARLY // MINUTE)

#: A day and a clock change.
_REAL_MINUTES: Final = 27 * 60


@dataclass(frozen=True, slots=True)
class Crontab:
    """A five-field expression as sets; all of them must hold. Sunday is 0."""

    minutes: Set[int]
    hours: Set[int]
    days: Set[int]
    months: Set[int]
    weekdays: Set[int]

    def last(self, before: datetime) -> datetime | None:
        """Return the last wall time that matches, up to and with ``before``; None: there is none.

        Both without a zone.
        """
        day, limit = before.date(), before.time()
        for _ in range(_DAYS_MAX):
            if self._has(day):
                for hour in sorted(self.hours, reverse=True):
                    for minute in sorted(self.minutes, reverse=True):
                        if (hour, minute) <= (limit.hour, limit.minute):
                            return datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001
            if day.toordinal() == 1:
                return None
            day, limit = day - timedelta(days=1), datetime.max.time()
        return None

    def matches(self, wall: datetime) -> bool:
        """Tell whether a minute on the wall matches."""
        return wall.minute in self.minutes and wall.hour in self.hours and self._has(wall)

    def _has(self, day: date) -> bool:
        fits = day.month in self.months and day.day in self.days
        return fits and day.isoweekday() % 7 in self.weekdays


def last_match(crontab: Crontab, now: Instant, zone: tzinfo) -> tuple[Instant, Span] | None:
    """Return the fire time that is meant at ``now``, and the period before it; None: never.

    A wall time that comes twice when clocks go back is one fire time for an expression of fixed
    hours, as people mean it, and two for one of every hour. One that is skipped is the first
    instant after the gap.
    """
    found = _last(crontab, Instant(now + EARLY), zone)
    if found is None:
        return None
    before = _last(crontab, Instant(found - MINUTE), zone)
    if before is None:
        return found, Span(0)
    period = Span(found - before)
    return (found if found <= now + early(period) else before), period


def last_matching_minute(matches: Callable[[datetime], bool], now: Instant) -> Instant | None:
    """Return the same for a library that can only be asked whether an instant matches.

    ``matches`` is given whole minutes in UTC. Looks back as far as matters for a tick that its
    library calls due now; None where nothing matches.
    """
    latest = (now + EARLY) // MINUTE * MINUTE
    minutes = (Instant(latest - n * MINUTE) for n in range(_MINUTES_MAX + 1))
    found = [at for at in minutes if matches(moment(at))][:2]
    if len(found) == 2 and found[0] > now + early(Span(found[0] - found[1])):
        return found[1]
    return found[0] if found else None


def _last(crontab: Crontab, limit: Instant, zone: tzinfo) -> Instant | None:
    """Return the last match up to and with ``limit``."""
    if len(crontab.hours) == 24:
        # In real time, so that neither pass of an hour that comes twice is lost.
        latest = limit // MINUTE * MINUTE
        for at in (Instant(latest - n * MINUTE) for n in range(_REAL_MINUTES)):
            if crontab.matches(moment(at).astimezone(zone)):
                return at
    wall = crontab.last(moment(limit).astimezone(zone).replace(tzinfo=None))
    return None if wall is None else _instant(wall, zone)


def _instant(wall: datetime, zone: tzinfo) -> Instant:
    """Return the first instant at which the wall shows this, or that comes after its gap."""
    first, second = (_since_epoch(wall.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    if first <= second:
        return Instant(first)
    low, high = second, first
    after = moment(Instant(high)).astimezone(zone).utcoffset()
    while high - low > SECOND:
        middle = (low + high) // 2
        if moment(Instant(middle)).astimezone(zone).utcoffset() == after:
            high = middle
        else:
            low = middle
    return Instant(high // SECOND * SECOND)


def _since_epoch(aware: datetime) -> int:
    return (aware.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)
