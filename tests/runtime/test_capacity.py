"""How many runs a replica takes on."""

from __future__ import annotations

import pytest

from onejob.core.capacity import AHEAD, AHEAD_MOST, Capacity


def worked(slots: int, *durations: int) -> Capacity:
    capacity = Capacity(slots)
    for took in durations:
        capacity.ended(took)
    return capacity


@pytest.mark.parametrize(
    ("durations", "total"),
    [
        ((), 20),
        ((AHEAD + 1,), 20),
        ((AHEAD,), 40),
        ((AHEAD // 2,), 60),
        ((1,), 20 + AHEAD_MOST),
        ((0,), 20 + AHEAD_MOST),
        ((1, *[60_000_000] * 3), 20),
    ],
    ids=["nothing known", "long", "just short", "half", "very short", "no time", "short no more"],
)
def test_runs_are_taken_ahead_only_as_far_as_they_start_within_the_bound(
    durations: tuple[int, ...], total: int
) -> None:
    assert worked(20, *durations).total == total


@pytest.mark.parametrize(
    ("held", "room"), [(0, 60), (19, 41), (20, 40), (30, 30), (31, 0), (60, 0), (70, 0)]
)
def test_a_free_slot_is_always_worth_a_claim_and_else_half_must_be_free(
    held: int, room: int
) -> None:
    assert worked(20, AHEAD // 2).room(held) == room


def test_more_held_than_there_is_room_for_leaves_none() -> None:
    assert Capacity(3).room(5) == 0
