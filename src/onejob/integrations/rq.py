"""RQ's cron: the module ``rq.cron``, for what ``rq cron`` starts, or one ``CronScheduler``.

A scheduler enqueues the cron jobs that are due by their ``enqueue``. That method does not know
which scheduler called it, so ``enqueue_jobs`` notes that first. Both are replaced in their classes,
once in a process, and do what they did before wherever nobody asked for a guard.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import wraps
from typing import Any

import rq.cron
from croniter import croniter
from rq.cron import CronJob, CronScheduler

from onejob.core import guarding
from onejob.core.guarding import Name, Tick
from onejob.core.time import SECOND, Span, instant
from onejob.guards import Guard
from onejob.integrations.guard import MARK, require
from onejob.integrations.namesakes import Namesakes

LIBRARY = "rq"

HOOK = f"{MARK}_hook"

_MICROSECOND = timedelta(microseconds=1)

_in_charge: ContextVar[_Hook | None] = ContextVar("onejob_rq_guard", default=None)


def attach(target: Any, guard: Guard) -> None:
    """Guard one scheduler, or all of this process."""
    require(CronScheduler, "enqueue_jobs", "calculate_sleep_interval")
    require(CronJob, "enqueue")
    vars(target)[HOOK] = _Hook(guard)
    if not hasattr(CronJob.enqueue, "__wrapped__"):
        _replace(rq.cron)


def _hook_of(scheduler: Any) -> _Hook | None:
    return vars(scheduler).get(HOOK) or vars(rq.cron).get(HOOK)


def _replace(library: Any) -> None:
    enqueue, enqueue_jobs = CronJob.enqueue, CronScheduler.enqueue_jobs
    calculate = CronScheduler.calculate_sleep_interval

    @wraps(enqueue)
    def guarded_enqueue(job: Any, connection: Any) -> Any:
        hook = _in_charge.get()
        if hook is None:
            return enqueue(job, connection)
        enqueued: list[Any] = []
        hook.guard.attempt(hook.tick(job), lambda: enqueued.append(enqueue(job, connection)))
        return enqueued[0] if enqueued else None

    @wraps(enqueue_jobs)
    def guarded_enqueue_jobs(scheduler: Any) -> Any:
        hook = _hook_of(scheduler)
        if hook is None:
            return enqueue_jobs(scheduler)
        hook.jobs = scheduler.get_jobs()
        hook.guard.room.look()
        before = _in_charge.set(hook)
        try:
            return enqueue_jobs(scheduler)
        finally:
            _in_charge.reset(before)

    @wraps(calculate)
    def guarded_sleep(scheduler: Any) -> float:
        seconds: float = calculate(scheduler)
        hook = _hook_of(scheduler)
        soonest = None if hook is None else hook.guard.room.seconds()
        return seconds if soonest is None else min(seconds, soonest)

    library.CronJob.enqueue = guarded_enqueue
    library.CronScheduler.enqueue_jobs = guarded_enqueue_jobs
    library.CronScheduler.calculate_sleep_interval = guarded_sleep


class _Hook:
    """One guard, and the names of the jobs that it guards."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.jobs: list[Any] = []
        self._namesakes = Namesakes(self._alive, "Say name= when you register them.")

    def _alive(self, schedule: Hashable) -> bool:
        return any(id(job) == schedule for job in self.jobs)

    def tick(self, job: Any) -> Tick:
        """Return the tick for which a job is about to be enqueued."""
        name = self._namesakes.check(_name(job), id(job))
        if job.cron is None:
            return guarding.every(name, Span(job.interval * SECOND))
        fire_time = job.next_enqueue_time
        wall = fire_time.astimezone().replace(tzinfo=None)
        period = croniter(job.cron, wall).get_next(datetime) - wall
        at = instant(fire_time, what="next_enqueue_time")
        return guarding.at(name, at, period=Span(period // _MICROSECOND))


def _name(job: Any) -> Name:
    name = getattr(job, "name", job.func_name)
    if name != job.func_name:
        return guarding.given(LIBRARY, name)
    when = f"{job.cron or f'every {job.interval} s'} to {job.queue_name}"
    return guarding.derived(LIBRARY, job.func, when, job.args, job.kwargs)
