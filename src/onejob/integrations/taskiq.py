"""Taskiq: its schedule sources are asked before each send, and may say no. That is the way in.

The scheduler lives in a loop, so the store is asked in a thread. A tick that waits for another
process waits in a task of that loop, and is sent through the scheduler when its time has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from zoneinfo import ZoneInfo

import pycron
from taskiq import TaskiqScheduler
from taskiq.exceptions import ScheduledTaskCancelledError
from taskiq.schedule_sources import LabelScheduleSource
from taskiq.utils import maybe_awaitable

from onejob.core import guarding
from onejob.core.guarding import Name, Tick
from onejob.core.last_match import last_matching_minute
from onejob.core.run import error_text
from onejob.core.time import MINUTE, SECOND, Instant, Span, instant
from onejob.guards import Guard
from onejob.integrations.guard import require
from onejob.integrations.namesakes import Namesakes
from onejob.permits import Later, Permit
from onejob.runtime.events import log

LIBRARY = "taskiq"

#: Ticks that wait at once; further ones are left to whoever holds them.
WAITING_MAX: Final = 1_000


@dataclass(slots=True)
class _Sending:
    """One send, from before it was asked for. Its context finds it, and it ends with that: what
    came of it never stands for another one."""

    permit: Permit | None = None
    begun: bool = False


_sending: ContextVar[_Sending] = ContextVar("onejob_taskiq_sending")


def attach(scheduler: TaskiqScheduler, guard: Guard) -> None:
    """Stand in for each send, and for what its source says before and after it."""
    require(scheduler, "on_ready")
    for source in scheduler.sources:
        require(source, "pre_send", "post_send")
    on_ready = scheduler.on_ready
    vars(scheduler)["on_ready"] = partial(_send, guard, on_ready)
    for source in scheduler.sources:
        hook = _Hook(on_ready, source, guard)
        vars(source)["pre_send"] = partial(hook.before, source.pre_send)
        vars(source)["post_send"] = partial(hook.after, source.post_send)


async def _send(
    guard: Guard,
    on_ready: Callable[[Any, Any], Awaitable[None]],
    source: Any,
    task: Any,
    permit: Permit | None = None,
) -> None:
    """Send a task under a permit that was begun, or that its source asks for on the way.

    Whatever keeps it from being sent (the broker, ``--send-timeout``) is recorded.
    """
    sending = _Sending(permit, begun=permit is not None)
    before = _sending.set(sending)
    try:
        await on_ready(source, task)
    except BaseException as error:
        if sending.permit is not None:
            await asyncio.to_thread(_ended_by, guard, sending.permit, sending.begun, error)
        raise
    finally:
        _sending.reset(before)


def _ended_by(guard: Guard, permit: Permit, begun: bool, error: BaseException) -> None:
    if begun:
        guard.failed(permit, error)
    else:
        guard.give_back(permit, error_text(error))


class _Hook:
    """One source: what may be sent, and what waits."""

    def __init__(
        self, on_ready: Callable[[Any, Any], Awaitable[None]], source: Any, guard: Guard
    ) -> None:
        self.on_ready, self.source, self.guard = on_ready, source, guard
        self._waiting: set[asyncio.Task[None]] = set()
        self._namesakes = Namesakes(
            lambda id: id in getattr(source, "schedules", ()),
            "Give each a schedule_id beside its cron, the same in every process.",
        )

    async def before(self, pre_send: Callable[[Any], Any], task: Any) -> None:
        """Let a task be sent that this process wins, or whose turn it is now."""
        sending = _sending.get()
        if sending.begun:
            return
        await maybe_awaitable(pre_send(task))
        answer = await asyncio.to_thread(self.guard.ask, self._tick(task))
        if isinstance(answer, Permit):
            sending.permit = answer
            sending.begun = await asyncio.to_thread(self.guard.begin, answer)
            if sending.begun:
                return
            sending.permit = None
        if isinstance(answer, Later) and len(self._waiting) < WAITING_MAX:
            # A copy: the same schedule comes again while this tick waits.
            waiting = asyncio.create_task(self._wait(answer, task.model_copy()))
            self._waiting.add(waiting)
            waiting.add_done_callback(self._waiting.discard)
        raise ScheduledTaskCancelledError

    def _tick(self, task: Any) -> Tick:
        id = task.schedule_id
        if isinstance(self.source, LabelScheduleSource) and guarding.is_random(id):
            # Drawn by this process when it read the labels; all other sources keep ids in common.
            return _tick(task, self._namesakes.check(_derived(task), id))
        return _tick(task, guarding.given(LIBRARY, id))

    async def after(self, post_send: Callable[[Any], Any], task: Any) -> None:
        """Record that it was sent."""
        sending = _sending.get()
        permit, sending.permit = sending.permit, None
        if permit is not None:
            await asyncio.to_thread(self.guard.done, permit)
        await maybe_awaitable(post_send(task))

    async def _wait(self, later: Later, task: Any) -> None:
        answer: Any = later
        while isinstance(answer, Later):
            await asyncio.sleep(answer.wait / SECOND)
            try:
                answer = await asyncio.to_thread(partial(self.guard.ask, later.tick, again=True))
            except Exception:  # noqa: BLE001 - the edge of a task
                log.exception("tick %s, which waited for another process, is left", later.tick.key)
                return
        if isinstance(answer, Permit) and await asyncio.to_thread(self.guard.begin, answer):
            try:
                await _send(self.guard, self.on_ready, self.source, task, answer)
            except Exception:  # noqa: BLE001 - the edge of a task
                log.exception("tick %s could not be sent", later.tick.key)


def _tick(task: Any, name: Name) -> Tick:
    now = datetime.now(UTC)
    if task.cron is not None:
        found = last_matching_minute(partial(_matches, task), instant(now, what="now"))
        if found is not None or (task.interval is None and task.time is None):
            this_minute = Instant(instant(now, what="now") // MINUTE * MINUTE)
            return guarding.at(name, found or this_minute)
    if task.interval is not None:
        given = task.interval
        seconds = given.total_seconds() if isinstance(given, timedelta) else given
        return guarding.every(name, Span(round(seconds * SECOND)))
    aware = task.time if task.time.tzinfo else task.time.replace(tzinfo=UTC)
    return guarding.at(name, instant(aware, what="time"))


def _matches(task: Any, minute: datetime) -> bool:
    offset = task.cron_offset
    if isinstance(offset, timedelta):
        minute += offset
    elif offset:
        minute = minute.astimezone(ZoneInfo(offset))
    return bool(pycron.is_now(task.cron, minute))


def _derived(task: Any) -> Name:
    when = f"{task.cron or ''} {task.cron_offset or ''} {task.interval or ''} {task.time or ''}"
    return guarding.derived(LIBRARY, task.task_name, " ".join(when.split()), task.args, task.kwargs)
