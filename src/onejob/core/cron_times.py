"""The times of day at which an expression fires, in seconds since local midnight."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import product

from onejob.core.cron_fields import Fields


class Times:
    """The matching times of one expression. Three short tables, not 86,400 entries."""

    __slots__ = ("_hours", "_minutes", "_seconds", "_shown", "count", "first")

    def __init__(self, fields: Fields) -> None:
        self._shown = fields.hours, fields.minutes, fields.seconds
        self._hours = _following(fields.hours, 24)
        self._minutes = _following(fields.minutes, 60)
        self._seconds = _following(fields.seconds, 60)
        self.first = fields.hours[0] * 3_600 + fields.minutes[0] * 60 + fields.seconds[0]
        self.count = len(fields.hours) * len(fields.minutes) * len(fields.seconds)

    def next(self, second: int) -> int | None:
        """Return the first matching time of day from ``second`` on, or None."""
        minute, second = divmod(second, 60)
        hour, minute = divmod(minute, 60)
        at = self._hours[hour]
        if at == hour:
            found = self._minutes[minute]
            if found == minute:
                last = self._seconds[second]
                if last is not None:
                    return hour * 3_600 + minute * 60 + last
                found = self._minutes[minute + 1]
            if found is not None:
                return hour * 3_600 + found * 60 + self._shown[2][0]
            at = self._hours[hour + 1]
        return None if at is None else self.first + (at - self._shown[0][0]) * 3_600

    def rank(self, second: int) -> int:
        """Return how many matching times of day are before ``second``."""
        hours, minutes, seconds = self._shown
        minute, second = divmod(second, 60)
        hour, minute = divmod(minute, 60)
        rank = bisect_left(hours, hour) * len(minutes) * len(seconds)
        if self._hours[hour] == hour:
            rank += bisect_left(minutes, minute) * len(seconds)
            if self._minutes[minute] == minute:
                rank += bisect_left(seconds, second)
        return rank

    def backwards(self, below: int) -> Iterator[int]:
        """Return the matching times of day before ``below``, the latest first."""
        hours, minutes, seconds = self._shown
        earlier = hours[: bisect_left(hours, -(-below // 3_600))]
        for hour, minute, second in product(
            reversed(earlier), reversed(minutes), reversed(seconds)
        ):
            at = hour * 3_600 + minute * 60 + second
            if at < below:
                yield at


def _following(values: tuple[int, ...], size: int) -> tuple[int | None, ...]:
    """Return, for each number up to ``size``, the first of the values that is not below it."""
    at = [bisect_left(values, number) for number in range(size + 1)]
    return tuple(values[n] if n < len(values) else None for n in at)
