"""A sync call in a thread that ends after the task which awaited it was cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from api.conftest import Begin
from onejob import App, AsyncRun, EffectUnknown
from onejob.effect import NotSent

Calls = Callable[[], Any]


class Slow:
    """A call that ends when it is told to, with what it is told."""

    def __init__(self, end: Calls) -> None:
        self.end = end
        self.began, self.may_end = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        self.began.set()
        assert self.may_end.wait(10)
        return self.end()


@pytest.fixture
def run(app: App, begin: Begin) -> AsyncRun:
    @app.job()
    async def bill(run: AsyncRun) -> None: ...

    bill.using(key="2026-03").enqueue()
    started: AsyncRun = begin(AsyncRun)
    return started


def raising(error: Exception) -> Calls:
    def end() -> Any:
        raise error

    return end


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (lambda: "r-1", "done"),
        (raising(TimeoutError()), "unknown"),
        (raising(NotSent("no route")), "absent"),
        (raising(StopIteration()), "unknown"),
    ],
)
def test_what_a_call_knows_is_recorded_after_its_task_was_cancelled(
    app: App, run: AsyncRun, end: Calls, state: str
) -> None:
    """A timeout or a deploy's drain left it unknown, for a person to look up."""
    slow = Slow(end)

    async def scenario() -> None:
        task = asyncio.create_task(run.effect("charge", slow))
        await asyncio.to_thread(slow.began.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        slow.may_end.set()
        # The end of the loop waits for its threads.

    asyncio.run(scenario())

    effect = app.effects.get("bill/2026-03", "charge")
    assert ("absent" if effect is None else effect.state) == state
    assert slow.calls == 1
    if state == "done":
        assert asyncio.run(run.effect("charge", slow)) == "r-1"
        assert slow.calls == 1


def test_outside_a_run_as_well(app: App) -> None:
    slow = Slow(lambda: "r-1")

    async def scenario() -> None:
        task = asyncio.create_task(app.aeffect("order", "7", slow))
        await asyncio.to_thread(slow.began.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        slow.may_end.set()

    asyncio.run(scenario())

    assert app.effect("order", "7", lambda: "r-2") == "r-1"


def test_a_call_that_raises_what_a_future_cannot_hold_ends(run: AsyncRun) -> None:
    """StopIteration through a future is never delivered: the handler would wait for ever."""

    async def scenario() -> None:
        with pytest.raises(EffectUnknown):
            await asyncio.wait_for(run.effect("charge", raising(StopIteration())), 5)

    asyncio.run(scenario())
