"""Virtual time: order, jumps, and strands that freeze, sleep and die."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from onejob.prove.virtual import Deadlock, Livelock, Strand, VirtualClock, VirtualLoop

S = 1_000_000


class Diary:
    """Who woke when, in milliseconds."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop, self.lines = loop, list[tuple[str, int]]()

    async def beat(self, name: str, seconds: float, times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(seconds)
            self.lines.append((name, self.loop.micros // 1_000))


def played(loop: VirtualLoop, main: Coroutine[Any, Any, None]) -> None:
    try:
        loop.run_until_complete(main)
    finally:
        loop.end()


def test_a_year_passes_at_once() -> None:
    loop = VirtualLoop()

    played(loop, asyncio.sleep(365 * 86_400))

    assert loop.micros == 365 * 86_400 * S


def test_timers_of_one_instant_fire_in_the_order_of_their_making() -> None:
    loop, told = VirtualLoop(), list[int]()

    async def main() -> None:
        for number in range(5):
            loop.call_later(1, told.append, number)
        await asyncio.sleep(2)

    played(loop, main())

    assert told == [0, 1, 2, 3, 4]


def test_a_frozen_strand_takes_its_turns_when_it_is_thawed() -> None:
    loop = VirtualLoop()
    diary, strand = Diary(loop), Strand(loop, "a")

    async def main() -> None:
        strand.start(diary.beat("a", 1, 3))
        loop.later(1_500_000, strand.freeze)
        loop.later(4_500_000, strand.thaw)
        await asyncio.sleep(10)

    played(loop, main())

    assert diary.lines == [("a", 1_000), ("a", 4_500), ("a", 5_500)]


def test_the_timers_of_a_suspended_strand_stand_still() -> None:
    loop = VirtualLoop()
    diary, strand = Diary(loop), Strand(loop, "a")

    async def main() -> None:
        strand.start(diary.beat("a", 2, 2))
        loop.later(1 * S, strand.suspend)
        loop.later(6 * S, strand.resume, 5 * S)
        await asyncio.sleep(20)

    played(loop, main())

    assert diary.lines == [("a", 7_000), ("a", 9_000)]


def test_a_dead_strand_is_never_heard_of_again() -> None:
    loop = VirtualLoop()
    diary, strand = Diary(loop), Strand(loop, "a")

    async def main() -> None:
        strand.start(diary.beat("a", 1, 9))
        loop.later(2_500_000, strand.die)
        await asyncio.sleep(20)

    played(loop, main())

    assert diary.lines == [("a", 1_000), ("a", 2_000)]
    assert loop.troubles == []


def test_waiting_for_what_never_comes_is_a_deadlock() -> None:
    loop = VirtualLoop()

    with pytest.raises(Deadlock):
        played(loop, asyncio.Event().wait())  # type: ignore[arg-type]  # returns True, never


def test_a_loop_that_spins_without_time_is_a_livelock() -> None:
    loop = VirtualLoop()

    def again() -> None:
        loop.call_soon(again)

    async def main() -> None:
        again()
        await asyncio.sleep(1)

    with pytest.raises(Livelock):
        played(loop, main())


def test_a_drifting_clock_sleeps_by_its_own_measure() -> None:
    loop = VirtualLoop()
    clock = VirtualClock(loop, start=0, drift_ppm=100_000)

    played(loop, clock.sleep(11 * S))

    assert loop.micros == 10 * S
    assert clock.now() == 11 * S
