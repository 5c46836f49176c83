"""Put schedules as data: check them before any I/O, then read, decide, and write with a guard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from onejob.commands import missed, schedules
from onejob.commands.command import as_json
from onejob.commands.schedules import Due, PutSchedule, Schedule
from onejob.core.cron import Fold, Gap
from onejob.core.every import Once
from onejob.core.names import check_name
from onejob.core.policy import policy_stored
from onejob.core.schedule import first_fire
from onejob.core.time import Duration, Instant, instant
from onejob.core.timing import Timing, stored
from onejob.errors import Refused, UsageError
from onejob.job import Job
from onejob.runtime.settings import Declared, Target
from onejob.schedule import (
    CatchUpOption,
    OverlapOption,
    ScheduleOptions,
    check_jitter,
    cron,
    encoded,
    every,
    fingerprint_of,
)
from onejob.steps import Steps

#: Schedules stored by one command.
BATCH: Final = 1_000
#: How often schedules are read again that others change at the same time. In each round one of
#: them gets through: this many writers of one name are heard.
ROUNDS: Final = 50


@dataclass(frozen=True, slots=True)
class Wanted:
    """A schedule as somebody wants it in the store, checked."""

    name: str
    job: str
    timing: Timing
    timing_text: str
    policy_text: str
    args: str
    definition: str
    target: Target


@dataclass(frozen=True, slots=True)
class Put:
    """What putting schedules came to: how many were new, changed, and the same as before."""

    created: int
    changed: int
    unchanged: int


def wanted(
    jobs: Mapping[str, Job[..., ..., Any]],
    declared: Mapping[str, Declared],
    *,
    name: str,
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
) -> Wanted:
    """Check a schedule that is to be stored as data."""
    check_name(name, what="schedule name")
    if name in declared:
        raise UsageError(
            f"schedule {name!r} is declared in this code. Give the one that is put another name."
        )
    found = _job(jobs, job)
    timing = _timing(
        cron_text=cron,
        interval=every,
        at=at,
        tz=tz,
        anchor=anchor,
        on_gap=on_gap,
        on_fold=on_fold,
    )
    options = ScheduleOptions(
        catch_up=catch_up,
        catch_up_cap=catch_up_cap,
        max_lateness=max_lateness,
        overlap=overlap,
        jitter=jitter,
    )
    try:
        policy_text = _policy_text(options)
    except TypeError:  # a rule of a type that cannot even be looked up: said by its own check
        policy_text = as_json(policy_stored(options.policy()))
    if jitter is not None:
        check_jitter(timing, options.policy())
    timing_text = _timing_text(timing)
    arguments = encoded(found, args)
    return Wanted(
        name=name,
        job=found.name,
        timing=timing,
        timing_text=timing_text,
        policy_text=policy_text,
        args=arguments,
        definition=fingerprint_of(found.name, timing_text, policy_text, arguments),
        target=found.options.target(),
    )


def wanted_many(
    jobs: Mapping[str, Job[..., ..., Any]],
    declared: Mapping[str, Declared],
    items: Iterable[Mapping[str, Any]],
) -> list[Wanted]:
    """Check many; no name may come twice."""
    found: dict[str, Wanted] = {}
    for item in items:
        if not isinstance(item, Mapping):
            raise UsageError(
                f"put_many needs the arguments of each schedule by name, not {item!r}: "
                "put_many([{'name': 'a', 'job': report, 'cron': '0 6 * * *'}])."
            )
        try:
            one = wanted(jobs, declared, **item)
        except TypeError as error:
            why = str(error).replace("wanted()", "put()")
            raise UsageError(
                f"{item!r} does not fit put: {why}. Give the arguments of put by their names."
            ) from None
        if one.name in found:
            raise UsageError(f"schedule {one.name!r} comes twice. Give each a name of its own.")
        found[one.name] = one
    return list(found.values())


def put_all(batch: Sequence[Wanted]) -> Steps[Put]:
    """Store schedules, a thousand at a time."""
    done = Put(0, 0, 0)
    for start in range(0, len(batch), BATCH):
        part = yield from _put(batch[start : start + BATCH])
        done = Put(
            done.created + part.created,
            done.changed + part.changed,
            done.unchanged + part.unchanged,
        )
    return done


def _put(batch: Sequence[Wanted]) -> Steps[Put]:
    left = {one.name: one for one in batch}
    created = changed = 0
    for _ in range(ROUNDS):
        found: Due = yield schedules.read(list(left))
        known = {schedule.name: schedule for schedule in found.schedules}
        _refuse_declared(known)
        left = {
            name: one
            for name, one in left.items()
            if name not in known or known[name].definition != one.definition
        }
        if not left:
            return Put(created, changed, len(batch) - created - changed)
        first: dict[Timing, int] = {}
        steps = [_step(one, known.get(name), found.now, first) for name, one in left.items()]
        done: frozenset[str] = yield schedules.put(steps)
        created += sum(name not in known for name in done)
        changed += sum(name in known for name in done)
        left = {name: one for name, one in left.items() if name not in done}
        if not left:
            return Put(created, changed, len(batch) - created - changed)
    raise Refused(f"schedule {next(iter(left))!r} is being changed by somebody else. Put it again.")


def _step(one: Wanted, old: Schedule | None, now: int, first: dict[Timing, int]) -> PutSchedule:
    """Decide what to store: a new timing starts anew from now, and never fills in the past."""
    kept = old is not None and (old.timing, old.job) == (one.timing_text, one.job)
    if old is not None and kept and not old.broken:
        next_fire = old.next_fire
    else:
        if one.timing not in first:
            first[one.timing] = first_fire(one.timing, Instant(now)) or 0
        next_fire = first[one.timing]
    dropped = "" if kept or old is None else missed.of_redefinition(old, now)
    return PutSchedule(
        name=one.name,
        job=one.job,
        timing=one.timing_text,
        policy=one.policy_text,
        definition=one.definition,
        next_fire=next_fire,
        args=one.args,
        queue=one.target.queue,
        priority=one.target.priority,
        on_loss=one.target.on_loss,
        revision=0 if old is None else old.revision,
        missed=dropped,
        missed_count=int(bool(dropped)),
    )


def _refuse_declared(known: Mapping[str, Schedule]) -> None:
    for schedule in known.values():
        if not schedule.dynamic:
            raise UsageError(
                f"schedule {schedule.name!r} was declared by code and is not replaced by data. "
                "Give this one another name; one that has gone from your code can be deleted first."
            )


@lru_cache(maxsize=4_096)
def _timing_text(timing: Timing) -> str:
    return as_json(stored(timing))


@lru_cache(maxsize=256)
def _policy_text(options: ScheduleOptions) -> str:
    """Check the rules and write them down; of many schedules, most have the same ones."""
    return as_json(policy_stored(options.policy()))


def _job(jobs: Mapping[str, Job[..., ..., Any]], job: object) -> Job[..., ..., Any]:
    name = job.name if isinstance(job, Job) else job
    found = jobs.get(name) if isinstance(name, str) else None
    if found is None or (isinstance(job, Job) and found is not job):
        raise UsageError(
            f"job={job!r} is no job of this App. Give one that @app.job made, or its name."
        )
    return found


def _timing(
    *,
    cron_text: str | None,
    interval: Duration | None,
    at: datetime | None,
    tz: str | ZoneInfo | None,
    anchor: datetime | None,
    on_gap: Gap,
    on_fold: Fold,
) -> Timing:
    options = {"cron": cron_text, "every": interval, "at": at}
    given = [name for name, value in options.items() if value is not None]
    if len(given) != 1:
        raise UsageError(
            f"a schedule has one of cron=, every= and at=; given: {', '.join(given) or 'none'}."
        )
    if cron_text is None and (tz is not None or (on_gap, on_fold) != ("shift", "first")):
        raise UsageError("tz=, on_gap= and on_fold= are about wall times: they go with cron=.")
    if interval is None and anchor is not None:
        raise UsageError("anchor= goes with every=.")
    if cron_text is not None:
        return cron(cron_text, tz, on_gap=on_gap, on_fold=on_fold)
    if interval is not None:
        return every(interval, anchor)
    assert at is not None, "one of three is given"
    once = instant(at, what="at")
    if once < 0:
        raise UsageError(f"at={at.isoformat()!r} is before 1970. Give the time to fire at, or now.")
    # Not 0, which is never in the store.
    return Once(max(once, Instant(1)))
