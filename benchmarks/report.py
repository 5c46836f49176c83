"""Show what was measured: a table for people, JSON lines for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich.table import Table as Grid

from benchmarks.rounds import Column, Measured, Skipped, Table


def grid(title: str, table: Table, measured: Sequence[Measured]) -> Grid:
    """Return medians with, in small, the lowest and highest of the rounds."""
    drawn = Grid(title=title, title_justify="left", caption_justify="left")
    drawn.add_column("", no_wrap=True)
    # A figure that nobody has here, such as statements without pg_stat_statements, is no column.
    columns = [c for c in table.columns if any(result.values(c.key) for result in measured)]
    for column in columns:
        target = f"\n[dim]{column.target}[/dim]" if column.target else ""
        drawn.add_column(f"{column.head}{target}", justify="right", no_wrap=True)
    if table.against:
        drawn.add_column(f"of\n[dim]{table.against}[/dim]", justify="right")
    reference = _reference(table, measured)
    for result in measured:
        cells = [_cell(result, column) for column in columns]
        if table.against:
            mine = result.median(table.columns[0].key)
            cells.append(f"{mine / reference:.0%}" if mine and reference else "")
        label = f"[bold]{result.label}[/bold]" if result.ours else result.label
        drawn.add_row(label, *cells)
    notes = [f"{entry.label}: not run: {entry.why}" for entry in _skipped(table)]
    notes += [f"{result.label}: {failure}" for result in measured for failure in result.failures]
    drawn.caption = "\n".join(notes) or None
    return drawn


def lines(name: str, table: Table, measured: Sequence[Measured]) -> Iterator[str]:
    """Return one JSON line for each round, and one with the medians for each entry."""
    for result in measured:
        about = {"benchmark": name, "entry": result.label, "ours": result.ours}
        for number, figures in enumerate(result.rounds, 1):
            yield json.dumps({**about, "round": number, **figures})
        for failure in result.failures:
            yield json.dumps({**about, "failed": failure})
        keys = [column.key for column in table.columns if result.values(column.key)]
        yield json.dumps(
            {
                **about,
                "median": {key: result.median(key) for key in keys},
                "lowest": {key: min(result.values(key)) for key in keys},
                "highest": {key: max(result.values(key)) for key in keys},
                "rounds": len(result.rounds),
            }
        )
    for entry in _skipped(table):
        yield json.dumps({"benchmark": name, "entry": entry.label, "skipped": entry.why})


def _skipped(table: Table) -> list[Skipped]:
    return [entry for entry in table.entries if isinstance(entry, Skipped)]


def _reference(table: Table, measured: Sequence[Measured]) -> float | None:
    for result in measured:
        if result.label == table.against:
            return result.median(table.columns[0].key)
    return None


def _cell(result: Measured, column: Column) -> str:
    values = result.values(column.key)
    median = result.median(column.key)
    if median is None:
        return ""
    shown = f"{median:,.{column.digits}f}"
    if len(values) == 1:
        return shown
    low, high = min(values), max(values)
    return f"{shown}\n[dim]{low:,.{column.digits}f}-{high:,.{column.digits}f}[/dim]"
