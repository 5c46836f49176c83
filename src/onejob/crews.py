"""Who carries a loop over many items out: threads in sync code, tasks in a loop.

A crew has ``size`` places. Who finds none waits in its queue, and can be recalled from there. What
ended waits to be collected.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any

from onejob.commands.command import Command
from onejob.core.each import EachResult
from onejob.effect import NotSent
from onejob.loop_steps import Begin, Collect, Ended, NextItems, Recall, Task, Unit
from onejob.looping import Looping
from onejob.procedure import perform
from onejob.steps import AsyncRun, Call, CallEnded, Run, acarry, carry, in_a_thread


def drive(
    looping: Looping, items: Any, run: Run, unit: Callable[[Any, str], bool] | None = None
) -> EachResult:
    """Carry a loop out in this thread and those of a crew, or its transactions by ``unit``."""
    crew = _Threads(looping, run)
    supply = iter(items)
    steps = looping.steps() if unit is None else looping.one_by_one()
    reply: Any = None
    error: Exception | None = None
    try:
        while True:
            try:
                asked = steps.send(reply) if error is None else steps.throw(error)
            except StopIteration as end:
                result: EachResult = end.value
                return result
            reply = error = None
            try:
                match asked:
                    case Command():
                        reply = run(asked)
                    case NextItems(limit):
                        reply = list(islice(supply, limit))
                    case Begin(tasks):
                        crew.begin(tasks)
                    case Collect():
                        reply = crew.collect()
                    case Recall():
                        reply = crew.recall()
                    case Unit(item, key):
                        assert unit is not None, "only one_by_one() asks for units"
                        reply = unit(item, key)
            except Exception as failure:  # noqa: BLE001 - raised again where it was asked for
                error = failure
    finally:
        crew.dismiss()


class _Threads:
    """Threads that call; each is made when it is first needed.

    They are daemons: a call that hangs does not keep a process from its end, which leaves that
    call's effect unknown, as any death does.
    """

    def __init__(self, looping: Looping, run: Run) -> None:
        self._looping, self._run = looping, run
        self._waiting: SimpleQueue[Task | None] = SimpleQueue()
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def begin(self, tasks: list[Task]) -> None:
        for task in tasks:
            self._waiting.put(task)
        wanted = min(self._looping.loop.concurrency, len(self._threads) + len(tasks))
        while len(self._threads) < wanted:
            context = contextvars.copy_context()
            work = threading.Thread(
                target=context.run, args=(self._work,), name="onejob-each", daemon=True
            )
            self._threads.append(work)
            work.start()

    def collect(self) -> tuple[list[Ended], bool]:
        """Return what has ended, waiting for the first of them where nothing has."""
        ended: list[Ended] = []
        waited = self._ended.empty()
        ended.append(self._ended.get())
        try:
            while True:
                ended.append(self._ended.get_nowait())
        except Empty:
            return ended, waited

    def recall(self) -> list[Task]:
        """Take back what nobody has begun."""
        tasks: list[Task] = []
        try:
            while True:
                task = self._waiting.get_nowait()
                if task is not None:
                    tasks.append(task)
        except Empty:
            return tasks

    def dismiss(self) -> None:
        """Let every thread end that has nothing in its hands."""
        for _ in self._threads:
            self._waiting.put(None)

    def _work(self) -> None:
        while (task := self._waiting.get()) is not None:
            value, error = None, None
            try:
                if task.request is not None:
                    value = carry(perform(task.request, self._looping.events), self._run)
                else:
                    args, kwargs = self._looping.loop.arguments(task.item, task.key)
                    value = self._looping.loop.call(*args, **kwargs)
            except BaseException as failure:  # noqa: BLE001 - told to the thread that collects
                error = failure
            self._ended.put(Ended(task, value, error))


async def adrive(
    looping: Looping,
    items: Any,
    run: AsyncRun,
    late: Run,
    unit: Callable[[Any, str], Awaitable[bool]] | None = None,
) -> EachResult:
    """Carry a loop out in the running loop.

    Cancelled, it claims nothing more, cancels the calls that can be, records what is known, and
    then ends as cancelled. A sync call in its thread goes on, and is recorded when it ends.
    """
    crew = _Tasks(looping, run, late)
    supply = _supply(items)
    steps = looping.steps() if unit is None else looping.one_by_one()
    reply: Any = None
    error: Exception | None = None
    try:
        while True:
            try:
                asked = steps.send(reply) if error is None else steps.throw(error)
            except StopIteration as end:
                result: EachResult = end.value
                return result
            reply = error = None
            try:
                match asked:
                    case Command():
                        reply = await _to_its_end(run(asked), crew)
                    case NextItems(limit):
                        reply = await _to_its_end(_taken(supply, limit), crew)
                    case Begin(tasks):
                        crew.begin(tasks)
                    case Collect():
                        reply = await crew.collect()
                    case Recall():
                        reply = crew.recall()
                    case Unit(item, key):
                        assert unit is not None, "only one_by_one() asks for units"
                        reply = await unit(item, key)
            except Exception as failure:  # noqa: BLE001 - raised again where it was asked for
                error = failure
    finally:
        crew.dismiss()


async def _to_its_end(work: Any, crew: _Tasks) -> Any:
    """Await what must be known once it has begun; a cancellation is noted, and answered after."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError as cancelled:
        if task.cancelled() or not crew.cancel(cancelled):
            raise
        return await task


