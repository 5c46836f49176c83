"""A procedure written once: a generator that asks, and is told.

It yields commands for the store and calls of the user's code, and returns its answer. Who carries
it out decides the colour: :func:`carry` in the caller's thread, :func:`acarry` in the caller's
loop. An error of a step is raised inside the generator, at the ``yield`` that asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias, TypeVar

from onejob.commands.command import Command

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


async def acarry(steps: Steps[T], run: AsyncRun) -> T:
    """Carry the steps out in the running loop."""
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
            reply = await (run(step) if isinstance(step, Command) else _called(step))
        except Exception as failure:  # noqa: BLE001 - raised again where the step was asked for
            error = failure


async def _called(call: Call) -> Any:
    if iscoroutinefunction(call.function):
        return await call.function(*call.args, **call.kwargs)
    answer = await asyncio.to_thread(call.function, *call.args, **call.kwargs)
    return await answer if isawaitable(answer) else answer
