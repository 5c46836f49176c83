"""Fire times without a calendar: an interval on a grid, and a single instant."""

from __future__ import annotations

from dataclasses import dataclass

from onejob.core.due import Due
from onejob.core.time import Instant, Span, show_span
from onejob.errors import UsageError


@dataclass(frozen=True, slots=True)
class Every:
    """An interval on a grid: anchor + k * interval, for every whole k, negative ones too.

    The anchor is stored, so all replicas share one grid, and a late run shifts nothing. It is real
    elapsed time: clock changes do not touch it.
    """

    interval: Span
    anchor: Instant

    def __post_init__(self) -> None:
        if self.interval <= 0:
            raise UsageError(
                f"an interval of {show_span(self.interval)} never moves. Give one such as '5m'."
            )

    def after(self, at: Instant) -> Instant:
        """Return the first fire time strictly after ``at``."""
        return Instant(at + self.interval - (at - self.anchor) % self.interval)

    def due(self, after: Instant, until: Instant, *, keep: int) -> Due:
        """Return the fire times in (after, until], the newest ``keep`` of them listed."""
        first = self.after(after)
        count = max(0, (until - first) // self.interval + 1)
        listed = range(max(0, count - keep), count)
        return Due(tuple(Instant(first + k * self.interval) for k in listed), count)


@dataclass(frozen=True, slots=True)
class Once:
    """One instant: it fires then, and never again."""

    at: Instant

    def after(self, at: Instant) -> Instant | None:
        """Return the instant if it is strictly after ``at``; else None."""
        return self.at if self.at > at else None

    def due(self, after: Instant, until: Instant, *, keep: int) -> Due:
        """Return the instant if it is in (after, until], listed unless ``keep`` is 0."""
        if not after < self.at <= until:
            return Due((), 0)
        return Due((self.at,) if keep else (), 1)
