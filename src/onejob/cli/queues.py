"""``onejob queues``: how much work waits, and for how long."""

from __future__ import annotations

from datetime import timedelta

import click

from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import document, remark, table
from onejob.cli.text import span
from onejob.core.time import Span
from onejob.queues import QueueInfo


@click.command("queues")
@store_options
def command(invocation: Invocation) -> None:
    """List queues with their runs by state, and how long the first has been due."""
    with invocation.opened() as app:
        found = app.queues.stats()
    if invocation.as_json:
        document([as_json(queue) for queue in found])
    else:
        table(
            ("QUEUE", "SCHEDULED", "DUE", "WAITING", "RUNNING", "PARKED", "UNKNOWN", "OLDEST DUE"),
            [
                (
                    queue.queue,
                    queue.scheduled,
                    queue.due,
                    queue.waiting,
                    queue.running,
                    queue.parked,
                    queue.unknown,
                    span(_micros(queue.oldest)) if queue.due else "",
                )
                for queue in found
            ],
        )
        if any(queue.due and not queue.running for queue in found):
            remark("Due and none running: is there a worker for it? onejob replicas")


def as_json(queue: QueueInfo) -> dict[str, object]:
    """Return a queue as ``--json`` shows it; the age in seconds."""
    return {
        "queue": queue.queue,
        "scheduled": queue.scheduled,
        "due": queue.due,
        "waiting": queue.waiting,
        "running": queue.running,
        "parked": queue.parked,
        "unknown": queue.unknown,
        "oldest_due_seconds": queue.oldest.total_seconds(),
    }


def _micros(age: timedelta) -> Span:
    return Span(age // timedelta(microseconds=1))
