"""``onejob schedules``: what fires when; pause and resume."""

from __future__ import annotations

import json

import click

from onejob.cli.failure import USAGE, Failure
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import data, document, remark, table
from onejob.cli.text import clean, span, utc, when
from onejob.commands import schedules, views
from onejob.commands.views import ScheduleView
from onejob.core.names import check_name


@click.group("schedules", invoke_without_command=True)
@store_options
@click.pass_context
def command(ctx: click.Context, invocation: Invocation) -> None:
    """List schedules; pause or resume one."""
    if ctx.invoked_subcommand is not None:
        return
    with invocation.store() as store:
        found = store.run(views.schedules())
    if invocation.as_json:
        document([as_json(schedule) for schedule in found])
    elif found:
        table(
            ("NAME", "FIRES", "STATE", "LAST", "NEXT", "DECLARED BY", "MISSED"),
            [
                (
                    schedule.name,
                    fires(schedule),
                    standing(schedule),
                    when(schedule.last),
                    when(schedule.next_fire) or "never again",
                    f"{schedule.declared} live",
                    schedule.missed or "",
                )
                for schedule in found
            ],
        )
        for schedule in found:
            if schedule.broken:
                remark(f"{schedule.name} is broken: {schedule.broken}")
    else:
        remark("No schedules. They appear when a replica that declares one starts.")


@command.command("pause")
@click.argument("name")
@store_options
def pause(invocation: Invocation, name: str) -> None:
    """Let no fire time of NAME become a run, in the whole fleet, until it is resumed."""
    _set(invocation, name, paused=True)


@command.command("resume")
@click.argument("name")
@store_options
def resume(invocation: Invocation, name: str) -> None:
    """Let NAME fire again."""
    _set(invocation, name, paused=False)


def _set(invocation: Invocation, name: str, *, paused: bool) -> None:
    check_name(name, what="schedule name")
    with invocation.store() as store:
        if not store.run(schedules.pause(name, paused=paused)):
            raise Failure(f"no schedule {name!r} in the store. See: onejob schedules", code=USAGE)
        found = next(s for s in store.run(views.schedules()) if s.name == name)
    if invocation.as_json:
        document(as_json(found))
    elif paused:
        data(f"{name}: paused. Fire times that pass meanwhile are missed or caught up as declared.")
    else:
        data(f"{name}: resumed, next fires {when(found.next_fire) or 'never again'}")


def fires(schedule: ScheduleView) -> str:
    """Return a schedule's timing in a few words."""
    timing = json.loads(schedule.timing)
    if "cron" in timing:
        return clean(f"{timing['cron']} {timing.get('tz') or 'UTC'}")
    return f"every {span(int(timing['every']))}" if "every" in timing else clean(schedule.timing)


def standing(schedule: ScheduleView) -> str:
    """Return what state a schedule is in, the gravest first."""
    if schedule.broken:
        return "broken"
    if schedule.paused:
        return "paused"
    return "live" if schedule.declared else "undeclared"


def as_json(schedule: ScheduleView) -> dict[str, object]:
    """Return a schedule as ``--json`` shows it."""
    return {
        "name": schedule.name,
        "job": schedule.job,
        "timing": json.loads(schedule.timing),
        "policy": json.loads(schedule.policy),
        "state": standing(schedule),
        "last": utc(schedule.last),
        "next_fire": utc(schedule.next_fire),
        "paused": bool(schedule.paused),
        "broken": schedule.broken or None,
        "declared": schedule.declared,
        "missed": schedule.missed,
    }
