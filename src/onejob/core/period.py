"""Periods: the spans from one boundary to the next, and which of them an instant means.

Replicas fire a little early or late, and some hours late after an outage; all must mean the same
one. So an instant means the period of the last boundary that is not after it, and already the next
one when that begins in a moment: within min(30 s, a tenth of the period), and at least 1 s (half
the period where that is less).

A period's name is its boundary: ``2026-11-29`` on the zone's wall for days and weeks, ``2026-11``
for months, and the instant, ``2026-11-29T02:00:00Z``, for all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

from onejob.core.cron import HORIZON_DAYS, LOOK_BACK_DAYS, Cron
from onejob.core.every import Every
from onejob.core.time import (
    DAY,
    HOUR,
    SECOND,
    Duration,
    Instant,
    Span,
    duration,
    in_zone,
    text,
    zone,
)
from onejob.errors import UsageError

EARLY_MOST: Final = Span(30 * SECOND)
EARLY_LEAST: Final = Span(1 * SECOND)

LEAST: Final = Span(1 * SECOND)
"""The shortest interval: replicas are not closer together than this allows for."""

_WORDS: Final = {
    "minute": "* * * * *",
    "hour": "0 * * * *",
    "day": "0 0 * * *",
    "week": "0 0 * * 1",
    "month": "0 0 1 * *",
}
_SHOWN: Final = {"day": "%Y-%m-%d", "week": "%Y-%m-%d", "month": "%Y-%m"}

_UTC: Final = ("UTC", "Etc/UTC")
_QUARTER: Final = HOUR // 4
"""Every zone's clock is a whole number of these from UTC today."""

_FIRST_LOOK: Final = 2 * DAY
_WIDER: Final = 16
_LONGEST_LOOK: Final = (LOOK_BACK_DAYS - 1) * DAY


@dataclass(frozen=True, slots=True)
class Period:
    """From ``begin`` to before ``end`` (None: no other boundary comes). ``key`` is its name."""

    key: str
    begin: Instant
    end: Instant | None

    def keep(self, least: Span, *, now: int) -> Span:
        """Return how long its key must be known: until nobody can mean it any more, at least."""
        rest = 0 if self.end is None else max(0, self.end - now) + DAY
        return Span(max(least, rest))


@dataclass(frozen=True, slots=True)
class Per:
    """How time is cut into periods. Build it with ``Per.parse``, which checks it."""

    boundaries: Cron | Every
    tz: ZoneInfo
    shown: str = ""

    @classmethod
    def parse(cls, per: Duration, tz: str | ZoneInfo | None = None) -> Per:
        """Read ``"day"``, another word, an interval such as ``"15m"``, or a cron expression.

        UsageError for anything else, and for an expression that names no boundary.
        """
        where = zone(tz, "tz")
        if isinstance(per, str) and (word := per.strip().lower()) in _WORDS:
            return cls(Cron.parse(_WORDS[word], where), where, _SHOWN.get(word, ""))
        if isinstance(per, str) and (len(per.split()) >= 5 or per.strip().startswith("@")):
            cron = Cron.parse(per, where)
            if cron.after(Instant(0)) is None:
                raise UsageError(f"per={per!r} never comes: it names no period. See: onejob next")
            return cls(cron, where)
        try:
            interval = duration(per, what="per", least=LEAST)
        except UsageError as error:
            if not isinstance(per, str) or any(c.isdecimal() for c in per):
                raise
            words = ", ".join(_WORDS)
            raise UsageError(
                f"per={per!r} names no period. Give one of {words}, an interval such as '15m', or "
                "a cron expression of five fields."
            ) from error
        if where.key not in _UTC and _QUARTER % interval:
            raise UsageError(
                f"per={per!r} is real time that passes, counted from midnight UTC of 1970-01-01: "
                f"a zone means nothing to it. Leave tz={where.key!r} out, or say 'hour', 'day' or "
                "a cron expression."
            )
        return cls(Every(interval, Instant(0)), where)

    def at(self, now: Instant) -> Period:
        """Return the period that somebody means who asks at ``now``, a little early or late."""
        begin, end = self._last(now), self.boundaries.after(now)
        if end is not None and end - now <= early(Span(end - begin)):
            begin, end = end, self.boundaries.after(end)
        return Period(self._key(begin), begin, end)

    def _last(self, now: Instant) -> Instant:
        """Return the last boundary that is not after ``now``, looking back ever further."""
        span: int = _FIRST_LOOK
        until = now
        while until > now - HORIZON_DAYS * DAY:
            after = Instant(until - span)
            newest = self.boundaries.due(after, until, keep=1).newest
            if newest:
                return newest[0]
            until, span = after, min(_WIDER * span, _LONGEST_LOOK)
        raise UsageError(f"no boundary has passed for {HORIZON_DAYS // 366} years: {self}.")

    def _key(self, begin: Instant) -> str:
        return f"{in_zone(begin, self.tz):{self.shown}}" if self.shown else text(begin)


def early(period: Span) -> Span:
    """Return how long before a boundary it is already meant; never more than half a period."""
    return Span(min(max(EARLY_LEAST, min(EARLY_MOST, period // 10)), period // 2))
