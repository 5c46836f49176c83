"""``onejob db``: look at the SQL itself."""

from __future__ import annotations

import click

from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import document
from onejob.commands.hot import hot
from onejob.errors import UsageError
from onejob.stores.catalogue import Catalogue
from onejob.stores.plans import plan


@click.group("db")
@store_options
def command(invocation: Invocation) -> None:
    """Show the SQL that is sent, and how the store carries it out."""


@command.command("show")
@click.argument("name", metavar="COMMAND", required=False)
@click.option(
    "--store",
    "dialect",
    type=click.Choice(["postgresql", "sqlite", "mariadb"]),
    default="postgresql",
    show_default=True,
    help="Whose text.",
)
@store_options
def show(invocation: Invocation, name: str | None, dialect: str) -> None:
    """Print the effective text of a COMMAND; without one, the names of all."""
    catalogue = Catalogue(dialect, "onejob")
    if name is None:
        names = catalogue.names()
        document(list(names)) if invocation.as_json else click.echo("\n".join(names))
        return
    text = catalogue.source(name)
    if invocation.as_json:
        document({"command": name, "store": dialect, "sql": text})
    else:
        click.echo(text)


@command.command("explain")
@click.argument("name", metavar="COMMAND", required=False)
@store_options
def explain(invocation: Invocation, name: str | None) -> None:
    """Print the plan of a hot COMMAND in the store at hand; without one, of all of them.

    Parameters stand in for real ones, and nothing is carried out. A plan is only as good as what
    the server knows about the tables: ANALYZE them first.
    """
    commands = hot()
    if name is not None and name not in commands:
        raise UsageError(f"{name!r} is not a hot command. Give one of: {', '.join(commands)}")
    with invocation.store() as store:
        plans = {one: plan(store, commands[one]) for one in commands if name in (None, one)}
    if invocation.as_json:
        document([{"command": one, "plan": lines} for one, lines in plans.items()])
        return
    for one, lines in plans.items():
        if name is None:
            click.echo(one)
        click.echo("\n".join(lines if name else [f"  {line}" for line in lines]))
