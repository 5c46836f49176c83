"""Schedules: a cron expression or an interval, declared in code next to the job that it fires.

Intervals stand on one grid for all replicas: anchor + k * interval, from midnight UTC of
1970-01-01 unless another anchor is given. When a process was started shifts nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

from onejob.commands import schedules, views
from onejob.commands.command import as_json
from onejob.commands.views import ScheduleView
from onejob.core.cron import Cron, Fold, Gap
from onejob.core.every import Every
from onejob.core.names import check_name
from onejob.core.schedule import CatchUp, Overlap, Policy
from onejob.core.time import SECOND, Duration, Instant, Span, duration, instant, moment, zone
from onejob.core.timing import Timing, stored
from onejob.counts import check_count
from onejob.errors import UsageError
from onejob.job import Job
from onejob.runtime.settings import Declared
from onejob.services import Services
from onejob.steps import Steps, acarry, carry

CatchUpOption: TypeAlias = Literal["latest", "all", "none"]
OverlapOption: TypeAlias = Literal["skip", "allow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """What happens to fire times that were missed, and to those that come too soon."""

    catch_up: CatchUpOption = "latest"
    catch_up_cap: int = 100
    max_lateness: Duration | None = None
    overlap: OverlapOption = "skip"
    args: Mapping[str, Any] | None = None

    def policy(self) -> Policy:
        """Check them, and return them as the core reads them."""
        if self.catch_up not in get_args(CatchUpOption):
            raise UsageError(f"catch_up={self.catch_up!r} must be 'latest', 'all' or 'none'.")
        if self.overlap not in get_args(OverlapOption):
            raise UsageError(f"overlap={self.overlap!r} must be 'skip' or 'allow'.")
        late = self.max_lateness
        return Policy(
            catch_up=CatchUp(self.catch_up),
            catch_up_cap=check_count(self.catch_up_cap, what="catch_up_cap"),
            max_lateness=None if late is None else duration(late, what="max_lateness"),
            overlap=Overlap(self.overlap),
        )


def cron(
    expression: str, tz: str | ZoneInfo | None, *, on_gap: Gap = "shift", on_fold: Fold = "first"
) -> Cron:
    """Read a cron expression and its policies; UsageError says what is wrong."""
    if not isinstance(expression, str):
        raise UsageError(f"a cron expression is text, such as '0 2 * * *', not {expression!r}.")
    return Cron.parse(expression, tz, on_gap=on_gap, on_fold=on_fold)


def every(interval: Duration, anchor: datetime | None) -> Every:
    """Read an interval, of a second at least, and its anchor."""
    span = duration(interval, what="interval", least=Span(SECOND))
    return Every(span, Instant(0) if anchor is None else instant(anchor, what="anchor"))


def declare(job: Job[Any, Any, Any], timing: Timing, options: ScheduleOptions) -> Declared:
    """Return the schedule that fires ``job``, under the job's name.

    Its arguments are checked now: a fire time is no moment to find out that they do not fit.
    """
    policy = options.policy()
    asked: object = {} if options.args is None else options.args
    if not isinstance(asked, Mapping):
        raise UsageError(f"args={asked!r} must be the arguments by name: args={{'tenant': 42}}.")
    given = dict(asked)
    bound = job.signature.bind((), given)
    # Hints are resolved only where there is a value: a class may be defined after its job.
    args = job.signature.encode(bound) if bound else "{}"
    timing_text = as_json(stored(timing))
    policy_text = as_json(
        {
            "catch_up": policy.catch_up.value,
            "catch_up_cap": policy.catch_up_cap,
            "max_lateness": policy.max_lateness,
            "overlap": policy.overlap.value,
        }
    )
    queue, priority = job.options.queue, job.options.priority
    on_loss = job.options.on_replica_loss
    decisive = (job.name, timing_text, policy_text, args, queue, priority, on_loss)
    return Declared(
        name=job.name,
        job=job.name,
        timing=timing,
        policy=policy,
        definition=sha256(as_json(decisive).encode()).hexdigest(),
        timing_text=timing_text,
        policy_text=policy_text,
        args=args,
        queue=queue,
        priority=priority,
        on_loss=on_loss,
    )


def zone_of(timing: Timing) -> ZoneInfo:
    """Return the zone in which a schedule's fire times are shown."""
    return zone(timing.tz if isinstance(timing, Cron) else None, "tz")


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """A schedule as the store has it.

    ``declared`` counts the live replicas whose code has this very definition; ``broken`` says why
    no next fire time could be computed.
    """

    name: str
    job: str
    timing: Mapping[str, Any]
    policy: Mapping[str, Any]
    last: datetime | None
    next_fire: datetime | None
    paused: bool
    broken: str | None
    declared: int
    missed: int


_List: TypeAlias = list[ScheduleInfo]


class Schedules:
    """``app.schedules``: look at them, pause and resume them."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services

    def list(self) -> _List:
        """Read every schedule in the store, by name."""
        return carry(_list(), self._services().run())

    async def alist(self) -> _List:
        """The same in a loop."""
        return await acarry(_list(), self._services().arun())

    def get(self, name: str) -> ScheduleInfo | None:
        """Read one schedule; None where there is none of that name."""
        return carry(_get(name), self._services().run())

    async def aget(self, name: str) -> ScheduleInfo | None:
        """The same in a loop."""
        return await acarry(_get(name), self._services().arun())

    def pause(self, name: str) -> ScheduleInfo:
        """Let no fire time of this schedule become a run, in the whole fleet, until resumed.

        Raises LookupError where there is no schedule of that name.
        """
        return carry(_pause(name, True), self._services().run())

    async def apause(self, name: str) -> ScheduleInfo:
        """The same in a loop."""
        return await acarry(_pause(name, True), self._services().arun())

    def resume(self, name: str) -> ScheduleInfo:
        """Let it fire again. Raises LookupError where there is no schedule of that name."""
        return carry(_pause(name, False), self._services().run())

    async def aresume(self, name: str) -> ScheduleInfo:
        """The same in a loop."""
        return await acarry(_pause(name, False), self._services().arun())


def _list() -> Steps[_List]:
    found: tuple[ScheduleView, ...] = yield views.schedules()
    return [_info(view) for view in found]


def _get(name: str) -> Steps[ScheduleInfo | None]:
    check_name(name, what="schedule name")
    found = yield from _list()
    return next((schedule for schedule in found if schedule.name == name), None)


def _pause(name: str, paused: bool) -> Steps[ScheduleInfo]:
    check_name(name, what="schedule name")
    known = yield schedules.pause(name, paused=paused)
    schedule = (yield from _get(name)) if known else None
    if schedule is None:
        raise LookupError(f"no schedule {name!r} in the store; its replicas put it there.")
    return schedule


def _info(view: ScheduleView) -> ScheduleInfo:
    return ScheduleInfo(
        name=view.name,
        job=view.job,
        timing=json.loads(view.timing),
        policy=json.loads(view.policy),
        last=moment(Instant(view.last)) if view.last else None,
        next_fire=moment(Instant(view.next_fire)) if view.next_fire else None,
        paused=bool(view.paused),
        broken=view.broken or None,
        declared=view.declared,
        missed=view.missed,
    )
