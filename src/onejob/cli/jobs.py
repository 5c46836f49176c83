"""``onejob jobs``: what there is to run, and how much of it."""

from __future__ import annotations

from dataclasses import asdict

import click

from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import document, remark, table
from onejob.cli.text import utc, when
from onejob.commands import views


@click.command("jobs")
@store_options
def command(invocation: Invocation) -> None:
    """List jobs that a live replica knows, or that have runs."""
    with invocation.store() as store:
        found = store.run(views.jobs())
    if invocation.as_json:
        document([{**asdict(job), "last_ended": utc(job.last_ended)} for job in found])
    elif found:
        table(
            ("JOB", "SCHEDULED", "WAITING", "RUNNING", "PARKED", "UNKNOWN", "LAST ENDED", "AS"),
            [
                (
                    job.job,
                    job.scheduled,
                    job.waiting,
                    job.running,
                    job.parked,
                    job.unknown,
                    when(job.last_ended),
                    job.last_outcome,
                )
                for job in found
            ],
        )
        if any(job.parked for job in found):
            remark("Parked: no live replica knows that job. Start a worker whose code has it.")
    else:
        remark("No jobs. They appear when a replica starts: onejob worker MODULE:APP")
