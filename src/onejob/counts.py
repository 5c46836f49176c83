"""Whole numbers that users give: one rule for all, checked before any I/O."""

from __future__ import annotations

from typing import Final

from onejob.errors import UsageError

#: What one look returns at most.
LISTED_MAX: Final = 10_000


def check_count(value: object, *, what: str, least: int = 1, most: int | None = None) -> int:
    """Return the number, or raise UsageError that says which ones ``what`` may be."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (
        isinstance(value, int) and whole and value >= least and (most is None or value <= most)
    ):
        upper = "" if most is None else f" to {most:,}"
        raise UsageError(f"{what}={value!r} must be a whole number from {least}{upper}.")
    return value
