"""Walk through a window of the slow reference with production's arithmetic."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from core.slow_cron import Window
from onejob.core.cron import Cron
from onejob.core.time import Instant, instant, moment

POLICIES: list[dict[str, Any]] = [
    {"on_gap": "shift", "on_fold": "first"},
    {"on_gap": "skip", "on_fold": "second"},
    {"on_gap": "shift", "on_fold": "both"},
]


def found(expression: str, tz: str, seen: Window, **policies: Any) -> list[datetime]:
    """Walk through a window with ``after``, and see that ``due`` lists and counts the same."""
    cron = Cron.parse(expression, tz, **policies)
    before = Instant(instant(seen.start, what="start") - 1)
    last = Instant(instant(seen.stop, what="stop") - 1)
    walked = []
    at = cron.after(before)
    while at is not None and at <= last:
        walked.append(at)
        at = cron.after(at)
    due = cron.due(before, last, keep=10)
    assert (due.count, list(due.newest)) == (len(walked), walked[-10:])
    return [moment(at) for at in walked]