class _Tasks:
    """Tasks of the running loop that call."""

    def __init__(self, looping: Looping, run: AsyncRun, late: Run) -> None:
        self._looping, self._run, self._late = looping, run, late
        self._waiting: deque[Task] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._ended: list[Ended] = []
        self._something = asyncio.Event()
        self._cancelled = False

    def begin(self, tasks: list[Task]) -> None:
        self._waiting.extend(tasks)
        self._fill()

    async def collect(self) -> tuple[list[Ended], bool]:
        """Return what has ended, waiting for the first of them where nothing has."""
        waited = not self._ended
        while not self._ended:
            self._something.clear()
            try:
                await self._something.wait()
            except asyncio.CancelledError as cancelled:
                if not self.cancel(cancelled):
                    raise
        ended, self._ended = self._ended, []
        return ended, waited

    def recall(self) -> list[Task]:
        """Take back what nobody has begun."""
        tasks = list(self._waiting)
        self._waiting.clear()
        return tasks

    def cancel(self, cancelled: BaseException) -> bool:
        """Begin to end; False where that was asked before: then end at once."""
        if self._cancelled:
            return False
        self._cancelled = True
        self._looping.stop = self._looping.stop or cancelled
        self.dismiss()
        return True

    def dismiss(self) -> None:
        """Cancel every call that can be."""
        for task in self._running:
            task.cancel()

    def _fill(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._running) < self._looping.loop.concurrency:
            task = self._waiting.popleft()
            call = loop.create_task(self._work(task))
            self._running.add(call)
            call.add_done_callback(partial(self._over, task))

    def _over(self, task: Task, call: asyncio.Task[None]) -> None:
        self._running.discard(call)
        if call.cancelled():  # before its first step: nothing has been called
            self._ended.append(Ended(task, None, NotSent("cancelled before its call")))
            self._something.set()
        if not self._cancelled:
            self._fill()

    async def _work(self, task: Task) -> None:
        value, error = None, None
        try:
            if task.request is not None:
                steps = perform(task.request, self._looping.events)
                value = await acarry(steps, self._run, late=self._late)
            else:
                args, kwargs = self._looping.loop.arguments(task.item, task.key)
                value = await self._called(task, Call(self._looping.loop.call, args, kwargs))
        except BaseException as failure:  # noqa: BLE001 - told to the task that collects
            error = failure
        self._ended.append(Ended(task, value, error))
        self._something.set()

    async def _called(self, task: Task, call: Call) -> Any:
        if self._looping.loop.is_async:
            return await call.function(*call.args, **call.kwargs)
        return await in_a_thread(call, lambda ended: self._left(task, ended))

    def _left(self, task: Task, ended: CallEnded) -> None:
        """Record, in its own thread, a call that went on after its loop was cancelled."""
        record_late(self._looping, Ended(task, ended.reply, ended.error), self._late)


def record_late(looping: Looping, ended: Ended, run: Run) -> None:
    """Carry out what follows from a call that nobody awaits any more."""
    try:
        run(looping.afterwards(ended))
    except Exception as error:  # noqa: BLE001 - nobody is left to raise it to
        what = f"{type(error).__name__}: {error}"
        looping.events.emit("store.trouble", doing="record", error=what)


def _supply(items: Any) -> Iterator[Any] | AsyncIterator[Any]:
    supply: Iterator[Any] | AsyncIterator[Any] = (
        aiter(items) if hasattr(items, "__aiter__") else iter(items)
    )
    return supply


async def _taken(supply: Iterator[Any] | AsyncIterator[Any], limit: int) -> list[Any]:
    if isinstance(supply, Iterator):
        return list(islice(supply, limit))
    taken: list[Any] = []
    async for item in supply:
        taken.append(item)
        if len(taken) == limit:
            break
    return taken
