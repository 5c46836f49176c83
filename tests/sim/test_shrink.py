"""Shrinking keeps what a failure needs, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from onejob.prove.shrink import shrink


def test_shrinking_keeps_the_two_that_matter_in_their_order() -> None:
    def fails(items: Sequence[int]) -> bool:
        return 17 in items and 83 in items

    assert shrink(range(100), fails) == [17, 83]


def test_shrinking_finds_that_nothing_is_needed() -> None:
    assert shrink([1, 2, 3], lambda _: True) == []
