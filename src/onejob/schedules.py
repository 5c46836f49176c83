"""``app.schedules``: what fires when, declared in code or put as data; pause, resume, trigger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from onejob.commands import views
from onejob.commands.views import ScheduleView
from onejob.core.cron import Fold, Gap
from onejob.core.names import check_name
from onejob.core.time import SECOND, Duration, Instant, moment
from onejob.counts import LISTED_MAX, check_count
from onejob.job import Job
from onejob.pausing import delete, pause, resume, trigger
from onejob.placing import Put, Wanted, put_all, wanted, wanted_many
from onejob.queue import Enqueued
from onejob.runtime.settings import Declared
from onejob.schedule import CatchUpOption, OverlapOption
from onejob.services import Services
from onejob.steps import Steps, acarry, carry


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """A schedule as the store has it.

    ``declared`` counts the live replicas that fire it: those whose code has this very definition,
    or, for one that was put as data (``dynamic``), those that know its job. Where there is none it
    is orphaned, and does not fire. ``broken`` says why no next fire time could be computed.
    ``missed`` counts fire times that became no run; ``lateness`` is how late, in seconds, the
    newest was ticked, or how long the next is overdue; ``late`` counts runs that should have ended.
    """

    name: str
    job: str
    timing: Mapping[str, Any]
    policy: Mapping[str, Any]
    args: Mapping[str, Any]
    last: datetime | None
    next_fire: datetime | None
    paused: bool
    broken: str | None
    dynamic: bool
    declared: int
    missed: int
    lateness: float
    late: int

    @property
    def orphaned(self) -> bool:
        """Tell whether no live replica fires it."""
        return self.declared == 0


_List: TypeAlias = list[ScheduleInfo]


class Schedules:
    """``app.schedules``: look at them, put them, pause and resume them.

    ``within=`` takes your connection: then it happens with your transaction, or not at all.
    """

    def __init__(
        self,
        services: Callable[[], Services],
        jobs: Mapping[str, Job[..., ..., Any]],
        declared: Mapping[str, Declared],
    ) -> None:
        self._services, self._jobs, self._declared = services, jobs, declared

    def put(
        self,
        name: str,
        *,
        job: Job[..., ..., Any] | str,
        cron: str | None = None,
        every: Duration | None = None,
        at: datetime | None = None,
        tz: str | ZoneInfo | None = None,
        anchor: datetime | None = None,
        on_gap: Gap = "shift",
        on_fold: Fold = "first",
        args: Mapping[str, Any] | None = None,
        catch_up: CatchUpOption = "latest",
        catch_up_cap: int = 100,
        max_lateness: Duration | None = None,
        overlap: OverlapOption = "skip",
        jitter: Duration | None = None,
        within: object = None,
    ) -> ScheduleInfo:
        """Store a schedule as data: any replica that knows ``job`` fires it.

        Give one of ``cron``, ``every`` and ``at``. The same again changes nothing; another job or
        timing starts anew from now, anything else keeps the next fire time. Raises UsageError for a
        name that code declares.
        """
        one = wanted(
            self._jobs,
            self._declared,
            name=name,
            job=job,
            cron=cron,
            every=every,
            at=at,
            tz=tz,
            anchor=anchor,
            on_gap=on_gap,
            on_fold=on_fold,
            args=args,
            catch_up=catch_up,
            catch_up_cap=catch_up_cap,
            max_lateness=max_lateness,
            overlap=overlap,
            jitter=jitter,
        )
        services = self._services()
        info = carry(_put(one), services.here(within))
        services.wake()
        return info

    async def aput(
        self,
        name: str,
        *,
        job: Job[..., ..., Any] | str,
        cron: str | None = None,
        every: Duration | None = None,
        at: datetime | None = None,
        tz: str | ZoneInfo | None = None,
        anchor: datetime | None = None,
        on_gap: Gap = "shift",
        on_fold: Fold = "first",
        args: Mapping[str, Any] | None = None,
        catch_up: CatchUpOption = "latest",
        catch_up_cap: int = 100,
        max_lateness: Duration | None = None,
        overlap: OverlapOption = "skip",
        jitter: Duration | None = None,
        within: object = None,
    ) -> ScheduleInfo:
        """The same in a loop."""
        one = wanted(
            self._jobs,
            self._declared,
            name=name,
            job=job,
            cron=cron,
            every=every,
            at=at,
            tz=tz,
            anchor=anchor,
            on_gap=on_gap,
            on_fold=on_fold,
            args=args,
            catch_up=catch_up,
            catch_up_cap=catch_up_cap,
            max_lateness=max_lateness,
            overlap=overlap,
            jitter=jitter,
        )
        services = self._services()
        info = await acarry(_put(one), services.ahere(within))
        services.wake()
        return info

    def put_many(self, items: Iterable[Mapping[str, Any]], *, within: object = None) -> Put:
        """Store many schedules, each from the arguments of :meth:`put` by name.

        Every item is checked before anything is sent. A thousand at a time are stored together;
        with ``within=`` all of them are.
        """
        batch = wanted_many(self._jobs, self._declared, items)
        services = self._services()
        done = carry(put_all(batch), services.here(within))
        services.wake()
        return done

    async def aput_many(self, items: Iterable[Mapping[str, Any]], *, within: object = None) -> Put:
        """The same in a loop."""
        batch = wanted_many(self._jobs, self._declared, items)
        services = self._services()
        done = await acarry(put_all(batch), services.ahere(within))
        services.wake()
        return done

    def list(
        self, *, prefix: str = "", job: str = "", after: str = "", limit: int = 1_000
    ) -> _List:
        """Read schedules by name, up to ``limit`` of them from behind the name ``after``."""
        steps = _list(prefix=prefix, job=job, after=after, limit=limit)
        return carry(steps, self._services().here())

    async def alist(
        self, *, prefix: str = "", job: str = "", after: str = "", limit: int = 1_000
    ) -> _List:
        """The same in a loop."""
        steps = _list(prefix=prefix, job=job, after=after, limit=limit)
        return await acarry(steps, self._services().ahere())

    def get(self, name: str, *, within: object = None) -> ScheduleInfo | None:
        """Read one schedule; None where there is none of that name."""
        return carry(_get(name), self._services().here(within))

    async def aget(self, name: str, *, within: object = None) -> ScheduleInfo | None:
        """The same in a loop."""
        return await acarry(_get(name), self._services().ahere(within))

    def pause(self, name: str, *, within: object = None) -> ScheduleInfo:
        """Let no fire time of this schedule become a run, in the whole fleet, until resumed.

        Raises LookupError where there is no schedule of that name.
        """
        return carry(_then_get(name, pause(name)), self._services().here(within))

    async def apause(self, name: str, *, within: object = None) -> ScheduleInfo:
        """The same in a loop."""
        return await acarry(_then_get(name, pause(name)), self._services().ahere(within))

    def resume(self, name: str, *, within: object = None) -> ScheduleInfo:
        """Let it fire again, from the next fire time after now.

        Fire times that have passed while it was paused are recorded as missed, each counted and the
        newest listed with the reason "paused"; none is caught up. Raises LookupError where there is
        no schedule of that name.
        """
        return carry(_then_get(name, resume(name)), self._services().here(within))

    async def aresume(self, name: str, *, within: object = None) -> ScheduleInfo:
        """The same in a loop."""
        return await acarry(_then_get(name, resume(name)), self._services().ahere(within))

    def delete(self, name: str, *, within: object = None) -> bool:
        """Delete a schedule; its runs stay. False: there was none of that name.

        Raises UsageError for one that live code declares: its next replica would put it back.
        """
        return carry(delete(name), self._services().here(within))

    async def adelete(self, name: str, *, within: object = None) -> bool:
        """The same in a loop."""
        return await acarry(delete(name), self._services().ahere(within))

    def trigger(self, name: str, *, key: str | None = None, within: object = None) -> Enqueued:
        """Make a run of this schedule's job with its arguments, now, beside its fire times.

        A known ``key`` makes none; without one a fresh key is made. It works while the schedule is
        paused. Raises LookupError where there is no schedule of that name.
        """
        services = self._services()
        answer = carry(trigger(name, key, self._jobs), services.here(within))
        services.wake()
        return answer

    async def atrigger(
        self, name: str, *, key: str | None = None, within: object = None
    ) -> Enqueued:
        """The same in a loop."""
        services = self._services()
        answer = await acarry(trigger(name, key, self._jobs), services.ahere(within))
        services.wake()
        return answer


def _put(one: Wanted) -> Steps[ScheduleInfo]:
    yield from put_all([one])
    info = yield from _get(one.name)
    if info is None:
        raise LookupError(f"schedule {one.name!r} was deleted while it was put. Put it again.")
    return info


def _then_get(name: str, act: Steps[None]) -> Steps[ScheduleInfo]:
    yield from act
    info = yield from _get(name)
    if info is None:
        raise LookupError(f"no schedule {name!r} in the store any more.")
    return info


def _list(*, prefix: str, job: str, after: str, limit: int) -> Steps[_List]:
    check_count(limit, what="limit", most=LISTED_MAX)
    for what, name in (("prefix", prefix), ("job", job), ("after", after)):
        if name != "":
            check_name(name, what=what)
    found: tuple[ScheduleView, ...] = yield views.schedules(
        prefix=prefix, job=job, after=after, limit=limit
    )
    return [_info(view) for view in found]


def _get(name: str) -> Steps[ScheduleInfo | None]:
    check_name(name, what="schedule name")
    found: tuple[ScheduleView, ...] = yield views.schedules(name=name)
    return _info(found[0]) if found else None


def _info(view: ScheduleView) -> ScheduleInfo:
    return ScheduleInfo(
        name=view.name,
        job=view.job,
        timing=json.loads(view.timing),
        policy=json.loads(view.policy),
        args=json.loads(view.args),
        last=moment(Instant(view.last)) if view.last else None,
        next_fire=moment(Instant(view.next_fire)) if view.next_fire else None,
        paused=bool(view.paused),
        broken=view.broken or None,
        dynamic=bool(view.dynamic),
        declared=view.declared,
        missed=view.missed,
        lateness=view.behind / SECOND,
        late=view.late,
    )
