"""``onejob runs``: look at runs, bring one back, end one, forget one."""

from __future__ import annotations

from collections.abc import Callable

import click

from onejob.cli import took_part
from onejob.cli.failure import FINDINGS
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import data, document, remark, table
from onejob.cli.text import decoded, span, utc, when
from onejob.commands import runs, views
from onejob.commands.views import RunView
from onejob.core.run import Outcome, RunId, State
from onejob.core.time import DAY, Span, duration, read_instant
from onejob.errors import UsageError

#: What a run's id can be.
ID = click.IntRange(1, 2**63 - 1)

#: How long a run that is cancelled here is kept: the default of ``App(keep=)``.
KEEP = Span(30 * DAY)

#: How many runs can be listed at once.
LISTED_MAX = 10_000


@click.group("runs", invoke_without_command=True)
@click.option("--job", default="", help="Only runs of this job.")
@click.option(
    "--state", default="", help="scheduled, running, parked, unknown, ended, or an outcome."
)
@click.option("--key", default="", help="Only the run of this key.")
@click.option("--schedule", default="", help="Only runs that this schedule made.")
@click.option("--queue", default="", help="Only runs of this queue.")
@click.option("--since", metavar="TIME", help="Made, begun or ended since: 2h, or an instant.")
@click.option("--limit", type=click.IntRange(1, LISTED_MAX), default=50, show_default=True)
@store_options
@click.pass_context
def command(
    ctx: click.Context,
    invocation: Invocation,
    job: str,
    state: str,
    key: str,
    schedule: str,
    queue: str,
    since: str | None,
    limit: int,
) -> None:
    """List runs, newest first; retry, cancel or discard them."""
    if ctx.invoked_subcommand is not None:
        return
    if state and state not in (*State, *Outcome):
        raise UsageError(
            f"there is no state {state!r}. A run is {', '.join(State)}; "
            f"an ended one has {', '.join(Outcome)}."
        )
    began = _since(since)
    with invocation.store() as store:
        found = store.run(
            views.runs(
                job=job,
                state=state,
                key=key,
                schedule=schedule,
                queue=queue,
                since=began(store.run(views.clock())) if since else 0,
                limit=limit,
            )
        )
        # Only of one key: that is one run, or a few.
        parts = took_part.of(store, found, key) if key and found else {}
    if invocation.as_json:
        document([{**as_json(run), **took_part.as_json(parts.get(run.id))} for run in found])
    elif found:
        who = took_part.COLUMNS if key else ()
        table(
            ("ID", "JOB", "KEY", "STATE", "ATTEMPT", *who, "STARTED", "TOOK", "NOTE"),
            [
                (
                    run.id,
                    run.job,
                    run.key,
                    run.outcome or run.state,
                    run.attempt,
                    *(took_part.cells(parts[run.id]) if key else ()),
                    when(run.started) or f"due {when(run.due)}",
                    span(run.ended - run.started) if run.ended and run.started else "",
                    run.error or run.progress or "",
                )
                for run in found
            ],
            whole=bool(key),
            spare=("ATTEMPT", "TOOK", "STARTED", "NOTE", "JOB"),
            prose=("NOTE",),
        )
        if len(found) == limit:
            remark(f"The newest {limit}; --limit shows more, --job and --state show fewer.")
    elif job or state or key or schedule or queue or since:
        elsewhere = " A period, or a guarded tick: onejob why NAME KEY" if key else ""
        remark(f"No run like that. Without filters: onejob runs.{elsewhere}")
    else:
        remark("No runs yet. Start a worker, or ask for one: onejob trigger MODULE:APP JOB")


@command.command("retry")
@click.argument("ids", metavar="ID...", type=ID, nargs=-1, required=True)
@store_options
@click.pass_context
def retry(ctx: click.Context, invocation: Invocation, ids: tuple[int, ...]) -> None:
    """Run ended, parked or unknown runs again, under their old id and key."""
    with invocation.store() as store:
        done = [(store.run(runs.retry(RunId(number))), number) for number in ids]
        found = [(ok, number, store.run(views.run_get(number))) for ok, number in done]
    _tell(
        ctx,
        invocation,
        found,
        verb="scheduled again",
        refused="is live already, or its key has gone",
    )


@command.command("cancel")
@click.argument("ids", metavar="ID...", type=ID, nargs=-1, required=True)
@store_options
@click.pass_context
def cancel(ctx: click.Context, invocation: Invocation, ids: tuple[int, ...]) -> None:
    """End runs as cancelled, also while they run: their handlers are stopped, and refused."""
    with invocation.store() as store:
        done = [(store.run(runs.cancel(RunId(number), keep=KEEP)), number) for number in ids]
        found = [(ok, number, store.run(views.run_get(number))) for ok, number in done]
    _tell(ctx, invocation, found, verb="cancelled", refused="has ended")


@command.command("discard")
@click.argument("ids", metavar="ID...", type=ID, nargs=-1, required=True)
@store_options
@click.pass_context
def discard(ctx: click.Context, invocation: Invocation, ids: tuple[int, ...]) -> None:
    """Forget ended runs before their time, with their keys: those that nobody will retry."""
    with invocation.store() as store:
        found = [(store.run(views.run_get(number)), number) for number in ids]
        told = [(store.run(runs.discard(RunId(number))), number, run) for run, number in found]
        store.run(runs.purge(limit=LISTED_MAX))
    _tell(ctx, invocation, told, verb="discarded", refused="lives: cancel it first")


def _since(since: str | None) -> Callable[[int], int]:
    """Return how to find the instant meant, given the store's now; UsageError before any I/O."""
    if since is None:
        return lambda now: 0
    try:
        ago = duration(since, what="--since")
    except UsageError:
        at = read_instant(since, "--since")
        return lambda now: at
    return lambda now: now - ago


def _tell(
    ctx: click.Context,
    invocation: Invocation,
    found: list[tuple[bool, int, RunView | None]],
    *,
    verb: str,
    refused: str,
) -> None:
    """Say of each run what became of it; exit 1 where the store refused one."""
    if invocation.as_json:
        document([{**as_json(run), "done": ok} for ok, _, run in found if run is not None])
    for ok, number, run in found:
        if run is None:
            remark(f"run {number}: unknown here. Runs are purged once their time has passed.")
        elif not ok:
            remark(
                f"run {number} ({run.job}, {run.outcome or run.state}): nothing done, it {refused}."
            )
        elif not invocation.as_json:
            data(f"run {number} ({run.job}): {verb}")
    if not all(ok for ok, _, _ in found):
        ctx.exit(FINDINGS)


def as_json(run: RunView) -> dict[str, object]:
    """Return a run as ``--json`` shows it."""
    return {
        "id": run.id,
        "job": run.job,
        "key": run.key,
        "state": run.state,
        "outcome": run.outcome,
        "attempt": run.attempt,
        "deaths": run.deaths,
        "interrupted": run.interrupted,
        "token": run.token,
        "replica": run.replica or None,
        "queue": run.queue,
        "priority": run.priority,
        "due": utc(run.due),
        "started": utc(run.started),
        "ended": utc(run.ended),
        "error": run.error,
        "result": decoded(run.result),
        "progress": decoded(run.progress),
        "schedule": run.schedule or None,
        "fire_time": utc(run.fire_time),
    }
