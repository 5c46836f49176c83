"""An independent cron, slow and obvious: it looks at every time that a wall could ever show.

Written from the rules alone, sharing no code with ``onejob.core``: which instants show a wall time
is Python's own word (PEP 495), and where a gap ends is found by walking second by second.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class WallTime:
    """A time on a wall, the instants that show it (none, one or two), and what follows a gap."""

    wall: datetime
    shown: tuple[datetime, ...]
    after_gap: datetime | None


@dataclass(frozen=True)
class Window:
    """Every wall time that can fire in [start, stop), and others around it."""

    start: datetime
    stop: datetime
    walls: tuple[WallTime, ...]


def window(
    tz: str,
    start: datetime,
    length: timedelta,
    *,
    step: timedelta = MINUTE,
    margin: timedelta = DAY,
) -> Window:
    """Look at all wall times of a window; ``margin`` must cover the longest gap in it."""
    zone, stop = ZoneInfo(tz), start + length
    ends = [_wall(at, zone) for at in (start, stop)]
    first = (min(ends) - margin).replace(second=0)
    last = max(ends) + margin
    walls = (first + n * step for n in range((last - first) // step + 1))
    return Window(start, stop, tuple(_looked_at(walls, zone)))


def fires(
    expression: str, seen: Window, *, on_gap: str = "shift", on_fold: str = "first"
) -> list[datetime]:
    """Every fire time in a window, as UTC datetimes."""
    found: set[datetime] = set()
    fields = _fields(expression)
    wildcard = any(field.startswith("*") for field in fields[:3])
    every_hour = _values(fields[2], 0, 23) == set(range(24))
    for time in seen.walls:
        if not _matches(fields, time.wall):
            continue
        if not time.shown:
            if on_gap == "shift" and not every_hour:
                assert time.after_gap is not None
                found.add(time.after_gap)
        elif wildcard or on_fold == "both":
            found.update(time.shown)
        else:
            found.add(time.shown[0] if on_fold == "first" else time.shown[-1])
    return sorted(at for at in found if seen.start <= at < seen.stop)


def taken_by_gaps(expression: str, seen: Window) -> list[tuple[datetime, datetime]]:
    """Each matching wall time that is never shown, with the instant after its gap."""
    fields = _fields(expression)
    return [
        (time.wall, time.after_gap)
        for time in seen.walls
        if time.after_gap is not None
        and seen.start <= time.after_gap < seen.stop
        and _matches(fields, time.wall)
    ]


def changes(tz: str, first: int, last: int) -> list[datetime]:
    """Every instant of those years at which a zone's offset changes, by looking at each day."""
    zone = ZoneInfo(tz)
    found = []
    day = datetime(first, 1, 1, tzinfo=UTC)
    while day.year <= last:
        if _offset(day, zone) != _offset(day + DAY, zone):
            at = day
            for step in (timedelta(hours=1), MINUTE, SECOND):
                while _offset(at + step, zone) == _offset(day, zone):
                    at += step
            found.append(at + SECOND)
        day += DAY
    return found


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _looked_at(walls: Iterator[datetime], zone: ZoneInfo) -> Iterator[WallTime]:
    end: datetime | None = None
    for wall in walls:
        early, late = sorted(
            wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)
        )
        shown = tuple(at for at in dict.fromkeys((early, late)) if _wall(at, zone) == wall)
        if shown:
            end = None
        elif end is None:
            end = early
            while _wall(end, zone) < wall:
                end += SECOND
        yield WallTime(wall, shown, end)


def _wall(at: datetime, zone: ZoneInfo) -> datetime:
    return at.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(at: datetime, zone: ZoneInfo) -> timedelta | None:
    return at.astimezone(zone).utcoffset()


def _fields(expression: str) -> list[str]:
    fields = expression.split()
    return fields if len(fields) == 6 else ["0", *fields]


def _matches(fields: list[str], wall: datetime) -> bool:
    second, minute, hour, day, month, weekday = fields
    if not (
        wall.minute in _values(minute, 0, 59)
        and wall.hour in _values(hour, 0, 23)
        and wall.second in _values(second, 0, 59)
        and wall.month in _values(month, 1, 12)
    ):
        return False
    last = monthrange(wall.year, wall.month)[1]
    by_day = wall.day == last if day == "L" else wall.day in _values(day, 1, 31)
    by_weekday = wall.isoweekday() % 7 in {v % 7 for v in _values(weekday, 0, 7)}
    if day.startswith("*") or weekday.startswith("*"):
        return by_day and by_weekday
    return by_day or by_weekday


@cache
def _values(field: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        low, _, high = (f"{least}-{most}" if span == "*" else span).partition("-")
        found.update(range(int(low), int(high or low) + 1, int(step or 1)))
    return frozenset(found)
