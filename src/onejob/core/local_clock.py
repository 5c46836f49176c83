"""A zone's clock on the wall: which wall times it shows when, which it skips, which come twice.

Everything is whole seconds: instants since 1970-01-01 UTC, wall times since 1970-01-01 00:00 on
that wall. The time line is cut into *stretches*, each with one offset, and into years of 366 days,
each worked out once and kept.

``zoneinfo`` tells the offset at an instant but not when it changes next. A change is found by
looking every 90 hours and halving, which needs one fact of the zone database: two changes are never
closer than that (95 hours is the least in it).
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from onejob.core.time import EPOCH

Fold: TypeAlias = Literal["first", "second", "both"]
"""Which of the two passes counts where the clocks show wall times twice."""

DAY: Final = 86_400
YEAR: Final = 366 * DAY
_STEP: Final = 90 * 3_600
_REACH: Final = 2 * DAY
"""No zone ever moved its clocks by more than a day, so a change reaches no further than this."""

_NEAR: Final = 47 * 3_600
"""Twice this holds at most one change, and still a day more on each side than any offset."""

_EARLIEST: Final = -62_135_596_800 + _REACH
_LATEST: Final = 253_402_300_799 - _REACH
_YEARS_KEPT: Final = 500


class Stretch(NamedTuple):
    """From ``begin`` until before ``end`` the wall shows the instant plus ``offset``, and counts.

    Wall times from ``skipped_from`` to before ``begin + offset`` are in a gap that ends at
    ``begin``; where there is none, the two are equal.
    """

    begin: int
    end: int
    offset: int
    skipped_from: int


class Change(NamedTuple):
    """The clocks change at this instant, from one offset to another."""

    at: int
    before: int
    after: int


@lru_cache(maxsize=700)
def local_clock(tz: str) -> LocalClock:
    """Return the one clock of a zone, so that what it has worked out serves all its schedules."""
    return LocalClock(ZoneInfo(tz))


class LocalClock:
    """Reads one zone."""

    __slots__ = ("_tz", "_years")

    def __init__(self, tz: ZoneInfo) -> None:
        self._tz = tz
        self._years: dict[tuple[int, Fold], tuple[Stretch, ...]] = {}

    def offset(self, at: int) -> int:
        """Return what the wall adds to UTC at an instant."""
        within = min(max(at, _EARLIEST), _LATEST)
        offset = (EPOCH + timedelta(seconds=within)).astimezone(self._tz).utcoffset()
        assert offset is not None, "every zone has an offset"
        return offset.days * DAY + offset.seconds

    def stretches(self, year: int, fold: Fold) -> tuple[Stretch, ...]:
        """Return the stretches of [year * YEAR, (year + 1) * YEAR), ascending.

        Of wall times that come twice, only the pass that ``fold`` names is in a stretch.
        """
        found = self._years.get((year, fold))
        if found is None:
            if len(self._years) >= _YEARS_KEPT:
                self._years.clear()
            found = self._years[year, fold] = self._stretches(year * YEAR, fold)
        return found

    def knows(self, year: int, fold: Fold) -> bool:
        """Return whether the stretches of a year have been worked out."""
        return (year, fold) in self._years

    def steady(self, near: int) -> int | None:
        """Return the offset near an instant, or a wall time; None where it changes near there."""
        offset = self.offset(near - _NEAR)
        return offset if self.offset(near + _NEAR) == offset else None

    def changes(self, after: int, until: int) -> list[Change]:
        """Return the changes of offset in (after, until], ascending."""
        found: list[Change] = []
        looks = [*range(after, until, _STEP), until]
        offsets = [self.offset(at) for at in looks]
        for (low, before), (high, behind) in pairwise(zip(looks, offsets, strict=True)):
            if before != behind:
                found.append(Change(self._change(low, high, before), before, behind))
        return found

    def _change(self, low: int, high: int, before: int) -> int:
        while high - low > 1:
            middle = (low + high) // 2
            if self.offset(middle) == before:
                low = middle
            else:
                high = middle
        return high

    def _stretches(self, start: int, fold: Fold) -> tuple[Stretch, ...]:
        stop = start + YEAR
        changes = self.changes(start - _REACH, stop + _REACH)
        offsets = [self.offset(start), *(change.after for change in changes)]
        begins = [start - _REACH, *(_begin(change, fold) for change in changes)]
        ends = [*(_end(change, fold) for change in changes), stop + _REACH]
        gaps = {change.at: change.at + change.before for change in changes}
        if changes:
            offsets[0] = changes[0].before
        found = []
        for begin, end, offset in zip(begins, ends, offsets, strict=True):
            first, last = max(begin, start), min(end, stop)
            if first < last:
                shown = first + offset
                found.append(Stretch(first, last, offset, min(gaps.get(first, shown), shown)))
        return tuple(found)


def _begin(change: Change, fold: Fold) -> int:
    """Where the wall after a change begins to count: behind its repetition, if that does not."""
    again = max(0, change.before - change.after)
    return change.at + (again if fold == "first" else 0)


def _end(change: Change, fold: Fold) -> int:
    """Where the wall before a change ends to count: before what will be repeated, if that does."""
    again = max(0, change.before - change.after)
    return change.at - (again if fold == "second" else 0)
