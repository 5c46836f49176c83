"""Pause, resume, delete and trigger a schedule: procedures for both colours and the CLI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from onejob.commands import missed, schedules
from onejob.commands.runs import NewRun
from onejob.commands.schedules import Due, Schedule
from onejob.core.names import check_name
from onejob.core.schedule import Advance, pass_over
from onejob.core.time import Instant
from onejob.core.timing import restored
from onejob.errors import Refused, UsageError
from onejob.job import Job
from onejob.queue import Enqueued, enqueue
from onejob.runtime.settings import Target
from onejob.steps import Steps

#: How often a schedule is read again that somebody else changes at the same time.
ROUNDS: Final = 5


def pause(name: str) -> Steps[None]:
    """Pause a schedule. Raises LookupError where there is none of that name."""
    check_name(name, what="schedule name")
    known: bool = yield schedules.pause(name)
    if not known:
        raise unknown(name)


def resume(name: str) -> Steps[None]:
    """Resume a schedule; what has passed meanwhile is recorded as missed."""
    check_name(name, what="schedule name")
    for _ in range(ROUNDS):
        now, schedule = yield from _read(name)
        if not schedule.paused:
            return
        passed = _passed(schedule, now)
        done: bool = yield schedules.resume(
            name,
            revision=schedule.revision,
            last=passed.last or 0,
            next_fire=passed.next_fire or 0,
            missed=missed.of_advance(passed),
            missed_count=passed.missed_count,
        )
        if done:
            return
    raise Refused(f"schedule {name!r} is being changed by somebody else. Resume it again.")


def delete(name: str) -> Steps[bool]:
    """Delete a schedule; tell whether there was one that may be deleted."""
    check_name(name, what="schedule name")
    gone: bool = yield schedules.delete(name)
    if gone:
        return True
    found: Due = yield schedules.read([name])
    if found.schedules:
        raise UsageError(
            f"schedule {name!r} is declared by code that is live: its next replica would put it "
            "back. Take it out of the code, or pause it."
        )
    return False


def trigger(name: str, key: str | None, jobs: Mapping[str, Job[..., ..., Any]]) -> Steps[Enqueued]:
    """Make a run of a schedule's job now, with the options of the code at hand, if there is any."""
    check_name(name, what="schedule name")
    if key is not None:
        check_name(key, what="key")
    _, schedule = yield from _read(name)
    job = jobs.get(schedule.job)
    target = (
        job.options.target()
        if job is not None
        else Target(schedule.queue, schedule.priority, schedule.on_loss)
    )
    run = NewRun(
        job=schedule.job,
        key=uuid4().hex if key is None else key,
        args=schedule.args,
        keyed=key is not None,
        queue=target.queue,
        priority=target.priority,
        on_loss=target.on_loss,
        expect=target.expect,
    )
    [answer] = yield from enqueue([run])
    return answer


def unknown(name: str) -> LookupError:
    """Return the error about a schedule that is not there."""
    return LookupError(
        f"no schedule {name!r} in the store. Code that declares one puts it there when its replica "
        "starts, app.schedules.put at once."
    )


def _read(name: str) -> Steps[tuple[int, Schedule]]:
    found: Due = yield schedules.read([name])
    if not found.schedules:
        raise unknown(name)
    return found.now, found.schedules[0]


def _passed(schedule: Schedule, now: int) -> Advance:
    """Decide what has passed; a timing that cannot be read is left for the tick to tell of."""
    last = Instant(schedule.last) if schedule.last else None
    unchanged = Advance((), (), 0, last, Instant(schedule.next_fire))
    if not schedule.next_fire:
        return unchanged
    try:
        timing = restored(json.loads(schedule.timing))
        return pass_over(timing, last=last, next_fire=Instant(schedule.next_fire), now=Instant(now))
    except Exception:  # noqa: BLE001 - the next tick marks it broken, and says why
        return unchanged
