"""``onejob schedules``: what fires when; pause, resume, trigger and delete."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from onejob.cli import guarded
from onejob.cli.failure import USAGE, Failure
from onejob.cli.guarded import Guarded
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import data, document, remark, table
from onejob.cli.text import clean, span, utc, when
from onejob.commands import views
from onejob.commands.command import Command
from onejob.commands.views import ScheduleView
from onejob.core.names import check_name
from onejob.core.time import SECOND
from onejob.errors import UnsupportedByStore
from onejob.pausing import delete, pause, resume
from onejob.steps import Steps, carry

if TYPE_CHECKING:
    from onejob.cli.invocation import AnyStore

#: Schedules read by one command.
PAGE = 1_000


@click.group("schedules", invoke_without_command=True)
@click.option("--prefix", default="", help="Only names that begin so.")
@click.option("--job", default="", help="Only schedules of this job.")
@store_options
@click.pass_context
def command(ctx: click.Context, invocation: Invocation, prefix: str, job: str) -> None:
    """List schedules; pause, resume, trigger or delete one.

    guarded: another library's scheduler fires it, and its ticks are claimed here.
    """
    if ctx.invoked_subcommand is not None:
        return
    for what, name in (("prefix", prefix), ("job", job)):
        if name:
            check_name(name, what=what)
    with invocation.store() as store:
        others = [] if job else guarded.known(store, prefix)
        found = _kept(store, others, prefix, job)
    if invocation.as_json:
        document([*map(as_json, found), *map(guarded.as_json, others)])
    elif found or others:
        table(
            ("NAME", "FIRES", "STATE", "LAST", "NEXT", "LATENESS", "DECLARED BY", "MISSED"),
            [
                (
                    schedule.name,
                    fires(schedule),
                    standing(schedule),
                    when(schedule.last),
                    when(schedule.next_fire) or "never again",
                    span(schedule.behind) if schedule.last or schedule.behind else "",
                    "data" if schedule.dynamic else f"{schedule.declared} live",
                    schedule.missed or "",
                )
                for schedule in found
            ]
            + [guarded.cells(other) for other in others],
            spare=("DECLARED BY", "LATENESS", "MISSED", "LAST"),
        )
        for schedule in found:
            if schedule.broken:
                remark(f"{schedule.name} is broken: {schedule.broken}")
    else:
        remark(
            "No schedules. They appear when a replica that declares one starts, with "
            "app.schedules.put, or when a guarded scheduler has its first tick."
        )


@command.command("pause")
@click.argument("name")
@store_options
def pause_command(invocation: Invocation, name: str) -> None:
    """Let no fire time of NAME become a run, in the whole fleet, until it is resumed."""
    found = _act(invocation, name, pause(name))
    if not invocation.as_json:
        data(
            f"{clean(found.name)}: paused. Fire times that pass meanwhile are missed, and counted."
        )


@command.command("resume")
@click.argument("name")
@store_options
def resume_command(invocation: Invocation, name: str) -> None:
    """Let NAME fire again; what has passed meanwhile is recorded as missed."""
    found = _act(invocation, name, resume(name))
    if not invocation.as_json:
        following = when(found.next_fire) or "never again"
        data(f"{clean(found.name)}: resumed, next fires {following}")


@command.command("trigger")
@click.argument("name")
@click.option("--key", help="The run's key; without one a fresh key is made.")
@store_options
def trigger_command(invocation: Invocation, name: str, key: str | None) -> None:
    """Make a run of NAME's job with its arguments, now, beside its fire times."""
    with invocation.opened() as app, _known(name):
        answer = app.schedules.trigger(name, key=key)
        why = invocation.line(f"onejob why {name} {answer.run_id}", app)
    if invocation.as_json:
        document({"id": answer.run_id, "key": answer.key, "created": answer.created})
        return
    verb = "scheduled" if answer.created else "known already"
    data(f"run {answer.run_id} of {clean(name)} (key {clean(answer.key)}): {verb}")
    remark(f"What becomes of it: {why}")


@command.command("delete")
@click.argument("name")
@store_options
def delete_command(invocation: Invocation, name: str) -> None:
    """Delete NAME: one that was put as data, or one that no live code declares any more."""
    with invocation.store() as store:
        if not carry(delete(name), store.run):
            raise Failure(f"no schedule {name!r} in the store. See: onejob schedules", code=USAGE)
    if invocation.as_json:
        document({"name": name, "deleted": True})
    else:
        data(f"{clean(name)}: deleted. Its runs stay.")


def _act(invocation: Invocation, name: str, act: Steps[None]) -> ScheduleView:
    with invocation.store() as store, _known(name):
        carry(act, store.run)
        [found] = store.run(views.schedules(name=name))
    if invocation.as_json:
        document(as_json(found))
    return found


@contextmanager
def _known(name: str) -> Iterator[None]:
    """Turn the error about a name that is not in the store into a failure of usage."""
    try:
        yield
    except LookupError as error:
        raise Failure(
            f"no schedule {name!r} in the store. See: onejob schedules", code=USAGE
        ) from error


def _kept(store: AnyStore, others: list[Guarded], prefix: str, job: str) -> list[ScheduleView]:
    """Read onejob's own schedules; none where the store keeps guarded ones alone."""
    try:
        return every_schedule(store.run, prefix, job)
    except UnsupportedByStore:
        if others:
            return []
        raise


def every_schedule(
    run: Callable[[Command[Any]], Any], prefix: str = "", job: str = ""
) -> list[ScheduleView]:
    """Read every schedule, a page at a time."""
    found: list[ScheduleView] = []
    while True:
        after = found[-1].name if found else ""
        page = run(views.schedules(prefix=prefix, job=job, after=after, limit=PAGE))
        found += page
        if len(page) < PAGE:
            return found


def fires(schedule: ScheduleView) -> str:
    """Return a schedule's timing in a few words."""
    timing = json.loads(schedule.timing)
    if "cron" in timing:
        return clean(f"{timing['cron']} {timing.get('tz') or 'UTC'}")
    if "every" in timing:
        return f"every {span(int(timing['every']))}"
    return f"once, {when(int(timing['at']))}" if "at" in timing else clean(schedule.timing)


def standing(schedule: ScheduleView) -> str:
    """Return what state a schedule is in, the gravest first."""
    if schedule.broken:
        return "broken"
    if schedule.paused:
        return "paused"
    if not schedule.declared:
        return "orphaned"
    return "late" if schedule.late else "live"


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
        "dynamic": bool(schedule.dynamic),
        "orphaned": not schedule.declared,
        "declared": schedule.declared,
        "missed": schedule.missed,
        "lateness": schedule.behind / SECOND,
        "late": schedule.late,
        "args": json.loads(schedule.args),
    }
