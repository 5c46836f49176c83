"""Make a failing list small: drop halves, then quarters, then one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

#: So many plays may a shrinking take.
PLAYS_MOST: Final = 300


def shrink(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a sub-list that still fails, and of which (within the bound) no part can be dropped.

    ``items`` itself must fail. Items keep their order.
    """
    left, size, plays = list(items), max(1, len(items) // 2), 0
    while size and plays < PLAYS_MOST:
        at, dropped = 0, False
        while at < len(left) and plays < PLAYS_MOST:
            fewer = left[:at] + left[at + size :]
            plays += 1
            if fails(fewer):
                left, dropped = fewer, True
            else:
                at += size
        if not dropped or size > len(left):
            size //= 2
    return left
