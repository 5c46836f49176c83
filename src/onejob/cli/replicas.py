"""``onejob replicas``: the processes of the fleet."""

from __future__ import annotations

import json

import click

from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import document, remark, table
from onejob.cli.text import span, utc, when
from onejob.commands import views
from onejob.commands.views import ReplicaView


@click.command("replicas")
@store_options
def command(invocation: Invocation) -> None:
    """List the processes of the fleet, and for a while those that were.

    left: it stopped by itself. dead: its lease lapsed, and a live one gave back what it held.
    """
    with invocation.store() as store:
        found = store.run(views.replicas())
    if invocation.as_json:
        document([_as_json(replica) for replica in found])
    elif found:
        table(
            ("ID", "NAME", "HOST", "PID", "VERSION", "STATE", "LEASE", "RUNNING", "STARTED"),
            [
                (
                    replica.id,
                    replica.name,
                    replica.host,
                    replica.pid,
                    replica.version,
                    standing(replica),
                    _lease(replica),
                    replica.running,
                    when(replica.started),
                )
                for replica in found
            ],
            spare=("VERSION", "NAME", "STARTED", "RUNNING", "HOST"),
        )
    else:
        remark("No replicas. Start one: onejob worker MODULE:APP, or app.start() in your web app")


def standing(replica: ReplicaView) -> str:
    """Return live, late (its lease is over and nobody has judged it yet), left or dead.

    Others declare a replica dead only after its lease; what ended before that, ended by itself.
    """
    if replica.dead_at:
        return "left" if replica.dead_at <= replica.lease_until else "dead"
    return "live" if replica.lease_until > replica.now else "late"


def _lease(replica: ReplicaView) -> str:
    if replica.dead_at:
        return f"ended {span(replica.now - replica.dead_at)} ago"
    left = replica.lease_until - replica.now
    return f"{span(left)} left" if left > 0 else f"over for {span(-left)}"


def _as_json(replica: ReplicaView) -> dict[str, object]:
    return {
        "id": replica.id,
        "name": replica.name,
        "host": replica.host,
        "pid": replica.pid,
        "version": replica.version or None,
        "state": standing(replica),
        "jobs": json.loads(replica.jobs),
        "schedules": json.loads(replica.schedules),
        "started": utc(replica.started),
        "lease_until": utc(replica.lease_until),
        "dead_at": utc(replica.dead_at),
        "idle": bool(replica.idle),
        "running": replica.running,
    }
