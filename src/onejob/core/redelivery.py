"""What becomes of a delivery: acknowledged, tried again, or set aside as dead; and in what time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from onejob.core.time import SECOND, Span

#: A delivery that failed is given back after a pause that doubles, up to this.
PAUSE_FIRST: Final = Span(SECOND // 10)
PAUSE_MOST: Final = Span(5 * SECOND)


@dataclass(frozen=True, slots=True)
class Handled:
    """Committed, now or earlier: acknowledge it. ``first`` is False for a duplicate."""

    first: bool


@dataclass(frozen=True, slots=True)
class Again:
    """Give it back, after the pause."""

    why: str
    pause: Span = Span(0)


@dataclass(frozen=True, slots=True)
class Dead:
    """Set it aside: trying it again would go on for ever."""

    why: str


Verdict: TypeAlias = Handled | Again | Dead


def after_failure(begun: int, most: int, error: str) -> Again | Dead:
    """Decide about a delivery whose handler failed; it was the ``begun``-th beginning."""
    if begun >= most:
        return Dead(f"it failed {begun} times, the last time with {error}")
    return Again(error, min(PAUSE_MOST, Span(PAUSE_FIRST * 2 ** min(begun - 1, 10))))


def too_often(begun: int, most: int) -> Dead | None:
    """Decide whether a message may begin for the ``begun``-th time.

    One that ends its consumer is never reported as failed: its beginnings tell.
    """
    if begun > most:
        return Dead(f"it was begun {begun - 1} times and never ended")
    return None


def time_needed(timeout: Span, *, prefetch: int, concurrency: int) -> Span:
    """Return how long a delivery may be under way: its turn comes last of what was fetched."""
    turns = -(-prefetch // concurrency)
    return Span(turns * (timeout + PAUSE_MOST))
