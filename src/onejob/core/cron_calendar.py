"""Where an expression meets a wall: its fire times forwards, backwards, and those that a gap took.

The wall shows stretches of wall times; a fire time is a matching wall time in a stretch. Wall times
in the gap before a stretch stand for its first instant, all of them together once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Final, Literal, TypeAlias

from onejob.core.cron_days import DAY_MAX, Days
from onejob.core.cron_fields import Fields
from onejob.core.cron_times import Times
from onejob.core.due import Due
from onejob.core.local_clock import DAY, YEAR, Fold, LocalClock, Stretch
from onejob.core.time import SECOND, Instant

Gap: TypeAlias = Literal["shift", "skip"]
"""What becomes of a wall time that the clocks skip: the first instant after it, or nothing."""

HORIZON_DAYS: Final = 48 * 366
"""How far ahead a fire time is looked for. The rarest dates (29 February on a given weekday, over
a century that is not leap) come after 40 years."""

LOOK_BACK_DAYS: Final = 3_660
"""How far back due fire times are counted: ten years."""

_FAR: Final = 2 * DAY
"""Further away than any fold leads back."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Wall times that a gap took: the first of them, how many, and the instant after the gap."""

    at: Instant
    wall: int
    """Seconds since 1970-01-01 00:00 on the wall."""
    count: int


@dataclass(frozen=True, slots=True)
class Walls:
    """Matching wall times of a span: the first, the last, and how many."""

    first: int
    last: int
    count: int


class Calendar:
    """One expression on one wall."""

    __slots__ = ("_days", "_fold", "_shift", "_times", "clock", "fields", "named")

    def __init__(self, fields: Fields, clock: LocalClock, gap: Gap, fold: Fold) -> None:
        self.fields, self.clock = fields, clock
        self._days, self._times = Days(fields), Times(fields)
        # A wildcard runs in real elapsed time: whatever the wall shows, once or twice.
        self._fold: Fold = fold if fields.fixed else "both"
        # One that runs in every hour loses nothing in a gap: the hours around it run.
        self.named = not fields.every_hour
        self._shift = gap == "shift" and self.named

    def after(self, at: Instant) -> Instant | None:
        """Return the first fire time strictly after ``at``; None where there is none in bounds."""
        start = at // SECOND + 1
        horizon = min(start // DAY + HORIZON_DAYS, DAY_MAX)
        year = start // YEAR
        low: float = inf
        wall: float = -inf
        while year * YEAR <= horizon * DAY:
            if not self.clock.knows(year, self._fold) and (far := self._far(start, horizon)):
                return far
            for begin, end, offset, skipped in self.clock.stretches(year, self._fold):
                if end <= start:
                    continue
                if start > begin:
                    lowest = start + offset
                else:
                    lowest = skipped if self._shift else begin + offset
                if not low <= lowest <= wall:
                    low, wall = lowest, self._match(lowest, horizon)
                if wall < end + offset:
                    return Instant(max(int(wall) - offset, begin) * SECOND)
            following = (year + 1) * YEAR
            if start < following - _FAR:
                if wall == inf:
                    return None
                following = max(following, int(wall) - _FAR)
            year, start = following // YEAR, max(start, following // YEAR * YEAR)
        return None

    def _far(self, start: int, horizon: int) -> Instant | None:
        """Answer where the clocks stand still near the start and near a fire time far from it.

        It saves working out a whole year for a date that is years away; None: work it out.
        """
        here = self.clock.steady(start)
        if here is None:
            return None
        wall = self._match(start + here, horizon)
        if wall == inf or wall < start + here + _FAR:
            return None
        there = self.clock.steady(int(wall))
        return None if there is None else Instant((int(wall) - there) * SECOND)

    def due(self, after: Instant, until: Instant, keep: int) -> Due:
        """Return the fire times in (after, until]: counted, and the newest ``keep`` listed."""
        stop = until // SECOND + 1
        asked = after // SECOND + 1
        start = max(asked, stop - LOOK_BACK_DAYS * DAY)
        newest: list[Instant] = []
        count = 0
        for stretch in self._back(start, stop):
            low, high, hit = self._window(stretch, start, stop)
            count += self._count(low, high) + hit
            if len(newest) < keep:
                walls = self._backwards(low, high, keep - len(newest))
                newest += [Instant((wall - stretch.offset) * SECOND) for wall in walls]
                if hit and len(newest) < keep:
                    newest.append(Instant(stretch.begin * SECOND))
        return Due(tuple(reversed(newest)), count, at_least=start > asked)

    def skipped(self, after: Instant, until: Instant) -> list[Skipped]:
        """Return what the gaps that end in (after, until] took: nothing where it was shifted."""
        if self._shift or not self.named:
            return []
        stop = until // SECOND + 1
        start = max(after // SECOND + 1, stop - LOOK_BACK_DAYS * DAY)
        found = []
        for begin, _, offset, skipped in self._back(start, stop):
            if start <= begin < stop and (taken := self.within(skipped, begin + offset)):
                found.append(Skipped(Instant(begin * SECOND), taken.first, taken.count))
        return found[::-1]

    def within(self, low: int, high: int) -> Walls | None:
        """Return which wall times in [low, high) match, whether the wall shows them or not."""
        count = self._count(low, high)
        if not count:
            return None
        [last] = self._backwards(low, high, 1)
        return Walls(int(self._match(low, DAY_MAX)), last, count)

    def _back(self, start: int, stop: int) -> Iterator[Stretch]:
        """Return the stretches that reach into [start, stop), the latest first."""
        for year in range((stop - 1) // YEAR, start // YEAR - 1, -1):
            for stretch in reversed(self.clock.stretches(year, self._fold)):
                if stretch.end > start and stretch.begin < stop:
                    yield stretch

    def _window(self, stretch: Stretch, start: int, stop: int) -> tuple[int, int, bool]:
        """Return the wall times of a stretch in [start, stop), and whether its gap fires.

        A gap that fires takes the wall time at its end along: the two are one instant.
        """
        begin, end, offset, skipped = stretch
        low, high = max(begin, start) + offset, min(end, stop) + offset
        gap = self._shift and start <= begin and skipped < begin + offset
        if gap and self._count(skipped, begin + offset):
            return low + 1, high, True
        return low, high, False

    def _match(self, wall: int, horizon: int) -> float:
        """Return the first matching wall time from ``wall`` on; infinity where there is none."""
        day, second = divmod(wall, DAY)
        match = self._days.next(day, horizon)
        if match == day:
            time = self._times.next(second)
            if time is not None:
                return day * DAY + time
            match = self._days.next(day + 1, horizon)
        return inf if match is None else match * DAY + self._times.first

    def _count(self, low: int, high: int) -> int:
        """Return how many wall times in [low, high) match."""
        if low >= high:
            return 0
        (first, begin), (last, end) = divmod(low, DAY), divmod(high, DAY)
        count = self._days.count(first, last) * self._times.count
        if self._days.fires_on(first):
            count -= self._times.rank(begin)
        if end and self._days.fires_on(last):
            count += self._times.rank(end)
        return count

    def _backwards(self, low: int, high: int, most: int) -> list[int]:
        """Return the newest matching wall times in [low, high), the latest first."""
        found: list[int] = []
        if low >= high:
            return found
        for day in self._days.backwards((high - 1) // DAY, low // DAY):
            for time in self._times.backwards(min(high - day * DAY, DAY)):
                if len(found) == most or day * DAY + time < low:
                    return found
                found.append(day * DAY + time)
        return found
