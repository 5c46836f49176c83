"""What a command prints: one JSON document, or a table; remarks beside it on stderr."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from onejob.cli.text import cell, clean

#: Without a terminal nothing is wrapped or cut to some width: the reader is a program.
UNBOUNDED_WIDTH = 10_000

#: A column of sentences is not made narrower than this.
PROSE_LEAST = 16

#: Between two columns.
GAP = 2


def document(value: object) -> None:
    """Print one JSON document on one line. ASCII only, so that no terminal obeys what is in it."""
    click.echo(json.dumps(value))


def data(sentence: str) -> None:
    """Print one line of data."""
    click.echo(clean(sentence))


def remark(sentence: str) -> None:
    """Tell something beside the data: on stderr."""
    click.echo(clean(sentence), err=True)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    whole: bool = False,
    spare: Sequence[str] = (),
    prose: Sequence[str] = (),
) -> None:
    """Print rows under their headings; plain text where stdout is no terminal.

    Long texts are cut unless ``whole``. On a terminal that is too narrow, the columns ``spare`` are
    left out, the first of them first, and that is said. With them, only the columns ``prose`` are
    wrapped: an id, a key or an instant in two pieces can't be copied.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=UNBOUNDED_WIDTH)
    texts = [[clean(value) if whole else cell(value) for value in row] for row in rows]
    out: tuple[str, ...] = ()
    if spare and console.is_terminal:
        out, least = fitted(columns, texts, console.width, spare=spare, prose=prose)
        console = Console(highlight=False, width=max(console.width, least))
    kept = [index for index, column in enumerate(columns) if column not in out]
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for index in kept:
        whole_words = bool(spare) and columns[index] not in prose
        shown.add_column(columns[index], overflow="fold", no_wrap=whole_words)
    for row in texts:
        shown.add_row(*(Text(row[index], style=_STYLES.get(row[index], "")) for index in kept))
    with console.capture() as captured:
        console.print(shown)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())
    if out:
        remark(f"Left out at this width: {', '.join(out)}. A wider terminal or --json has all.")


def fitted(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    spare: Sequence[str],
    prose: Sequence[str],
) -> tuple[tuple[str, ...], int]:
    """Return which columns are left out so that the others fit, and what those need at the least.

    They may need more than there is: then lines are longer than the terminal is wide, and whole.
    """
    from rich.cells import cell_len

    needs = {
        column: max(cell_len(column), *(cell_len(row[index]) for row in rows), 0)
        for index, column in enumerate(columns)
    }
    for column in prose:
        needs[column] = min(needs[column], PROSE_LEAST)
    out: list[str] = []
    while (least := sum(needs.values()) + GAP * (len(needs) - 1)) > width and len(out) < len(spare):
        out.append(spare[len(out)])
        del needs[out[-1]]
    return tuple(out), least


_STYLES = {
    "succeeded": "green",
    "live": "green",
    "ok": "green",
    "running": "cyan",
    "failed": "red",
    "timed out": "red",
    "abandoned": "red",
    "broken": "red",
    "left": "dim",
    "dead": "red",
    "late": "yellow",
    "parked": "yellow",
    "unknown": "yellow",
    "paused": "yellow",
}
