"""``onejob explain``: what a database's error says was violated, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import IO, Any

import click

from onejob.cli.failure import FINDINGS
from onejob.cli.invocation import Invocation, store_options
from onejob.cli.output import data, document, remark, table
from onejob.core.sqlstates import STATES
from onejob.core.violation import UNKNOWN, Explanation, after
from onejob.errors import UsageError
from onejob.explaining import explanations

#: Distinct violations that are kept of one log; more are counted, and not told apart.
DISTINCT_MAX = 1_000


@click.command("explain")
@click.argument("file", required=False, default="-")
@click.option("--list", "listed", is_flag=True, help="List every SQLSTATE of class 23, 25 and 40.")
@click.option(
    "--constraint", metavar="NAME", help="The key that you mean: any other is another constraint."
)
@click.option("--values", is_flag=True, help="Show what the row held, where the error says it.")
@store_options
@click.pass_context
def command(
    ctx: click.Context,
    invocation: Invocation,
    file: str,
    listed: bool,
    constraint: str | None,
    values: bool,
) -> None:
    """Say what a database's error means: FILE, or stdin (-).

    An error as it was printed, a traceback, or a whole log of PostgreSQL, MariaDB, SQLite or of a
    program over them; in any language where the SQLSTATE or the server's number stands beside it.
    Each distinct violation is told once, with how often it came. Nothing is read from a store, and
    no value of a row is shown unless --values asks for it.

    Exits 1 where a violation was found, 0 where none was.
    """
    if listed:
        _list(invocation)
        return
    with _opened(file) as lines:
        counts = _counted(explanations(lines, constraint=constraint, values=values))
    found = _first_errors_first(counts)
    if invocation.as_json:
        document(_as_json(found))
    elif not found:
        data("No violation found.")
    else:
        _show(found, values=values)
    if found:
        ctx.exit(FINDINGS)


def _opened(file: str) -> IO[str]:
    if file == "-" and sys.stdin.isatty():
        remark("Paste the error, then Ctrl-D. Or: onejob explain FILE")
    try:
        return click.open_file(file, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}. Give a file, or pipe the text in: "
            "onejob explain < error.txt"
        ) from error


def _counted(found: Iterator[Explanation]) -> dict[Explanation, int]:
    counts: dict[Explanation, int] = {}
    for explanation in found:
        if explanation in counts or len(counts) < DISTINCT_MAX:
            counts[explanation] = counts.get(explanation, 0) + 1
    return counts


def _first_errors_first(counts: dict[Explanation, int]) -> list[tuple[Explanation, int]]:
    """Put what aborted transactions before the refusals that came of it, and point there."""
    causes = [each for each in counts if each.kind != "aborted-transaction"]
    found = [(each, counts[each]) for each in causes]
    for each, count in counts.items():
        if each.kind == "aborted-transaction":
            # Of two causes nobody can tell which: the log of the session does.
            found.append((after(causes[0], each) if len(causes) == 1 else each, count))
    return found


def _show(found: list[tuple[Explanation, int]], *, values: bool) -> None:
    columns = ["COUNT", "SQLSTATE", "NAME", "KIND", "CONSTRAINT", "TABLE", "COLUMNS"]
    rows = [
        [
            count,
            each.sqlstate,
            each.name,
            each.kind,
            each.constraint,
            each.table,
            ", ".join(each.columns),
        ]
        for each, count in found
    ]
    if values:
        columns.append("VALUES")
        for row, (each, _) in zip(rows, found, strict=True):
            row.append(each.values)
    table(columns, rows)
    told: set[str] = set()
    for each, _ in found:
        if each.advice in told:
            continue
        told.add(each.advice)
        what = f"{each.name} of {each.constraint}" if each.constraint else str(each.name)
        data("")
        data(f"{what}: {each.advice}")
        data(f"See {each.reference}")


def _as_json(found: list[tuple[Explanation, int]]) -> dict[str, Any]:
    """Return the first one's fields, and every one's below ``violations``."""
    all_of_them = [{**_fields(each), "count": count} for each, count in found]
    first = all_of_them[0] if all_of_them else {**_fields(UNKNOWN), "count": 0}
    return {**first, "violations": all_of_them}


def _fields(each: Explanation) -> dict[str, Any]:
    return {
        "sqlstate": each.sqlstate,
        "name": each.name,
        "constraint": each.constraint,
        "table": each.table,
        "columns": list(each.columns),
        "kind": each.kind,
        "advice": each.advice,
        "reference": each.reference,
        "database": each.database,
        **({"values": each.values} if each.values is not None else {}),
    }


def _list(invocation: Invocation) -> None:
    if invocation.as_json:
        document(
            [
                {
                    "sqlstate": state.code,
                    "name": state.name,
                    "kind": state.kind,
                    "meaning": state.meaning,
                    "advice": state.advice,
                    "reference": state.page,
                }
                for state in STATES.values()
            ]
        )
        return
    rows = [
        (state.code, state.name, state.kind, state.meaning, state.advice)
        for state in STATES.values()
    ]
    table(
        ("SQLSTATE", "NAME", "KIND", "MEANS", "DO"),
        rows,
        whole=True,
        spare=("KIND",),
        prose=("MEANS", "DO"),
    )
