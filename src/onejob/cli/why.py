"""``onejob why``: what happened to a run or a fire time, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onejob.cli import claim_story, guarded, lock_story, story, tick_table
from onejob.cli.failure import FINDINGS, USAGE, Failure
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import data, document, remark
from onejob.cli.story import Evidence, Story, Told
from onejob.cli.text import clean, utc, when
from onejob.cli.tick_table import TICKS, TICKS_MAX, Asked
from onejob.cli.ticks import Tick
from onejob.commands import views
from onejob.commands.command import Command
from onejob.commands.views import EventView, RunView, ScheduleView
from onejob.core.keys import fire_key
from onejob.core.names import check_name
from onejob.core.time import Instant, read_instant
from onejob.errors import UnsupportedByStore, UsageError

if TYPE_CHECKING:
    from onejob.cli.invocation import AnyStore

#: How many ticks and runs are looked through for one instant.
LOOKED_AT_MAX = 1_000

#: How many names a sentence lists.
NAMED_MAX = 5


@click.command("why")
@click.argument("name", metavar="JOB|SCHEDULE")
@click.argument("which", metavar="[TIME|RUN]", required=False)
@click.option(
    "--ticks",
    "most",
    type=click.IntRange(1, TICKS_MAX),
    help=f"Show the last so many fire times of a schedule, {TICKS} if not given.",
)
@click.option("--since", metavar="TIME", help=f"Show those since then, {TICKS_MAX:,} at the most.")
@store_options
def command(
    invocation: Invocation, name: str, which: str | None, most: int | None, since: str | None
) -> None:
    """Tell the story of one run or fire time; without TIME or RUN, of the latest.

    TIME is an instant such as 2026-03-29T01:00:00Z, RUN the id of a run, or its key. Knows the
    periods and keys of `once` and once_per too, and the ticks of a guarded scheduler, by the id
    or function that you gave it. Below the story of the latest, one row for each fire time that
    was expected: who claimed it, who lost it, what became of it.
    """
    check_name(name, what="name")
    asked = None
    if which is None or most or since:
        start = read_instant(since, "--since") if since else 0
        asked = Asked(most or (TICKS_MAX if since else TICKS), start)
    with invocation.store() as store:
        found, ticks = _found(store, name, which, asked)
    if invocation.as_json:
        document(
            {
                "job": found.job,
                "run": found.run or None,
                "key": found.key,
                "expected": utc(found.expected),
                "events": [_as_json(told) for told in found.events],
                "answer": found.answer,
                "ticks": [tick_table.as_json(tick) for tick in ticks],
            }
        )
        return
    data(found.answer)
    for told in found.events:
        data(f"  {told.sentence}" if not told.at else f"  {when(told.at)}  {told.sentence}")
    if ticks:
        data("")
        tick_table.show(ticks)
        if asked and len(ticks) == asked.most:
            remark(f"The newest {asked.most}; --ticks and --since show more.")
    elif most or since:
        remark(f"No fire time of {name} to show: it is no schedule, or none has come.")


def _found(
    store: AnyStore, name: str, which: str | None, asked: Asked | None
) -> tuple[Story, tuple[Tick, ...]]:
    """Find the story, and the rows below it; for a name of no schedule or run, among claims."""
    ticks: tuple[Tick, ...] = ()
    try:
        named = store.run(views.schedules(name=name))
        schedule = named[0] if named else None
        if schedule is not None and asked is not None:
            ticks = tick_table.read_schedule(store, schedule, asked)
        return _find(store, name, which, schedule, ticks), ticks
    except (Failure, UsageError, UnsupportedByStore) as error:
        claimed = claim_story.find(store, name, which)
        if claimed is None and (full := _in_full(store, name)):
            name, claimed = full, claim_story.find(store, full, which)
        if claimed is None and which is None:
            claimed = lock_story.find(store, name)
        if claimed is None and isinstance(error, UnsupportedByStore):
            what = f"{clean(name)} {clean(which)}" if which else clean(name)
            raise Failure(
                f"nothing is known of {what}. Runs and schedules are not kept in this store, and "
                "no period, key or guarded tick is called so. See: onejob schedules",
                code=FINDINGS,
            ) from error
        if claimed is None:
            raise
        return claimed, tick_table.read_claims(store, name, asked) if asked else ()


def _in_full(store: AnyStore, name: str) -> str:
    """Return the one guarded schedule that its user calls so, "" where there is none."""
    names = guarded.called(store, name)
    if len(names) > 1:
        told = ", ".join(repr(clean(each)) for each in names[:NAMED_MAX])
        more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
        raise Failure(f"{clean(name)} may be any of {told}{more}. Say which.", code=USAGE)
    return names[0] if names else ""


def _find(
    store: AnyStore,
    name: str,
    which: str | None,
    schedule: ScheduleView | None,
    ticks: tuple[Tick, ...],
) -> Story:
    if which is None:
        return _latest(store, name, schedule, ticks)
    if which.isdecimal() and (run := _numbered(store, name, int(which))):
        return _of_run(store, run)
    if runs := store.run(views.runs(job=name, key=which, limit=1)):
        return _of_run(store, runs[0])
    if which.isdecimal():
        raise Failure(f"{name} has no run {which}. Runs are purged in time.", code=FINDINGS)
    try:
        at = read_instant(which, "TIME")
    except UsageError as error:
        if ":" in which:
            raise
        raise UsageError(f"{which!r} is no key of {name}, no run's id and no instant.") from error
    return _of_instant(store, name, schedule, at)


def _latest(
    store: AnyStore, name: str, schedule: ScheduleView | None, ticks: tuple[Tick, ...]
) -> Story:
    runs = _runs(store, name, schedule, limit=1)
    run = runs[0] if runs else None
    if schedule is not None and (news := _newer_tick(store, schedule, run)):
        return news
    if run is None:
        if schedule is not None and ticks:
            # Nothing has come of it, and its fire times say why.
            answer = _nothing_of(name, schedule)
            return Story(schedule.job, ticks[0].key, ticks[0].at, (), answer)
        raise Failure(_nothing_of(name, schedule), code=FINDINGS)
    return _of_run(store, run)


def _newer_tick(store: AnyStore, schedule: ScheduleView, run: RunView | None) -> Story | None:
    """Tell of a fire time after that run that became none: then it is the latest news."""
    last = (run.fire_time or run.due) if run else 0
    events = store.run(_ticks(schedule.name, since=last))
    newest = max((_fire_time(event) for event in events), default=0)
    return story.of_tick(schedule.name, schedule.job, newest, events) if newest > last else None


def _numbered(store: AnyStore, name: str, number: int) -> RunView | None:
    """Return the run of that id; UsageError where it belongs to another job."""
    run = store.run(views.run_get(number)) if number < 2**63 else None
    if run is not None and name not in (run.job, run.schedule):
        raise UsageError(
            f"run {number} belongs to {run.job}, not to {name}. Try: onejob why {run.job} {number}"
        )
    return run


def _of_instant(store: AnyStore, name: str, schedule: ScheduleView | None, at: Instant) -> Story:
    if runs := store.run(
        views.runs(job=schedule.job if schedule else name, key=fire_key(name, at))
    ):
        return _of_run(store, runs[0])
    if schedule is None:
        raise Failure(f"no schedule {name!r} in the store; give a run's id or key", code=FINDINGS)
    if tick := story.of_tick(name, schedule.job, at, store.run(_ticks(name, since=at))):
        return tick
    if at > schedule.now:
        raise Failure(
            f"{when(at)} is still to come; next: {when(schedule.next_fire)}", code=FINDINGS
        )
    if 0 < schedule.next_fire <= at and (why := _held_up(schedule)):
        return story.of_nothing(schedule.name, schedule.job, at, why)
    before = [
        run for run in _runs(store, name, schedule, limit=LOOKED_AT_MAX) if run.fire_time <= at
    ]
    hint = f" The fire time before it: {utc(before[0].fire_time)}" if before else ""
    raise Failure(f"nothing is known of {clean(name)} at {when(at)}.{hint}", code=FINDINGS)


def _held_up(schedule: ScheduleView) -> str:
    """Say why a schedule does not fire what is due, "" where it does."""
    if schedule.broken:
        return f"it is broken ({clean(schedule.broken)})"
    if schedule.paused:
        return "it is paused"
    return "" if schedule.declared else "it is orphaned: no live replica declares it"


def _of_run(store: AnyStore, run: RunView) -> Story:
    return story.of_run(
        Evidence(
            run=run,
            events=store.run(views.events(run_id=run.id, limit=LOOKED_AT_MAX)),
            effects=store.run(views.effects_of(run.id)),
            replicas={replica.id: replica for replica in store.run(views.replicas())},
            now=store.run(views.clock()),
        )
    )


def _runs(
    store: AnyStore, name: str, schedule: ScheduleView | None, limit: int
) -> tuple[RunView, ...]:
    if schedule is not None and schedule.job != name:
        return store.run(views.runs(schedule=name, limit=limit))
    return store.run(views.runs(job=name, limit=limit))


def _ticks(schedule: str, *, since: int) -> Command[tuple[EventView, ...]]:
    return views.events(schedule=schedule, since=since, limit=LOOKED_AT_MAX)


def _fire_time(event: EventView) -> int:
    return story.skipped_at(event) or story.missed_at(event)


def _nothing_of(name: str, schedule: ScheduleView | None) -> str:
    if schedule is None:
        return f"nothing is known of {name!r}. See: onejob jobs, onejob schedules"
    if schedule.paused and not schedule.broken:
        return f"{name} has never fired, and is paused. Resume it: onejob schedules resume {name}"
    if 0 < schedule.next_fire <= schedule.now and (why := _held_up(schedule)):
        return f"{name} has never fired: {why}"
    return f"{name} has not fired yet; it will {when(schedule.next_fire) or 'never'}"


def _as_json(told: Told) -> dict[str, object]:
    return {
        "at": utc(told.at),
        "kind": told.kind,
        "text": told.sentence,
        "token": told.token or None,
        "replica": told.replica or None,
    }
