"""What both loops for RabbitMQ share: its limit, and what a dead message says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onejob.core.time import SECOND, Duration, Span, duration
from onejob.counts import check_count
from onejob.inbox.consumer import Consumer

#: RabbitMQ's own default for how long a message may be unacknowledged.
CONSUMER_TIMEOUT: Final = "30m"
#: What a queue can be told to prefetch.
PREFETCH_MOST: Final = 65_535


def check_bounds(
    consumer: Consumer, prefetch: int | None, consumer_timeout: Duration
) -> tuple[int, Span]:
    """Return how much to prefetch, and the server's limit; UsageError where that is too short."""
    fetched = consumer.concurrency if prefetch is None else prefetch
    check_count(fetched, what="prefetch", most=PREFETCH_MOST)
    limit = duration(consumer_timeout, what="consumer_timeout", least=SECOND)
    consumer.check_limit(
        limit,
        prefetch=fetched,
        name="RabbitMQ's consumer_timeout",
        advice="Raise it at the server (and say so here), lower timeout= or prefetch=.",
    )
    return fetched, limit


def waited_too_long(waited: float, consumer: Consumer, limit: Span) -> bool:
    """Tell whether by the end of its handling the server would have handed it out again."""
    return Span(int(waited * SECOND)) + consumer.timeout >= limit


def dead_headers(headers: Mapping[str, Any] | None, why: str, queue: str | None) -> dict[str, Any]:
    """Return the headers of a dead message: its own, why it is dead, and where it was."""
    return {**(headers or {}), "x-onejob-reason": why, "x-onejob-queue": queue or ""}
