"""The ``schedule`` library: the module itself, which has one scheduler, or a ``Scheduler``.

It runs a job in the loop of whoever calls ``run_pending``, and only then works out its next time.
So a job that was refused is rescheduled by the guard, or it would be due again at once. What waits
for another process is looked at in the same loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import timedelta
from functools import partial
from typing import Any

from onejob.core import guarding
from onejob.core.guarding import Name, Tick
from onejob.core.time import HOUR, Span, instant
from onejob.guards import Guard
from onejob.integrations.guard import require
from onejob.integrations.namesakes import Namesakes
from onejob.permits import Permit

LIBRARY = "schedule"

_MICROSECOND = timedelta(microseconds=1)


def attach(scheduler: Any, guard: Guard) -> None:
    """Stand in where the scheduler runs one job, and where it looks for those that are due."""
    require(scheduler, "_run_job", "run_pending", "cancel_job")
    hook = _Hook(scheduler, guard, scheduler._run_job)
    vars(scheduler)["_run_job"] = hook.run
    vars(scheduler)["run_pending"] = partial(hook.pending, scheduler.run_pending)


class _Hook:
    """One scheduler, its guard, and how it runs a job by itself."""

    def __init__(self, scheduler: Any, guard: Guard, run: Callable[[Any], None]) -> None:
        self.scheduler, self.guard, self._run = scheduler, guard, run
        self._namesakes = Namesakes(
            self._there, "Give each an argument that tells them apart, or a function of its own."
        )

    def _there(self, schedule: Hashable) -> bool:
        return any(id(job) == schedule for job in self.scheduler.jobs)

    def pending(self, run_pending: Callable[[], None]) -> None:
        """Look at what waits, then do what is due."""
        self.guard.room.look()
        run_pending()

    def run(self, job: Any) -> None:
        """Run a job that is due, if this process wins its tick. ``run_all`` runs what is not due:
        somebody asked for it, here and now."""
        if not job.should_run:
            self._run(job)
            return
        tick = _tick(self._namesakes.check(_name(job), id(job)), job)
        permit = self.guard.admit(tick, partial(self._late, job, tick), hold=True)
        if permit is None:
            self._next(job)
        else:
            self._fire(permit, job)

    def _late(self, job: Any, tick: Tick) -> None:
        permit = self.guard.admit(tick, partial(self._late, job, tick), hold=True)
        if permit is None:
            return
        if job in self.scheduler.jobs:
            self._fire(permit, job)
        else:
            self.guard.give_back(permit, "the job was cancelled here")

    def _fire(self, permit: Permit, job: Any) -> None:
        """A job that raises has run: this library lets the error out, and so do we."""
        try:
            self._run(job)
        finally:
            self.guard.done(permit)

    def _next(self, job: Any) -> None:
        job._schedule_next_run()
        if job._is_overdue(job.next_run):
            self.scheduler.cancel_job(job)


def _name(job: Any) -> Name:
    called = job.job_func
    to = "" if job.latest is None else f" to {job.latest}"
    on = f" {job.start_day}" if job.start_day else ""
    at = f" at {job.at_time} {job.at_time_zone or ''}".rstrip() if job.at_time else ""
    when = f"every {job.interval}{to} {job.unit}{on}{at}"
    return guarding.derived(LIBRARY, called.func, when, called.args, called.keywords)


def _tick(name: Name, job: Any) -> Tick:
    period = Span(timedelta(**{job.unit: job.interval}) // _MICROSECOND)
    if job.at_time is not None and job.interval == 1 and job.latest is None:
        # A time on the wall, the same in every process. Without a zone it is this machine's.
        return guarding.at(name, instant(job.next_run.astimezone(), what="next_run"), period=period)
    # Counted on the wall from each process's start: a day may have 23 hours.
    by_days = job.unit in ("days", "weeks")
    return guarding.every(name, period, jitter=Span(HOUR if by_days else 0))
