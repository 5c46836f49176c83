"""Where jobs and schedules are defined: the decorators of an App."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

from onejob.core.cron import Fold, Gap
from onejob.core.retry import OnLoss, Retry
from onejob.core.schedule import Timing
from onejob.core.time import Duration
from onejob.errors import UsageError
from onejob.handler import Handler
from onejob.job import Job, JobDecorator, JobOptions, check_job_name
from onejob.runtime.settings import Declared, Target
from onejob.schedule import (
    CatchUpOption,
    OverlapOption,
    ScheduleOptions,
    cron,
    declare,
    every,
    zone_of,
)
from onejob.services import Services


@dataclass(frozen=True, slots=True)
class Repertoire:
    """What a replica of these definitions can do: execute, declare, and fire for data."""

    handlers: Mapping[str, Handler]
    declared: Sequence[Declared]
    targets: Mapping[str, Target]


class Definitions:
    """Jobs by name, the schedules that fire some of them, and the zones that those are shown in."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self.jobs: dict[str, Job[..., ..., Any]] = {}
        self._declared: dict[str, Declared] = {}
        self._zones: dict[str, ZoneInfo] = {}
        self._job_services = services

    def queue_names(self) -> set[str]:
        """Return the queues that these jobs use, and the default one."""
        return {"default", *(job.options.queue for job in self.jobs.values())}

    def repertoire(self, services: Services) -> Repertoire:
        """Return the jobs and schedules as they are now, as a replica needs them."""
        return Repertoire(
            {name: job.handler(services, self._zones) for name, job in self.jobs.items()},
            tuple(self._declared.values()),
            {name: job.options.target() for name, job in self.jobs.items()},
        )

    def job(
        self,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        retry: Retry = Retry(),  # noqa: B008 - a frozen value
        timeout: Duration | None = None,
        on_replica_loss: OnLoss = "retry",
        expect_within: Duration | None = None,
        log_fields: Sequence[str] = (),
        heartbeat: str | None = None,
    ) -> JobDecorator:
        """Make a function a job: ``@app.job()``. Everything is checked at once.

        Its name is the function's unless given, without ``/``; a second job of one name is refused.
        ``on_replica_loss`` says what becomes of a run whose replica died: retry, fail or unknown.
        A run that has not ended ``expect_within`` after it was wanted is told as late; a cron
        monitor at the URL ``heartbeat`` hears of each start, success and failure. No argument is
        logged but those that ``log_fields`` names.
        """
        options = JobOptions(
            queue=queue,
            priority=priority,
            retry=retry,
            timeout=timeout,
            on_replica_loss=on_replica_loss,
            expect_within=expect_within,
            log_fields=log_fields,
            heartbeat=heartbeat,
        )
        return self._decorator(name, options)

    def cron(
        self,
        expression: str,
        *,
        tz: str | ZoneInfo | None = None,
        on_gap: Gap = "shift",
        on_fold: Fold = "first",
        catch_up: CatchUpOption = "latest",
        catch_up_cap: int = 100,
        max_lateness: Duration | None = None,
        overlap: OverlapOption = "skip",
        jitter: Duration | None = None,
        args: Mapping[str, Any] | None = None,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        retry: Retry = Retry(),  # noqa: B008 - a frozen value
        timeout: Duration | None = None,
        on_replica_loss: OnLoss = "retry",
        expect_within: Duration | None = None,
        log_fields: Sequence[str] = (),
        heartbeat: str | None = None,
    ) -> JobDecorator:
        """Make a function a job that fires by a cron expression, in ``tz`` (UTC where None).

        A time that the clocks skip fires at the first instant after the gap (``on_gap="shift"``)
        or is skipped and recorded (``"skip"``); a fixed time that comes twice fires at the
        ``"first"``, the ``"second"`` or ``"both"``. See ``onejob next EXPR --tz Z --explain``.
        """
        schedule = ScheduleOptions(
            catch_up=catch_up,
            catch_up_cap=catch_up_cap,
            max_lateness=max_lateness,
            overlap=overlap,
            jitter=jitter,
            args=args,
        )
        options = JobOptions(
            queue=queue,
            priority=priority,
            retry=retry,
            timeout=timeout,
            on_replica_loss=on_replica_loss,
            expect_within=expect_within,
            log_fields=log_fields,
            heartbeat=heartbeat,
        )
        timing = cron(expression, tz, on_gap=on_gap, on_fold=on_fold)
        return self._decorator(name, options, timing, schedule)

    def every(
        self,
        interval: Duration,
        *,
        anchor: datetime | None = None,
        catch_up: CatchUpOption = "latest",
        catch_up_cap: int = 100,
        max_lateness: Duration | None = None,
        overlap: OverlapOption = "skip",
        jitter: Duration | None = None,
        args: Mapping[str, Any] | None = None,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        retry: Retry = Retry(),  # noqa: B008 - a frozen value
        timeout: Duration | None = None,
        on_replica_loss: OnLoss = "retry",
        expect_within: Duration | None = None,
        log_fields: Sequence[str] = (),
        heartbeat: str | None = None,
    ) -> JobDecorator:
        """Make a function a job that fires at ``anchor + k * interval``, for every whole k.

        The anchor is midnight UTC of 1970-01-01 unless given: one grid for all replicas, whenever
        each was started.
        """
        schedule = ScheduleOptions(
            catch_up=catch_up,
            catch_up_cap=catch_up_cap,
            max_lateness=max_lateness,
            overlap=overlap,
            jitter=jitter,
            args=args,
        )
        options = JobOptions(
            queue=queue,
            priority=priority,
            retry=retry,
            timeout=timeout,
            on_replica_loss=on_replica_loss,
            expect_within=expect_within,
            log_fields=log_fields,
            heartbeat=heartbeat,
        )
        return self._decorator(name, options, every(interval, anchor), schedule)

    def _decorator(
        self,
        name: str | None,
        options: JobOptions,
        timing: Timing | None = None,
        schedule: ScheduleOptions | None = None,
    ) -> JobDecorator:
        if name is not None:
            check_job_name(name)
        if schedule is not None:
            schedule.policy()

        def decorate(function: Callable[..., Any]) -> Job[..., ..., Any]:
            job: Job[..., ..., Any] = Job(function, name, options, self._job_services)
            if job.name in self.jobs:
                other = self.jobs[job.name].function
                raise UsageError(
                    f"a job {job.name!r} is defined already, by {other.__module__}."
                    f"{other.__qualname__}. Give one of the two a name: name='other'."
                )
            if timing is not None and schedule is not None:
                self._declared[job.name] = declare(job, timing, schedule)
                self._zones[job.name] = zone_of(timing)
            self.jobs[job.name] = job
            self._defined(job)
            return job

        return cast("JobDecorator", decorate)

    def _defined(self, job: Job[..., ..., Any]) -> None:
        """Take note of a new job."""
