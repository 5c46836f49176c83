"""What a command prints: one JSON document, or a table; remarks beside it on stderr."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from onejob.cli.text import cell, clean

#: Without a terminal nothing is wrapped or cut to some width: the reader is a program.
UNBOUNDED_WIDTH = 10_000


def document(value: object) -> None:
    """Print one JSON document on one line. ASCII only, so that no terminal obeys what is in it."""
    click.echo(json.dumps(value))


def data(sentence: str) -> None:
    """Print one line of data."""
    click.echo(clean(sentence))


def remark(sentence: str) -> None:
    """Tell something beside the data: on stderr."""
    click.echo(clean(sentence), err=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, whole: bool = False) -> None:
    """Print rows under their headings; plain text where stdout is no terminal.

    Long texts are cut unless ``whole``.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=UNBOUNDED_WIDTH)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(
            *(
                Text(clean(value) if whole else cell(value), style=_STYLES.get(str(value), ""))
                for value in row
            )
        )
    with console.capture() as captured:
        console.print(shown)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


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
