"""The figures of the acts as a table, and who held what when, for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from onejob.demo.result import Result, verdict
from onejob.demo.timeline import Bar, Lane, Timeline

#: A lane is drawn this wide where nothing says how wide the terminal is.
LANE_COLUMNS = 64

#: How a moment of a replica is drawn, the weightiest last. Styles only show on a terminal.
BARS = {
    "alive": ("─", "dim"),
    "held": ("▒", "cyan"),
    "sent": ("█", "cyan"),
    "frozen": ("·", "blue"),
}
#: Frozen, and the store still says that it holds the job.
FROZEN_HOLDER = ("░", "blue")
MARKS = {"kill": ("✗", "bold red"), "freeze": ("‖", "bold blue"), "thaw": ("▸", "bold blue")}
#: What became of a write, in the exercise with pauses only.
WRITES = {"landed": ("●", "bold"), "refused": ("○", "bold green")}

#: Shorter than a terminal of 80 columns.
LEGEND = "█ sending  ▒ ░ holds the job  ─ alive  ░ · frozen  ✗ kill  ‖ freeze  ▸ thaw"
#: What a column of the figures counts that its name alone does not say.
FIGURES_LEGEND = "asked: calls to the provider, which drops a repeated key"


def show(results: Sequence[Result], *, seed: int) -> None:
    """Print everything to stdout."""
    console = Console(file=sys.stdout, highlight=False)
    console.print(figures(results))
    console.print(Text(FIGURES_LEGEND, style="dim"))
    console.print()
    for result in results:
        console.print(drawn(result, columns=lane_columns(console.width)))
    console.print(Text(LEGEND, style="dim"))
    console.print()
    style = "bold green" if results[-1].once else "bold red"
    console.print(Text(verdict(results), style=style), soft_wrap=True)
    console.print(Text(f"The same faults again: onejob demo --seed {seed}", style="dim"))


def figures(results: Sequence[Result]) -> Table:
    """Return the table of the acts that are over."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("act")
    for column in ("replicas", "emails", "duplicates", "missing", "killed", "frozen", "asked", "s"):
        table.add_column(column, justify="right")
    for result in results:
        table.add_row(
            result.name,
            str(result.replicas),
            str(result.emails),
            _count(result.duplicates),
            _count(result.missing),
            str(result.kills or ""),
            str(result.pauses or ""),
            str(result.asked),
            f"{result.seconds:.1f}",
        )
    return table


class Drawable(Protocol):
    """What has a name and a timeline."""

    @property
    def name(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def timeline(self) -> Timeline: ...
    @property
    def trouble(self) -> str: ...


def drawn(result: Drawable, *, columns: int) -> RenderableType:
    """Return one act's timeline: a line for each replica."""
    title = Text(f"{result.name}  0 to {result.seconds:.1f} s", style="bold")
    if result.trouble:
        title.append(f"  {result.trouble}", style="red")
    width = max((len(lane.name) for lane in result.timeline.lanes), default=0)
    lines = [
        Text(f"  {lane.name:<{width}} ").append_text(_lane(lane, result.timeline.seconds, columns))
        for lane in result.timeline.lanes
    ]
    return Group(title, *lines)


def lane_columns(console_columns: int) -> int:
    """Return how wide a lane may be."""
    return max(20, min(LANE_COLUMNS, console_columns - 16))


def _lane(lane: Lane, seconds: float, columns: int) -> Text:
    cells: list[tuple[str, str]] = [(" ", "")] * columns
    order = list(BARS)
    for bar in sorted(lane.bars, key=lambda bar: order.index(bar.what)):
        for column in _columns(bar, seconds, columns):
            cells[column] = BARS[bar.what]
    frozen, held = (_covered(lane, what, seconds, columns) for what in ("frozen", "held"))
    for column in frozen & held:
        cells[column] = FROZEN_HOLDER
    for mark in lane.marks:
        cells[_column(mark.at, seconds, columns)] = {**MARKS, **WRITES}[mark.what]
    runs = [("".join(sign for sign, _ in run), style) for style, run in groupby(cells, _style)]
    return Text.assemble(*runs)


def _style(cell: tuple[str, str]) -> str:
    return cell[1]


def _covered(lane: Lane, what: str, seconds: float, columns: int) -> set[int]:
    bars = [bar for bar in lane.bars if bar.what == what]
    return {column for bar in bars for column in _columns(bar, seconds, columns)}


def _columns(bar: Bar, seconds: float, columns: int) -> range:
    return range(_column(bar.since, seconds, columns), _column(bar.until, seconds, columns) + 1)


def _column(at: float, seconds: float, columns: int) -> int:
    return max(0, min(columns - 1, int(at / max(seconds, 0.001) * columns)))


def _count(number: int) -> Text:
    return Text(str(number), style="red" if number else "green")
