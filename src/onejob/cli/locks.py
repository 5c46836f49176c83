"""``onejob locks``: who holds what, since when and until when; and taking a lock away."""

from __future__ import annotations

import getpass
import json
import os
import shlex
import socket

import click

from onejob.cli.failure import USAGE, Failure
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import data, document, remark, table
from onejob.cli.text import span, utc, when
from onejob.commands import leases
from onejob.core.hold import Listed

#: How many can be listed at once.
LISTED_MAX = 1_000


@click.group("locks", invoke_without_command=True)
@click.option("--app", "scope", metavar="NAME", default="", help="Locks of this App only.")
@click.option("--all", "free", is_flag=True, help="Free ones too, for a day after their last use.")
@store_options
@click.pass_context
def command(ctx: click.Context, invocation: Invocation, scope: str, free: bool) -> None:
    """List the locks that are taken: by whom, since and until when, and how many wait; break one.

    held: renewed until its holder releases it. kept: released, and taken for the rest of its
    at_least. lapsed: its holder neither renewed nor released it, so it is free.
    """
    if ctx.invoked_subcommand is not None:
        return
    with invocation.store() as store:
        found = store.run(leases.listed(scope=scope, free=free, limit=LISTED_MAX))
    if invocation.as_json:
        document([_as_json(one) for one in found])
    elif found:
        table(
            ("APP", "LOCK", "STATE", "TOKEN", "HOLDER", "SINCE", "UNTIL", "WAITING"),
            [
                (
                    one.standing.scope,
                    one.standing.name,
                    one.standing.state,
                    one.standing.token,
                    one.standing.holder,
                    when(one.standing.acquired),
                    _until(one),
                    one.waiting,
                )
                for one in found
            ],
        )
    else:
        remark("No locks are taken." if not free else "No locks have been taken for a day.")


@command.command("break")
@click.argument("name")
@click.option("--reason", metavar="TEXT", required=True, help="Why: recorded, for others to read.")
@click.option("--app", "scope", metavar="NAME", default="", help="The App whose lock it is.")
@store_options
def break_(invocation: Invocation, name: str, reason: str, scope: str) -> None:
    """Take a lock away from its holder, and free it under a higher token.

    Its fenced transactions, and the resources that it protects, refuse the holder from now on. A
    holder that is alive is told at its next renewal; what it does elsewhere, this cannot stop.
    """
    from onejob.locks import broken
    from onejob.steps import carry

    by = f"{_user()}@{socket.gethostname()}"
    with invocation.store() as store:
        scope = scope or _scope(store.run(leases.listed(name=name, limit=2)), name)
        try:
            lock = carry(broken(scope, name, reason, by=by), store.run)
        except LookupError as error:
            raise Failure(f"{error.args[0]} See: onejob locks", code=USAGE) from error
        [after] = store.run(leases.listed(scope=scope, name=name, free=True, limit=1))
    if invocation.as_json:
        document(_as_json(after))
    else:
        data(f"{name}: taken away from {lock.holder}; free under token {lock.token}")
        remark(f"Who broke it, and why, is recorded: onejob why {shlex.quote(name)}")


def _scope(found: tuple[Listed, ...], name: str) -> str:
    """Return the one App that has a lock of this name."""
    apps = [one.standing.scope for one in found]
    if not apps:
        raise Failure(f"no lock {name!r} is taken. See: onejob locks", code=USAGE)
    if len(apps) > 1:
        said = " and ".join(map(repr, apps))
        raise Failure(f"lock {name!r} is taken in {said}. Say which: --app NAME", code=USAGE)
    return apps[0]


def _until(one: Listed) -> str:
    standing = one.standing
    if standing.free:
        return "free"
    left = span(standing.expires - standing.now)
    return f"{left} left" if standing.state == "kept" else f"renewed, else {left}"


def _as_json(one: Listed) -> dict[str, object]:
    standing = one.standing
    return {
        "app": standing.scope,
        "name": standing.name,
        "state": standing.state,
        "token": standing.token,
        "holder": standing.holder or None,
        "since": utc(standing.acquired),
        "until": utc(standing.expires),
        "waiting": one.waiting,
        "protects": json.loads(standing.resources),
    }


def _user() -> str:
    """Return who acts: by name where this machine knows one, as a container often doesn't."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "somebody"
