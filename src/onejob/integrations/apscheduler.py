"""APScheduler 3, and Flask-APScheduler, which wraps one.

The scheduler looks up an executor for each due job and submits its run times to it. The guard
stands in for that executor: run times go in, and what was won goes on. A job runs in this very
process, so its claim is held until its end has been heard of: a process that is killed in the
middle of a job leaves an unknown tick, not one that looks done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MISSED,
    EVENT_SCHEDULER_SHUTDOWN,
)
from apscheduler.executors.base import MaxInstancesReachedError
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.triggers.combining import BaseCombiningTrigger
from apscheduler.triggers.interval import IntervalTrigger

from onejob.core import guarding
from onejob.core.guarding import Name, Tick
from onejob.core.time import Span, instant
from onejob.errors import UsageError
from onejob.guards import Guard
from onejob.integrations.guard import require
from onejob.integrations.namesakes import Namesakes
from onejob.permits import Permit
from onejob.runtime.events import log

LIBRARY = "apscheduler"

#: Those whose way of submitting was tried: from a thread of their own, or from their loop.
TRIED = {"BackgroundScheduler", "BlockingScheduler", "AsyncIOScheduler"}

#: What runs: (job store, job, run time).
Place: TypeAlias = tuple[str | None, str, datetime]

_MICROSECOND = timedelta(microseconds=1)


def attach(scheduler: BaseScheduler, guard: Guard) -> None:
    """Stand in for the executors of this scheduler."""
    require(scheduler, "_lookup_executor", "add_listener", "get_jobs", "get_job")
    kinds = {base.__name__ for base in type(scheduler).__mro__ if base.__module__ != "builtins"}
    foreign = {"GeventScheduler", "QtScheduler", "TornadoScheduler", "TwistedScheduler"}
    if not kinds & TRIED or kinds & foreign:
        raise UsageError(
            f"app.guard() was never tried with {type(scheduler).__name__}. "
            f"Use one of {', '.join(sorted(TRIED))}."
        )
    hook = _Hook(scheduler, guard, loops="AsyncIOScheduler" in kinds)
    for job in scheduler.get_jobs():
        hook.name(job)
    guard.in_a_thread()
    scheduler.add_listener(hook.ended, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR | EVENT_JOB_MISSED)
    scheduler.add_listener(lambda _: guard.room.clear(), EVENT_SCHEDULER_SHUTDOWN)
    vars(scheduler)["_lookup_executor"] = partial(hook.executor, scheduler._lookup_executor)


class _Hook:
    """The names of one scheduler's jobs, and what runs of them in this process.

    One that lives in a loop must not wait for the store there: its ticks are claimed, and their
    ends recorded, in a thread aside.
    """

    def __init__(self, scheduler: Any, guard: Guard, *, loops: bool) -> None:
        self.scheduler, self.guard, self.loops = scheduler, guard, loops
        self._lock = threading.Lock()
        self._running: dict[Place, Permit] = {}
        self._namesakes = Namesakes(
            lambda id: scheduler.get_job(id) is not None,
            "Say id= when you add them, the same in every process.",
        )
        self._aside: ThreadPoolExecutor | None = None

    def executor(self, lookup: Callable[[str], Any], alias: str) -> _Executor:
        """Return what stands in for the executor that the scheduler looks up."""
        real = lookup(alias)
        if not isinstance(vars(real).get("_run_job_error"), partial):
            # What breaks an executor (a killed pool, a cancelled task) comes without an event.
            vars(real)["_run_job_error"] = partial(self._broken, real._run_job_error)
        return _Executor(self, real)

    def submit(self, executor: Any, job: Any, run_times: Sequence[datetime]) -> None:
        """Submit what this process wins; keep the rest in mind."""
        if executor._instances.get(job.id, 0) >= job.max_instances:
            # Before the claim: another process may be free to run it.
            raise MaxInstancesReachedError(job)
        name = self.name(job)
        for run_time in run_times:
            tick = _tick(name, job.trigger, run_time)
            self._where_it_may_wait(partial(self._fire, executor, job, run_time, tick))

    def ended(self, event: Any) -> None:
        """Record how a run of a job ended. One that raised has run."""
        missed = event.code == EVENT_JOB_MISSED
        place = (event.jobstore, event.job_id, event.scheduled_run_time)
        how = self._missed if missed else self.guard.done
        self._where_it_may_wait(partial(self._settle, place, how))

    def _fire(
        self, executor: Any, job: Any, run_time: datetime, tick: Tick, late: bool = False
    ) -> None:
        again = partial(self._fire, executor, job, run_time, tick, True)
        permit = self.guard.admit(tick, again, hold=True)
        if permit is None:
            return
        place = (job._jobstore_alias, job.id, run_time)
        with self._lock:
            self._running[place] = permit
        submit = partial(self._submit, executor, _whenever(job) if late else job, place)
        if self.loops:
            self.scheduler._eventloop.call_soon_threadsafe(submit)
        else:
            submit()

    def _submit(self, executor: Any, job: Any, place: Place) -> None:
        try:
            executor.submit_job(job, [place[2]])
        except Exception as error:  # noqa: BLE001 - it did not fire here, whatever the reason
            log.warning("job %s was not submitted, and is left to others: %s", job.id, error)
            give_back = partial(self.guard.give_back, why=repr(error))
            self._where_it_may_wait(partial(self._settle, place, give_back))

    def _missed(self, permit: Permit) -> None:
        self.guard.give_back(permit, "it came later than misfire_grace_time allows")

    def _broken(self, report: Callable[..., None], job_id: str, error: Any, *more: Any) -> None:
        report(job_id, error, *more)
        with self._lock:
            places = [place for place in self._running if place[1] == job_id]
        for place in places:
            how = partial(self.guard.failed, error=error)
            self._where_it_may_wait(partial(self._settle, place, how))

    def _settle(self, place: Place, how: Callable[[Permit], object]) -> None:
        with self._lock:
            permit = self._running.pop(place, None)
        if permit is not None:
            how(permit)

    def _where_it_may_wait(self, work: Callable[[], object]) -> None:
        if not self.loops:
            work()
            return
        with self._lock:
            if self._aside is None:
                self._aside = ThreadPoolExecutor(1, thread_name_prefix="onejob-guard-aside")
            self._aside.submit(_logged, work)

    def name(self, job: Any) -> Name:
        """Return what a job is called in every process, or raise UsageError where it can't be."""
        _refuse_what_has_no_fire_times(job)
        if not guarding.is_random(job.id):
            return guarding.given(LIBRARY, job.id)
        name = guarding.derived(LIBRARY, job.func, _described(job.trigger), job.args, job.kwargs)
        return self._namesakes.check(name, job.id)


