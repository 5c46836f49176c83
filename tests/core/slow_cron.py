"""An independent cron, slow and obvious: it looks at every minute that a zone's wall ever shows.

Written from the rules alone, sharing no code with ``onejob.core.cron``. A fixed-time expression is
judged over wall times, a wildcard over instants.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
Walk = list[tuple[datetime, datetime]]


def fires(expression: str, tz: str, start: datetime, days: int) -> list[datetime]:
    """Every fire time in [start, start + days), as UTC datetimes; start is on a whole minute."""
    minute, hour, *_ = expression.split()
    # Two days on each side, so that gaps and overlaps at the edges are seen whole.
    walk = _walk(ZoneInfo(tz), start - timedelta(days=2), days + 4)
    if minute.startswith("*") or hour.startswith("*"):
        found = {at for at, wall in walk if _matches(expression, wall)}
    else:
        found = _once_per_wall_time(expression, walk)
    return sorted(at for at in found if start <= at < start + timedelta(days=days))


def _walk(tz: ZoneInfo, start: datetime, days: int) -> Walk:
    instants = (start + n * MINUTE for n in range(days * 1440))
    return [(at, at.astimezone(tz).replace(tzinfo=None)) for at in instants]


def _once_per_wall_time(expression: str, walk: Walk) -> set[datetime]:
    found = set()
    seen: set[datetime] = set()
    highest = walk[0][1] - MINUTE
    for at, wall in walk:
        skipped = highest + MINUTE
        while skipped < wall:  # a gap: what it skipped fires at the first instant after it
            if _matches(expression, skipped):
                found.add(at)
            skipped += MINUTE
        if wall not in seen and _matches(expression, wall):
            found.add(at)
        seen.add(wall)
        highest = max(highest, wall)
    return found


def _matches(expression: str, wall: datetime) -> bool:
    minute, hour, day, month, weekday = expression.split()
    if not (
        wall.minute in _values(minute, 0, 59)
        and wall.hour in _values(hour, 0, 23)
        and wall.month in _values(month, 1, 12)
    ):
        return False
    last = monthrange(wall.year, wall.month)[1]
    by_day = wall.day == last if day == "L" else wall.day in _values(day, 1, 31)
    by_weekday = wall.isoweekday() % 7 in {v % 7 for v in _values(weekday, 0, 7)}
    if day.startswith("*") or weekday.startswith("*"):
        return by_day and by_weekday
    return by_day or by_weekday


def _values(field: str, least: int, most: int) -> set[int]:
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        low, _, high = (f"{least}-{most}" if span == "*" else span).partition("-")
        found.update(range(int(low), int(high or low) + 1, int(step or 1)))
    return found


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
