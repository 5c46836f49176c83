"""Huey: the consumer asks once a minute which periodic tasks match, and enqueues those.

Each process asks somewhere within the minute, by when it was started; the minute is the fire time.
The guard answers that question with nothing, having enqueued by itself what this process won.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from onejob.core import guarding
from onejob.core.guarding import Tick
from onejob.core.time import MINUTE, Instant, instant
from onejob.guards import Guard
from onejob.integrations.guard import require
from onejob.runtime.events import log

LIBRARY = "huey"


def attach(huey: Any, guard: Guard) -> None:
    """Stand in for the question which periodic tasks are due."""
    require(huey, "read_periodic", "enqueue")
    guard.in_a_thread()
    vars(huey)["read_periodic"] = partial(_due, huey, guard, huey.read_periodic)


def _due(
    huey: Any, guard: Guard, read: Callable[..., list[Any]], timestamp: datetime | None
) -> list[Any]:
    minute = _minute(huey, timestamp)
    for task in read(timestamp):
        try:
            guard.attempt(_tick(huey, task, minute), partial(huey.enqueue, task))
        except Exception:  # noqa: BLE001 - one of several, as the consumer does
            log.exception("periodic task %s could not be enqueued", task)
    return []


def _tick(huey: Any, task: Any, minute: Instant) -> Tick:
    # A registry holds a name once, and a deploy that changes the minute keeps it.
    kind = type(task)
    return guarding.at(
        guarding.given(LIBRARY, f"{huey.name}/{kind.__module__}.{kind.__name__}"), minute
    )


def _minute(huey: Any, timestamp: datetime | None) -> Instant:
    """Return the minute that is asked about, in real time: a local clock shows some twice."""
    if timestamp is None:
        timestamp = datetime.now(UTC)
    elif timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=UTC) if huey.utc else timestamp.astimezone()
    return Instant(instant(timestamp, what="timestamp") // MINUTE * MINUTE)
