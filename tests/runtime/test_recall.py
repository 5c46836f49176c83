"""What somebody has cancelled while it ran: its handler hears, and nothing here speaks for it."""

from __future__ import annotations

import asyncio

import pytest

from onejob.commands import overlap, runs
from onejob.core.run import RunId
from onejob.core.time import DAY, SECOND
from onejob.errors import LeaseLost
from onejob.runtime.attempt import Attempt
from runtime.stage import LEASE, Stage, Trouble
from runtime.test_sweeper import Watch
from runtime.test_worker import Shift, for_ever, outcomes


def cancel(stage: Stage, id: int) -> bool:
    return stage.store.run(runs.cancel(RunId(id), keep=DAY))


def test_an_async_handler_is_cancelled_soon_after_a_hint(stage: Stage) -> None:
    """B06"""
    ended: list[float] = []

    async def handler(attempt: Attempt) -> None:
        try:
            await for_ever(attempt)
        finally:
            ended.append(stage.now)

    async def scene() -> Shift:
        stage.enqueue("report", "one")
        shift = Shift(stage, handler)
        await stage.passes(5)
        assert cancel(stage, 1)
        shift.worker.hinted()
        await stage.passes(1)
        return shift

    shift = stage.play(scene())

    assert ended
    assert ended[0] - 5 < 1
    assert shift.worker.executor.held == 0
    assert outcomes(stage) == ["cancelled"]
    [lost] = [event for event in stage.told if event.name == "run.lost"]
    assert lost.fields["why"] == "somebody has cancelled it"


def test_a_handler_that_asks_is_told_without_any_hint(stage: Stage) -> None:
    """B06: bounded by a quarter of a lease and a poll."""
    heard: list[float] = []

    async def handler(attempt: Attempt) -> None:
        while True:
            try:
                attempt.check()
                await asyncio.sleep(0.25)
            except LeaseLost:
                heard.append(stage.now)
                raise

    async def scene() -> None:
        stage.enqueue("report", "one")
        Shift(stage, handler)
        await stage.passes(5)
        assert cancel(stage, 1)
        await stage.passes(2 * LEASE / SECOND)

    stage.play(scene())

    assert outcomes(stage) == ["cancelled"]
    assert stage.store.tables.history[1, 1].run.attempt == 1
    assert not heard or heard[0] < 5 + LEASE / 4 / SECOND + 5


def test_an_attempt_that_waits_for_a_slot_never_starts(stage: Stage) -> None:
    async def scene() -> Shift:
        shift = Shift(stage, for_ever, concurrency=1)
        stage.enqueue("report", "one", "two")
        claimed = await shift.host.run(
            runs.claim(
                shift.worker._watermark.probes(stage.clock.now()),
                jobs=["report"],
                replica=shift.member.id,
                limit=2,
            )
        )
        for run in claimed:
            shift.worker.executor.take(run, shift.member)
        await stage.passes(0)
        assert cancel(stage, 2)
        shift.worker.hinted()
        await stage.passes(1)
        return shift

    shift = stage.play(scene())

    assert [key for key, _ in shift.ran] == ["one"]
    assert shift.worker.executor.held == 1


def test_what_succeeds_or_cancels_itself_meanwhile_is_not_disturbed(stage: Stage) -> None:
    from onejob.core.retry import Cancel

    async def handler(attempt: Attempt) -> None:
        await asyncio.sleep(2)
        if attempt.run.key == "self":
            raise Cancel("enough")

    async def scene() -> None:
        stage.enqueue("report", "self", "plain")
        stage.wire.plan("run_settle", Trouble(back=10 * SECOND))
        shift = Shift(stage, handler)
        for _ in range(20):
            await stage.passes(1)
            shift.worker.hinted()

    stage.play(scene())

    assert sorted(outcomes(stage)) == ["cancelled", "succeeded"]
    assert "run.lost" not in stage.names()


def test_an_idle_worker_never_asks_what_was_cancelled(stage: Stage) -> None:
    async def scene() -> None:
        shift = Shift(stage, for_ever)
        for _ in range(60):
            await stage.passes(1)
            shift.worker.hinted()

    stage.play(scene())

    assert stage.wire.count("run_recalled") == 0


def test_hints_by_the_hundred_ask_no_more_than_twice_a_second(stage: Stage) -> None:
    async def scene() -> None:
        stage.enqueue("report", "one")
        shift = Shift(stage, for_ever)
        await stage.passes(1)
        for _ in range(100):
            await stage.passes(0.1)
            shift.worker.hinted()

    stage.play(scene())

    assert stage.wire.count("run_recalled") <= 23


def test_a_request_to_cancel_is_carried_out_by_a_sweep(stage: Stage) -> None:
    """B06: it was only asked for, since a transaction held the row; that is over now."""

    async def scene() -> Watch:
        watch = Watch(stage)
        stage.enqueue("report", "one")
        stage.store.tables.cancels[1] = "asked"
        await watch.passes(4)
        return watch

    watch = stage.play(scene())

    assert outcomes(stage) == ["cancelled"]
    assert stage.store.run(overlap.asked(limit=10)) == ()
    assert "run.cancelled" in stage.names()
    assert watch.released >= 1


@pytest.mark.parametrize("expect", [SECOND])
def test_a_late_run_is_told_once_by_a_sweep(stage: Stage, expect: int) -> None:
    async def scene() -> None:
        watch = Watch(stage)
        stage.enqueue("report", "one", expect=expect)
        await watch.passes(20)

    stage.play(scene())

    assert stage.names("run.late") == ["run.late"]
