"""A zone's clock on the wall, in integers: offsets, gaps and overlaps.

``zoneinfo`` tells the offset at an instant but not when it changes next. The change is found by
halving, which needs one fact of the zone database: changes of offset stand days apart (95 hours is
the least in it), so that within a day there is at most one.
"""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

from onejob.core.time import EPOCH, Instant

_WALL_EPOCH = EPOCH.replace(tzinfo=None)


class LocalClock:
    """Reads one zone. A *wall* time is microseconds since 1970-01-01 00:00 on that wall."""

    __slots__ = ("_tz", "_utc")

    def __init__(self, tz: ZoneInfo) -> None:
        self._tz = tz
        self._utc = tz.key == "UTC"

    def offset(self, at: int) -> int:
        """Return what the wall adds to UTC at an instant."""
        if self._utc:
            return 0
        return _microseconds((EPOCH + timedelta(microseconds=at)).astimezone(self._tz).utcoffset())

    def resolve(self, wall: int) -> Instant:
        """Return the instant that a wall time names.

        In an overlap the first of the two; in a gap, the first instant after the gap. Never falls
        as ``wall`` rises.
        """
        if self._utc:
            return Instant(wall)
        shown = (_WALL_EPOCH + timedelta(microseconds=wall)).replace(tzinfo=self._tz)
        first = _microseconds(shown.utcoffset())
        second = _microseconds(shown.replace(fold=1).utcoffset())
        if second > first:
            end = self.turn(wall - second, wall - first)
            assert end is not None, "a gap has an end"
            return end
        return Instant(wall - first)

    def turn(self, after: int, until: int) -> Instant | None:
        """Return the first instant in (after, until] with another offset than at ``after``.

        The two must be less than 95 hours apart.
        """
        before = self.offset(after)
        if self.offset(until) == before:
            return None
        while until - after > 1:
            middle = (after + until) // 2
            if self.offset(middle) == before:
                after = middle
            else:
                until = middle
        return Instant(until)


def _microseconds(offset: timedelta | None) -> int:
    assert offset is not None
    return (offset.days * 86_400 + offset.seconds) * 1_000_000
