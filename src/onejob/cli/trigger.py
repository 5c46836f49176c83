"""``onejob trigger``: ask for one run of a job, now."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import data, document, remark
from onejob.cli.runs import as_json
from onejob.commands import views
from onejob.errors import UsageError

if TYPE_CHECKING:
    from onejob.app import App


@click.command("trigger")
@click.argument("spec", metavar="MODULE:APP")
@click.argument("job")
@click.option("--key", help="The run's key; without one a fresh key is made.")
@click.option("--args", "args", metavar="JSON", default="{}", help='Arguments: {"image_id": 7}')
@store_options
def command(invocation: Invocation, spec: str, job: str, key: str | None, args: str) -> None:
    """Ask for one run of JOB, now. A known key makes no second run."""
    arguments = _arguments(args)
    with invocation.opened(spec) as app:
        if job not in app.jobs:
            raise UsageError(f"{spec} has no job {job!r}. {_known(app, job)}")
        answer = app.jobs[job].using(key=key).enqueue(**arguments)
        run = app.store.run(views.run_get(answer.run_id))
        why = invocation.line(f"onejob why {job} {answer.run_id}", app, spec)
    if invocation.as_json:
        shown = as_json(run) if run is not None else {"id": answer.run_id}
        document({**shown, "created": answer.created, "conflict": answer.conflict})
        return
    verb = "scheduled" if answer.created else "known already"
    data(f"run {answer.run_id} ({job}, key {answer.key}): {verb}")
    if answer.conflict:
        remark("It was made with other arguments; these were not used.")
    remark(f"What becomes of it: {why}")


def _known(app: App, job: str) -> str:
    close = get_close_matches(job, app.jobs, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"It has: {', '.join(sorted(app.jobs))}"


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"--args is not JSON: {error}. Write --args '{{\"image_id\": 7}}'."
        ) from error
    if not isinstance(found, dict):
        raise UsageError("--args must be a JSON object of arguments by name: '{\"image_id\": 7}'.")
    return found
