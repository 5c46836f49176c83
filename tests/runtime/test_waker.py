"""When a loop looks again: at a hint, at a time it has heard of, at the end of its poll."""

from __future__ import annotations

from onejob.core.time import SECOND
from onejob.runtime.waker import TIMES_MOST, Waker
from runtime.stage import LOCAL_START, Stage


def at(seconds: float) -> int:
    return LOCAL_START + round(seconds * SECOND)


def test_without_a_reason_it_waits_for_the_whole_poll(stage: Stage) -> None:
    stage.play(Waker(stage.clock).wait(5 * SECOND))

    assert stage.now == 5.0


def test_a_wake_up_ends_the_present_wait(stage: Stage) -> None:
    async def scene() -> None:
        waker = Waker(stage.clock)
        waiting = stage.begin(waker.wait(5 * SECOND))
        await stage.passes(2)
        waker.wake()
        await waiting

    stage.play(scene())

    assert stage.now == 2.0


def test_a_wake_up_before_the_wait_ends_the_next_one_and_no_more(stage: Stage) -> None:
    """A hint that comes while a claim is on its way must not be lost."""

    async def scene() -> list[float]:
        waker = Waker(stage.clock)
        waker.wake()
        ends = []
        for _ in range(2):
            await waker.wait(5 * SECOND)
            ends.append(stage.now)
        return ends

    assert stage.play(scene()) == [0.0, 5.0]


def test_each_time_it_has_heard_of_ends_one_wait(stage: Stage) -> None:
    async def scene() -> list[float]:
        waker = Waker(stage.clock)
        for seconds in (3, 1, 3, 2):
            waker.at(at(seconds))
        ends = []
        for _ in range(4):
            await waker.wait(10 * SECOND)
            ends.append(stage.now)
        return ends

    assert stage.play(scene()) == [1.0, 2.0, 3.0, 13.0]


def test_a_time_that_is_told_during_a_wait_shortens_it(stage: Stage) -> None:
    async def scene() -> None:
        waker = Waker(stage.clock)
        waiting = stage.begin(waker.wait(10 * SECOND))
        await stage.passes(1)
        waker.at(at(4))
        await waiting

    stage.play(scene())

    assert stage.now == 4.0


def test_a_time_that_has_passed_ends_the_wait_at_once(stage: Stage) -> None:
    async def scene() -> None:
        waker = Waker(stage.clock)
        waker.at(at(-1))
        await waker.wait(10 * SECOND)

    stage.play(scene())

    assert stage.now == 0.0


def test_of_very_many_times_the_nearest_are_kept(stage: Stage) -> None:
    async def scene() -> list[float]:
        waker = Waker(stage.clock)
        for seconds in range(100, 0, -1):
            waker.at(at(seconds))
        ends = []
        for _ in range(TIMES_MOST + 1):
            await waker.wait(500 * SECOND)
            ends.append(stage.now)
        return ends

    ends = stage.play(scene())

    assert ends[:TIMES_MOST] == [float(second) for second in range(1, TIMES_MOST + 1)]
    assert ends[TIMES_MOST] == TIMES_MOST + 500


def test_a_negative_wait_ends_at_once(stage: Stage) -> None:
    stage.play(Waker(stage.clock).wait(-1))

    assert stage.now == 0.0
