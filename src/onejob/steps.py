"""A procedure written once: a generator that asks, and is told.

It yields commands for the store and calls of the user's code, and returns its answer. Who carries
it out decides the colour: :func:`carry` in the caller's thread, :func:`acarry` in the caller's
loop. An error of a step is raised inside the generator, at the ``yield`` that asked.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias, TypeVar

from onejob.commands.command import Command
from onejob.runtime.events import log

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """Call the user's code. In a loop an async function is awaited and a sync one gets a thread."""

    function: Callable[..., Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


Steps: TypeAlias = Generator[Command[Any] | Call, Any, T]
Run: TypeAlias = Callable[[Command[Any]], Any]
AsyncRun: TypeAlias = Callable[[Command[Any]], Awaitable[Any]]


def carry(steps: Steps[T], run: Run) -> T:
    """Carry the steps out in this thread."""
    reply: Any = None
    error: Exception | None = None
    while True:
        try:
            step = steps.send(reply) if error is None else steps.throw(error)
        except StopIteration as end:
            answer: T = end.value
            return answer
        reply = error = None
        try:
            if isinstance(step, Command):
                reply = run(step)
            else:
                reply = step.function(*step.args, **step.kwargs)
        except Exception as failure:  # noqa: BLE001 - raised again where the step was asked for
            error = failure


async def acarry(steps: Steps[T], run: AsyncRun, late: Run | None = None) -> T:
    """Carry the steps out in the running loop.

    A sync call in its thread cannot be cancelled with the loop's task. It goes on, and what its end
    means is then carried out in that thread, by ``late``: what it knows is not lost.
    """
    reply: Any = None
    error: Exception | None = None
    while True:
        try:
            step = steps.send(reply) if error is None else steps.throw(error)
        except StopIteration as end:
            answer: T = end.value
            return answer
        reply = error = None
        try:
            if isinstance(step, Command):
                reply = await run(step)
            elif iscoroutinefunction(step.function):
                reply = await step.function(*step.args, **step.kwargs)
            else:
                reply = await in_a_thread(step, lambda ended: _finish(steps, ended, late))
        except Exception as failure:  # noqa: BLE001 - raised again where the step was asked for
            error = failure


@dataclass(frozen=True, slots=True)
class CallEnded:
    """How a call ended. Not raised through a future, which has no place for a StopIteration."""

    reply: Any
    error: Exception | None


async def in_a_thread(call: Call, leave: Callable[[CallEnded], None]) -> Any:
    """Call in a thread; where the waiting ends before the call does, ``leave`` gets its end."""
    handing_over = threading.Lock()
    ended: CallEnded | None = None
    awaited = True

    def work() -> None:
        nonlocal ended
        if not awaited:
            return  # cancelled before it had a thread
        end = _called(call)
        with handing_over:
            ended = end
            if awaited:
                return
        leave(end)

    try:
        await asyncio.to_thread(work)
    except asyncio.CancelledError:
        with handing_over:
            awaited = False
            already = ended
        if already is not None:
            threading.Thread(target=leave, args=(already,), name="onejob-late").start()
        raise
    assert ended is not None, "the thread has ended, and said how"
    if ended.error is not None:
        raise ended.error
    return await ended.reply if isawaitable(ended.reply) else ended.reply


def _called(call: Call) -> CallEnded:
    try:
        return CallEnded(call.function(*call.args, **call.kwargs), None)
    except Exception as error:  # noqa: BLE001 - raised again where the step was asked for
        return CallEnded(None, error)


def _finish(steps: Steps[Any], ended: CallEnded, late: Run | None) -> None:
    """Carry out what follows a call that nobody awaits any more; call nobody else."""
    if late is None:
        return
    try:
        step = steps.send(ended.reply) if ended.error is None else steps.throw(ended.error)
        while isinstance(step, Command):
            try:
                reply = late(step)
            except Exception as failure:  # noqa: BLE001 - raised again where the step was asked for
                step = steps.throw(failure)
            else:
                step = steps.send(reply)
        steps.close()
    except StopIteration:
        pass
    except Exception as error:  # noqa: BLE001 - nobody is left to raise it to
        log.warning(
            "a call that outlived its attempt ended with %s: %s", type(error).__name__, error
        )
