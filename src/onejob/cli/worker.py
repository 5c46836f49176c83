"""``onejob worker``: make this process a replica until it is told to stop."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from onejob import environment
from onejob.cli.failure import WORK_LEFT
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import remark
from onejob.cli.text import counted

if TYPE_CHECKING:
    from types import FrameType

    from onejob.runtime.events import Event
    from onejob.serving import Serving


@click.command("worker")
@click.argument("spec", metavar="MODULE:APP")
@click.option("--queues", metavar="A,B", help="Only these queues; default: all of the App's jobs.")
@click.option("--concurrency", type=click.IntRange(1, 10_000), help="Runs at once.")
@click.option("--no-scheduler", is_flag=True, help="Execute runs, but let others fire schedules.")
@click.option("--grace", metavar="SPAN", help="How long handlers may go on after SIGTERM: 25s.")
@store_options
def command(
    invocation: Invocation,
    spec: str,
    queues: str | None,
    concurrency: int | None,
    no_scheduler: bool,
    grace: str | None,
) -> None:
    """Run a replica: fire schedules and execute runs.

    SIGTERM and Ctrl-C drain: nothing more is claimed, handlers get the grace period, what is left
    is given back (exit 5). A second signal ends the process at once: its lease lapses, and others
    take over. --json prints one event a line.
    """
    if environment.disabled(os.environ):
        remark("ONEJOB_DISABLED is set: nothing is started and nothing fires here.")
        return
    named = _names(queues)
    with invocation.opened(spec, fires=True) as app:
        serving = app.serving(
            queues=named,
            concurrency=concurrency,
            grace=grace,
            schedule=not no_scheduler,
        )
        if invocation.as_json:
            app.events.listen(_print_event)
        else:
            _log_to_stderr()
        remark(f"{app!r}: {counted(len(app.jobs), 'job')}. Ctrl-C or SIGTERM drains.")
        used = {job.options.queue for job in app.jobs.values()}
        if idle := sorted(set(named or ()) - used):
            remark(f"No job of {spec} is in queue {', '.join(idle)}. {_has(used)}")
        _drain_on_signal(serving)
        asyncio.run(_serve(serving))


async def _serve(serving: Serving) -> None:
    left = await serving.serve()
    if left:
        remark("Stopped with work left: it was given back and goes on elsewhere.")
        # At once, before anything waits for threads: one that is still busy with a handler would
        # go on with a run that is somebody else's by now.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(WORK_LEFT)


def _names(queues: str | None) -> list[str] | None:
    if queues is None:
        return None
    names = [name.strip() for name in queues.split(",") if name.strip()]
    if not names:
        raise click.BadParameter("name at least one queue", param_hint="--queues")
    return names


def _has(used: set[str]) -> str:
    return f"Its queues: {', '.join(sorted(used))}." if used else "It has no jobs."


def _drain_on_signal(serving: Serving) -> None:
    """Drain at the first SIGTERM or Ctrl-C, end at once at the second."""
    asked: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if asked:
            os._exit(128 + number)
        asked.append(number)
        # Neither a lock nor a buffer may be taken here: the interrupted code may hold it.
        os.write(
            2, f"{signal.Signals(number).name}: draining; a second one ends at once\n".encode()
        )
        threading.Thread(target=serving.stop, name="onejob drain").start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _print_event(event: Event) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = json.dumps({"at": now, "event": event.name, **event.fields}, default=str)
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _log_to_stderr() -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
