"""The days on which an expression fires, numbered from 1970-01-01."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from typing import Final, NamedTuple

from onejob.core.cron_fields import Fields

_DAY_ZERO: Final = date(1970, 1, 1).toordinal()
DAY_MAX: Final = date(9998, 12, 31).toordinal() - _DAY_ZERO
_DAY_MIN: Final = date(1, 1, 1).toordinal() - _DAY_ZERO


LONGEST: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""The days of each month, in a leap year."""


class _Month(NamedTuple):
    first: int
    """Its first day, counted from 1970-01-01."""
    number: int
    weekday: int
    """Of its first day, from Monday = 0."""
    length: int


@lru_cache(maxsize=10_000)
def _month(index: int) -> _Month:
    year, month = divmod(index, 12)
    first = date(year, month + 1, 1)
    following = date(year + month // 11, (month + 1) % 12 + 1, 1)
    day = first.toordinal() - _DAY_ZERO
    length = following.toordinal() - first.toordinal()
    return _Month(day, month + 1, first.weekday(), length)


def _index(day: int) -> int:
    when = date.fromordinal(min(max(day, _DAY_MIN), DAY_MAX) + _DAY_ZERO)
    return when.year * 12 + when.month - 1


class Days:
    """The matching days of one expression."""

    __slots__ = ("_ever", "_fields", "_patterns")

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        # A month is one of 28: four lengths, beginning on seven weekdays.
        self._patterns: dict[tuple[int, int], tuple[int, ...]] = {}
        self._ever = any(
            fields.days_of(weekday, length)
            for weekday in range(7)
            for length in {LONGEST[month - 1] for month in fields.months}
        )

    def next(self, day: int, horizon: int) -> int | None:
        """Return the first matching day in [day, horizon], or None."""
        if day > horizon or not self._ever:
            return None
        index = _index(day)
        while True:
            month = _month(index)
            if month.first > horizon:
                return None
            if month.number in self._fields.months:
                days = self._of(month)
                at = bisect_left(days, day - month.first)
                if at < len(days):
                    found = month.first + days[at]
                    return found if found <= horizon else None
            index += 1

    @property
    def ever(self) -> bool:
        """Whether any date matches: 31 February never comes."""
        return self._ever

    def fires_on(self, day: int) -> bool:
        """Return whether a day matches."""
        return self.next(day, day) == day

    def count(self, day: int, until: int) -> int:
        """Return how many days in [day, until) match."""
        if day >= until:
            return 0
        found = 0
        for index in range(_index(day), _index(until - 1) + 1):
            month = _month(index)
            if month.number in self._fields.months:
                days = self._of(month)
                found += bisect_left(days, until - month.first)
                found -= bisect_left(days, day - month.first)
        return found

    def backwards(self, day: int, least: int) -> Iterator[int]:
        """Return the matching days from ``day`` down to ``least``."""
        for index in range(_index(day), _index(least) - 1, -1):
            month = _month(index)
            if month.number in self._fields.months:
                for found in reversed(self._of(month)):
                    if least <= month.first + found <= day:
                        yield month.first + found

    def _of(self, month: _Month) -> tuple[int, ...]:
        pattern = self._patterns.get(month[2:])
        if pattern is None:
            days = self._fields.days_of(month.weekday, month.length)
            pattern = self._patterns[month[2:]] = tuple(day - 1 for day in days)
        return pattern
