"""Sync handlers: in threads, which nobody can cancel. Real ones, in real time, without sleeps."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

from onejob.commands import replicas, runs
from onejob.commands.runs import NewRun
from onejob.core.run import Again, End, Outcome, ReplicaId, Settlement
from onejob.core.time import SECOND, Span
from onejob.core.watermark import full_probes
from onejob.runtime.attempt import Attempt
from onejob.runtime.clock import SystemClock
from onejob.runtime.events import Events
from onejob.runtime.executor import EXIT_SPAN, Executor
from onejob.runtime.membership import Membership
from onejob.stores.memory import MemoryStore
from runtime.stage import STORE_START, Job, Midway

PATIENCE_SECONDS = 5
LEASE = 60 * SECOND


class Bench:
    """An executor of one sync job with one slot, in a real loop."""

    def __init__(self, handler: Callable[[Attempt], Any], **options: Any) -> None:
        self.store = MemoryStore(lambda: STORE_START)
        self.clock = SystemClock()
        self.finished: list[Settlement] = []
        self.ended = asyncio.Event()
        random: Any = Midway()
        executables: Any = {"report": Job("report", handler, is_async=False, **options)}
        self.executor = Executor(
            executables,
            slots=1,
            clock=self.clock,
            random=random,
            events=Events(),
            finished=lambda attempt, settlement: self.finished.append(settlement),
            freed=self.ended.set,
        )
        now = self.clock.now()
        self.member = Membership(ReplicaId("me"), now + LEASE, punctual_since=now)
        new = replicas.NewReplica(self.member.id, "shop", "here", 1, "", ["report"], {}, LEASE)
        self.store.run(replicas.join(new))

    def take(self, *keys: str) -> None:
        self.store.run(runs.enqueue([NewRun("report", key, "{}", keyed=True) for key in keys]))
        claim = runs.claim(
            full_probes(["default"]), jobs=["report"], replica=self.member.id, limit=100
        )
        for run in self.store.run(claim):
            self.executor.take(run, self.member)

    async def over(self) -> None:
        await asyncio.wait_for(self.ended.wait(), PATIENCE_SECONDS)
        self.ended.clear()


def settlements_of(handler: Callable[[Attempt], Any], **options: Any) -> list[Settlement]:
    async def scene() -> list[Settlement]:
        bench = Bench(handler, **options)
        bench.take("one")
        await bench.over()
        await bench.executor.drain(0)
        return bench.finished

    return asyncio.run(scene())


def test_a_function_runs_in_a_thread_of_ours_and_its_value_is_the_result() -> None:
    names: list[str] = []

    def handler(attempt: Attempt) -> str:
        names.append(threading.current_thread().name)
        return "done"

    found = settlements_of(handler, encode=lambda value: f'"{value}"')

    assert found == [End(Outcome.SUCCEEDED, result='"done"')]
    assert names[0].startswith("onejob-job")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no"), "ValueError: no"),
        (SystemExit(), "SystemExit"),
        (SystemExit("stop"), "SystemExit: stop"),
    ],
    ids=["an error", "sys.exit()", "sys.exit with a message"],
)
def test_what_a_function_raises_ends_its_attempt_and_not_the_replica(
    error: BaseException, text: str
) -> None:
    def handler(attempt: Attempt) -> None:
        raise error

    assert settlements_of(handler) == [Again(10 * SECOND, Outcome.FAILED, text)]


def test_a_stop_iteration_from_a_function_does_not_hang_its_slot() -> None:
    """A future refuses to carry it: a handler that calls next() on an empty iterator raises it."""

    def handler(attempt: Attempt) -> None:
        next(iter(()))

    [found] = settlements_of(handler)

    assert isinstance(found, Again)
    assert "StopIteration" in (found.error or "")


def test_a_keyboard_interrupt_raised_by_a_function_is_its_failure() -> None:
    """As some libraries do from within; Ctrl-C itself reaches the main thread only."""

    def handler(attempt: Attempt) -> None:
        raise KeyboardInterrupt

    [found] = settlements_of(handler)

    assert isinstance(found, Again)
    assert "KeyboardInterrupt" in (found.error or "")


def test_a_cancellation_that_comes_out_of_a_function_is_its_failure() -> None:
    """As from an ``asyncio.run`` of its own."""

    def handler(attempt: Attempt) -> None:
        raise asyncio.CancelledError

    [found] = settlements_of(handler)

    assert found == Again(10 * SECOND, Outcome.FAILED, "CancelledError")


def test_a_function_sees_the_context_it_was_started_in_and_keeps_its_own() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    def handler(attempt: Attempt) -> None:
        seen.append(variable.get())
        variable.set(attempt.run.key)

    async def scene() -> None:
        variable.set("outer")
        bench = Bench(handler)
        bench.take("one", "two")
        await bench.over()
        while len(seen) < 2:
            await bench.over()

    asyncio.run(scene())

    assert seen == ["outer", "outer"]


def test_a_thread_that_outlives_its_lease_keeps_its_slot_and_is_told_at_its_next_check() -> None:
    """A thread can't be cancelled: it counts against the concurrency until it really ends."""
    begun, go = threading.Event(), threading.Event()
    seen: list[str] = []

    def handler(attempt: Attempt) -> None:
        begun.set()
        assert go.wait(PATIENCE_SECONDS)
        seen.append(attempt.lost)
        attempt.check()

    async def scene() -> tuple[Bench, int]:
        bench = Bench(handler)
        bench.take("one")
        await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
        bench.member.lost = "declared dead"
        bench.executor.lose(bench.member)
        held = bench.executor.held
        bench.ended.clear()
        go.set()
        await bench.over()
        return bench, held

    bench, held = asyncio.run(scene())

    assert held == 1
    assert seen == ["declared dead"]
    assert bench.finished == []
    assert (bench.executor.held, bench.executor.attempts) == (0, {})


def test_a_thread_that_does_not_end_in_time_is_revoked_and_given_back_a_little_later() -> None:
    """Its process is about to end, and must have done so before another replica starts the run."""
    begun, go = threading.Event(), threading.Event()
    seen: list[str] = []

    def handler(attempt: Attempt) -> None:
        begun.set()
        assert go.wait(PATIENCE_SECONDS)
        seen.append(attempt.lost)

    async def scene() -> tuple[Bench, bool]:
        bench = Bench(handler)
        bench.take("one")
        await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
        bench.ended.clear()
        left = await bench.executor.drain(1_000)
        go.set()
        await bench.over()
        return bench, left

    bench, left = asyncio.run(scene())

    assert left
    assert bench.finished == [Again(EXIT_SPAN, Outcome.INTERRUPTED)]
    assert seen == ["its replica is stopping"]


def test_a_function_past_its_timeout_learns_so_and_decides_for_itself() -> None:
    """It cannot be stopped: ``remaining`` tells it, and a TimeoutError of its own then counts."""
    seen: list[bool] = []

    def handler(attempt: Attempt) -> None:
        left = attempt.remaining()
        while left is not None and left > 0:
            left = attempt.remaining()
        seen.append(True)
        raise TimeoutError

    found = settlements_of(handler, timeout=Span(1_000))

    assert seen == [True]
    assert found == [Again(10 * SECOND, Outcome.TIMED_OUT, "TimeoutError")]