class _Executor:
    """Stands in for an executor where the scheduler submits, and only there."""

    def __init__(self, hook: _Hook, real: Any) -> None:
        self._hook, self._real = hook, real

    def submit_job(self, job: Any, run_times: Sequence[datetime]) -> None:
        self._hook.submit(self._real, job, run_times)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _tick(name: Name, trigger: Any, run_time: datetime) -> Tick:
    if isinstance(trigger, IntervalTrigger):
        late = Span(max(0, (datetime.now(UTC) - run_time) // _MICROSECOND))
        return guarding.every(name, Span(trigger.interval // _MICROSECOND), late=late)
    fire_time, period = _nominal(trigger, run_time)
    return guarding.at(name, instant(fire_time, what="run time"), period=period)


def _nominal(trigger: Any, run_time: datetime) -> tuple[datetime, Span]:
    """Return the fire time that is meant, which is the run time less its jitter, and the period."""
    jitter = getattr(trigger, "jitter", None)
    if jitter:
        exact = object.__new__(type(trigger))
        exact.__setstate__(trigger.__getstate__())
        exact.jitter = None
        earliest = run_time - timedelta(seconds=jitter)
        return _nominal(exact, exact.get_next_fire_time(None, earliest) or run_time)
    following = trigger.get_next_fire_time(run_time, run_time)
    period = timedelta(0) if following is None else following - run_time
    return run_time, Span(period // _MICROSECOND)


def _refuse_what_has_no_fire_times(job: Any) -> None:
    trigger = job.trigger
    if isinstance(trigger, BaseCombiningTrigger) and _has_phase(trigger):
        raise UsageError(
            f"job {job.id!r} combines an interval with other triggers. Each process counts an "
            "interval from its own start, so these ticks have nothing in common. Make it two jobs."
        )
    if isinstance(trigger, IntervalTrigger) and timedelta(seconds=trigger.jitter or 0) > (
        trigger.interval / 2
    ):
        raise UsageError(
            f"job {job.id!r} has a jitter of {trigger.jitter} s on an interval of "
            f"{trigger.interval}. Each process draws its own, so hardly a tick would be a whole "
            "interval from the last. Give a jitter of half the interval at most, or none: one "
            "process fires each tick."
        )


def _has_phase(trigger: Any) -> bool:
    if isinstance(trigger, BaseCombiningTrigger):
        return any(_has_phase(one) for one in trigger.triggers)
    return isinstance(trigger, IntervalTrigger)


def _described(trigger: Any) -> str:
    zone = getattr(trigger, "timezone", None)
    return str(trigger) if zone is None else f"{trigger} {zone}"


def _whenever(job: Any) -> Any:
    """Return the job for a tick that is late because its first holder died: it may be."""
    late = object.__new__(type(job))
    for slot in type(job).__slots__:
        if slot != "__weakref__" and hasattr(job, slot):
            setattr(late, slot, getattr(job, slot))
    late.misfire_grace_time = None
    return late


def _logged(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:  # noqa: BLE001 - a thread of nobody else
        log.exception("a tick could not be guarded, and was not fired")
