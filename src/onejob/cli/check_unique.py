"""``onejob check-unique``: duplicates that stand today, and the key that keeps new ones out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from onejob.cli.failure import FINDINGS
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import data, document, remark, table
from onejob.cli.text import counted
from onejob.cli.unique_databases import Duplicates, reader
from onejob.core.time import SECOND, Span, duration
from onejob.core.unique_key import (
    NAME_MOST,
    Column,
    Index,
    Table,
    cautions,
    key_name,
    named,
    standing,
    statements,
)
from onejob.errors import UsageError


@click.command("check-unique")
@click.argument("name", metavar="TABLE")
@click.option("--by", required=True, metavar="A,B", help="The columns of the key.")
@click.option("--name", "key", metavar="KEY", help="What the key is to be called.")
@click.option("--values", is_flag=True, help="Show the values that come more than once.")
@click.option("--timeout", default="60s", show_default=True, help="The count ends by then.")
@store_options
@click.pass_context
def command(
    ctx: click.Context,
    invocation: Invocation,
    name: str,
    by: str,
    key: str | None,
    values: bool,
    timeout: str,
) -> None:
    """Count what stands more than once in TABLE, and print the unique key that would keep it out.

    A table of yours, in the store's database; onejob's own tables need not be there. Nothing is
    written: the statements are printed, and are yours to run. They keep no writer waiting where the
    database can do that. NULLs count as equal. The count reads the whole table: ask a replica where
    it is big.

    Exits 1 where duplicates stand, 4 where the count did not end in time.
    """
    wanted = [part.strip() for part in by.split(",")]
    if not all(wanted):
        raise UsageError(
            f"--by {by!r}: name columns, with commas between them: --by customer,period"
        )
    longest = duration(timeout, what="--timeout", least=Span(SECOND))
    with invocation.opened(check=False) as app, reader(app.store, longest) as reading:
        found = reading.table(name)
        columns = named(found, wanted)
        keeps = standing(found, columns)
        duplicates = Duplicates() if keeps else reading.duplicates(found, columns)
    key = key or key_name(found, columns)
    if len(key.encode()) > NAME_MOST[found.database]:
        raise UsageError(f"--name has more than {NAME_MOST[found.database]} bytes.")
    notes = cautions(found, columns, key) if keeps is None else []
    ddl = statements(found, columns, key) if keeps is None else []
    if invocation.as_json:
        document(_as_json(columns, duplicates, ddl, notes, keeps, values))
    else:
        _show(found, columns, duplicates, ddl, notes, keeps, values)
    if duplicates.keys:
        ctx.exit(FINDINGS)


def _as_json(
    columns: Sequence[Column],
    duplicates: Duplicates,
    ddl: list[str],
    notes: list[str],
    keeps: Index | None,
    values: bool,
) -> dict[str, Any]:
    names = [column.name for column in columns]
    return {
        "duplicates": [
            {
                "rows": rows,
                "has_null": None in key,
                **({"key": dict(zip(names, map(_plain, key), strict=True))} if values else {}),
            }
            for rows, key in duplicates.sample
        ],
        "count": duplicates.keys,
        "surplus_rows": duplicates.surplus,
        "with_null": duplicates.with_null,
        "ddl": ddl,
        "warnings": notes,
        "key": keeps.name if keeps else None,
    }


def _show(
    found: Table,
    columns: Sequence[Column],
    duplicates: Duplicates,
    ddl: list[str],
    notes: list[str],
    keeps: Index | None,
    values: bool,
) -> None:
    names = ", ".join(column.name for column in columns)
    where = f"{found.name} ({names})"
    if keeps is not None:
        data(f"{where}: {keeps.name} keeps duplicates out already. Nothing to build.")
        return
    if not duplicates.keys:
        data(f"{where}: no duplicates, and no key that keeps them out.")
    else:
        told = counted(duplicates.keys, "key")
        more = f", {counted(duplicates.surplus, 'row')} too many"
        nulls = f"; {duplicates.with_null:,} of them with a NULL" if duplicates.with_null else ""
        data(f"{where}: {told} more than once{more}{nulls}.")
        if values:
            table(
                ("ROWS", *(column.name for column in columns)),
                [(rows, *map(_plain, key)) for rows, key in duplicates.sample],
            )
        else:
            remark("Their values are shown with --values.")
    for note in notes:
        remark(f"Note: {note}")
    if duplicates.keys:
        remark("Settle these first: on standing duplicates the statements below fail.")
    for statement in ddl:
        data(statement)


def _plain(value: object) -> object:
    """Return a value as JSON has it."""
    try:
        json.dumps(value)
    except TypeError:
        return str(value)
    return value
