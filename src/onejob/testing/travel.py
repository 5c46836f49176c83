"""Clocks that a test sets forward: the store's, and the process's own."""

from __future__ import annotations

import time
from datetime import datetime

from onejob.core.time import Duration, Instant, Span, duration, instant
from onejob.errors import UsageError
from onejob.runtime.clock import SystemClock


class TravelClock(SystemClock):
    """Both clocks of a test. They run on by themselves; :meth:`travel` moves them together."""

    def __init__(self) -> None:
        self._store_ahead = self._own_ahead = 0

    def now(self) -> int:
        """Return the process's own time, which never goes back."""
        return super().now() + self._own_ahead

    def store_now(self) -> int:
        """Return the store's time, in microseconds since the epoch."""
        return time.time_ns() // 1_000 + self._store_ahead

    def travel(self, span: Duration | None, to: datetime | None) -> Span:
        """Move on by ``span``, or until the store's clock shows ``to``; return how far that was."""
        if (span is None) == (to is None):
            raise UsageError(
                'travel needs either how far or where to: travel("1h"), travel(to=datetime(2026, '
                "3, 29, 2, tzinfo=ZoneInfo('Europe/Berlin')))."
            )
        if to is not None:
            far = Span(instant(to, what="to") - Instant(self.store_now()))
        else:
            assert span is not None, "one of the two was given"
            far = duration(span, what="span")
        self._store_ahead += far
        self._own_ahead += max(0, far)
        return far
