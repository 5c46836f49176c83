"""``onejob init``: install or upgrade the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import data, document, remark

if TYPE_CHECKING:
    from onejob.cli.invocation import AnyStore


#: What to do next, where no worker can be started.
_NEXT = {
    "mariadb": "This store keeps locks, fences, periods and guarded ticks. Next: onejob once NAME "
    "-- COMMAND, or app.lock and app.guard in your code.",
    "sqlite": "A file is for this machine alone. Where there are several, name PostgreSQL with "
    "--url or ONEJOB_URL, and run this again. Next: onejob worker MODULE:APP, or onejob once NAME "
    "-- COMMAND",
}


@click.command("init")
@click.option("--sql", is_flag=True, help="Print the schema, with grants, instead of applying it.")
@store_options
def command(invocation: Invocation, sql: bool) -> None:
    """Install or upgrade onejob's tables.

    Safe to repeat, and safe to run on several machines at once: each migration is applied once.
    """
    with invocation.opened(check=False) as app:
        store: AnyStore = app.store  # type: ignore[assignment]  # memory:// was refused
        if sql:
            text = store.script()
            document({"sql": text}) if invocation.as_json else click.echo(text, nl=False)
            return
        done = store.init()
    if invocation.as_json:
        document({"from": done.before, "to": done.after, "applied": list(done.applied)})
    elif done.applied:
        data(f"{store.where}: tables at version {done.after}")
        remark(_NEXT.get(store.dialect, "Next: onejob worker MODULE:APP"))
    else:
        data(f"{store.where}: tables at version {done.after} already, nothing to do")
