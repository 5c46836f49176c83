"""The fire times of a span, counted, and the newest of them listed."""

from __future__ import annotations

from dataclasses import dataclass

from onejob.core.time import Instant


@dataclass(frozen=True, slots=True)
class Due:
    """The fire times of a span: how many, and the newest of them, ascending."""

    newest: tuple[Instant, ...]
    count: int
    at_least: bool = False
    """The count is a lower bound: the span was too long to count."""
