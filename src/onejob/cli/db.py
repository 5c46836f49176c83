"""``onejob db``: look at the SQL itself."""

from __future__ import annotations

import click

from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import document
from onejob.stores.catalogue import Catalogue


@click.group("db")
@store_options
def command(invocation: Invocation) -> None:
    """Show the SQL that is sent."""


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
