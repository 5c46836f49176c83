"""Cron arithmetic that is right across clock changes, in every zone.

The rule, whatever the zone does:

* An expression of fixed times (neither minute nor hour is a wildcard) fires once per local date.
  A time that the clocks skip fires at the first instant after the gap; one that they show twice
  fires at the first of the two. A whole date that a zone skipped (Apia, 2011-12-30) is a gap too.
* A wildcard (``*`` or ``*/n``, in minute or hour) fires whenever the wall shows a matching minute,
  so it runs in real elapsed time through the overlap and has nothing to fire in the gap.

cronsim's own stepping is not used, only its reading of fields: on the second pass of an overlap it
answers with a time already past, in zones that change by half an hour it skips minutes, and it
refuses 31 February, for which "never" is the answer here.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from onejob.core.cron_fields import Fields, parse
from onejob.core.due import Due
from onejob.core.local_clock import LocalClock
from onejob.core.time import DAY, HOUR, MINUTE, Instant, zone

HORIZON_DAYS: Final = 48 * 366
"""How far ahead a fire time is looked for. The rarest dates (29 February on a given weekday, over
a century that is not leap) come after 40 years."""

LOOK_BACK_DAYS: Final = 3_660
"""How far back due fire times are counted one by one: ten years."""

_TURN_REACH: Final = 25 * HOUR
"""No zone ever turned its clocks back by more than 24 hours."""

_TURNS_MAX: Final = 1_000
_DAY_ZERO: Final = date(1970, 1, 1).toordinal()
_DAY_MAX: Final = date(9998, 12, 31).toordinal() - _DAY_ZERO
_MINUTES: Final = 1_440


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression in a time zone. Build it with ``Cron.parse``, which checks both."""

    expression: str
    tz: str

    @classmethod
    def parse(cls, expression: str, tz: str | ZoneInfo | None = None) -> Cron:
        """Check and keep an expression; UsageError says which field is wrong and why."""
        parse(expression)
        return cls(" ".join(expression.split()), zone(tz, "tz").key)

    def after(self, at: Instant) -> Instant | None:
        """Return the first fire time strictly after ``at``; None if there is none, in bounded time.

        "None" means within 48 years, and not beyond the year 9998.
        """
        return _calendar(self.expression, self.tz).after(at)

    def due(self, after: Instant, until: Instant, *, keep: int) -> Due:
        """Return the fire times in (after, until], the newest ``keep`` of them listed.

        Counting looks back ten years from ``until`` at most, and says so.
        """
        return _calendar(self.expression, self.tz).due(after, until, keep)


@lru_cache(maxsize=4_096)
def _calendar(expression: str, tz: str) -> _Calendar:
    return _Calendar(parse(expression), LocalClock(zone(tz, "tz")))


class _Calendar:
    """One expression on one wall. Days are numbered from 1970-01-01."""

    __slots__ = ("_clock", "_fields", "_minutes", "_month")

    def __init__(self, fields: Fields, clock: LocalClock) -> None:
        self._fields, self._clock = fields, clock
        self._minutes = fields.minutes
        # The month looked at last, which is nearly always the one asked for next.
        self._month: tuple[int, int, tuple[int, ...]] = (0, 0, ())

    def after(self, at: Instant) -> Instant | None:
        return self._after_fixed(at) if self._fields.fixed else self._after_wildcard(at)

    def _after_fixed(self, at: Instant) -> Instant | None:
        clock = self._clock
        # No wall time up to the one shown at `at` can resolve to anything later.
        wall = (at + clock.offset(at)) // MINUTE + 1
        horizon = wall // _MINUTES + HORIZON_DAYS
        # More than once only in the second pass of an overlap, of at most a day.
        for _ in range(_MINUTES + 1):
            match = self._match(wall, horizon)
            if match is None:
                return None
            fire = clock.resolve(match * MINUTE)
            if fire > at:
                return fire
            wall = match + 1
        return None

    def _after_wildcard(self, at: Instant) -> Instant | None:
        clock = self._clock
        start = at + 1
        horizon = start // DAY + HORIZON_DAYS
        for _ in range(_TURNS_MAX):
            offset = clock.offset(start)
            match = self._match(-(-(start + offset) // MINUTE), horizon)
            if match is None:
                return None
            fire = match * MINUTE - offset
            turn = clock.turn(start, min(fire, start + _TURN_REACH))
            if turn is not None:
                start = turn  # the clocks change before it: look again with the new offset
            elif fire <= start + _TURN_REACH:
                return Instant(fire)
            else:
                # Far away, so no overlap leads back to before the start.
                fire = clock.resolve(match * MINUTE)
                if fire + clock.offset(fire) == match * MINUTE:
                    return Instant(fire)
                start = fire  # it falls into a gap, which a wildcard passes over
        return None

    def due(self, after: Instant, until: Instant, keep: int) -> Due:
        """Walk back over local days, each from its first instant to the next one's.

        On a day without a clock change the count is known without listing it.
        """
        clock, minutes = self._clock, self._minutes
        newest: list[Instant] = []
        count = 0
        # One day more: an overlap at midnight shows yesterday's date again.
        day = (until + clock.offset(until)) // DAY + 1
        lowest = day - LOOK_BACK_DAYS
        end = clock.resolve((day + 1) * DAY)
        while end > after + 1 and day > lowest:
            start = clock.resolve(day * DAY)
            if start <= until:
                steady = clock.offset(start - 1) == clock.offset(end)
                whole = after < start and end <= until + 1
                if not steady:
                    fires = self._list(max(start - 1, after), min(end - 1, until))
                elif not self._fires_on(day):
                    fires = []
                elif whole and len(newest) >= keep:
                    count += len(minutes)
                    fires = []
                else:
                    every = (Instant(start + minute * MINUTE) for minute in minutes)
                    fires = [fire for fire in every if after < fire <= until]
                count += len(fires)
                if len(newest) < keep:
                    newest = (fires + newest)[-keep:]
            day, end = day - 1, start
        return Due(tuple(newest), count, at_least=end > after + 1)

    def _list(self, after: int, until: int) -> list[Instant]:
        fires: list[Instant] = []
        fire = self.after(Instant(after))
        while fire is not None and fire <= until:
            fires.append(fire)
            fire = self.after(fire)
        return fires

    def _match(self, wall: int, horizon: int) -> int | None:
        """Return the first wall minute from ``wall`` on that matches, up to a day."""
        day, minute = divmod(wall, _MINUTES)
        index = bisect_left(self._minutes, minute)
        if index == len(self._minutes):
            day, index = day + 1, 0
        match = self._next_day(day, min(horizon, _DAY_MAX))
        if match is None:
            return None
        return match * _MINUTES + self._minutes[index if match == day else 0]

    def _next_day(self, day: int, horizon: int) -> int | None:
        while day <= horizon:
            first, following, days = self._month
            if not first <= day < following:
                first, following, days = self._month = self._month_of(day)
            index = bisect_left(days, day)
            if index < len(days):
                return days[index]
            day = following
        return None

    def _fires_on(self, day: int) -> bool:
        return self._next_day(day, day) == day

    def _month_of(self, day: int) -> tuple[int, int, tuple[int, ...]]:
        when = date.fromordinal(day + _DAY_ZERO)
        first = day - when.day + 1
        following = date(when.year + when.month // 12, when.month % 12 + 1, 1).toordinal()
        days = self._fields.days_of(when.year, when.month)
        return first, following - _DAY_ZERO, tuple(first + d - 1 for d in days)
