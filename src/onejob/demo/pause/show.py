"""The exercise for a terminal, and as one self-contained page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape

from rich.console import Console
from rich.table import Table
from rich.text import Text

from onejob.demo.page import STYLE, drawing
from onejob.demo.pause.captions import CAPTIONS
from onejob.demo.pause.outcome import PauseResult, Written, held, verdict
from onejob.demo.table import drawn, lane_columns

LEGEND = "▒ ░ holds the lock  ─ alive  ░ · stalled  ▸ goes on  ● landed  ○ refused"


def show(results: Sequence[PauseResult]) -> None:
    """Print everything to stdout."""
    console = Console(file=sys.stdout, highlight=False)
    console.print(figures(results))
    console.print()
    for result in results:
        console.print(drawn(result, columns=lane_columns(console.width)))
        about = result.trouble or CAPTIONS[result.name].short
        console.print(Text(f"  {about}"), soft_wrap=True)
        for write in result.writes:
            console.print(Text(f"    {told(write)}", style="dim"), soft_wrap=True)
        if result.freed_another:
            console.print(Text("    the first one's release freed the second one's lock", "red"))
    console.print(Text(LEGEND, style="dim"))
    console.print()
    style = "bold green" if held(results) else "bold red"
    console.print(Text(verdict(results), style=style), soft_wrap=True)


def figures(results: Sequence[PauseResult]) -> Table:
    """Return a line for each way."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("way")
    for column in ("landed", "late", "freed another's", "s"):
        table.add_column(column, justify="right")
    for result in results:
        table.add_row(
            result.name,
            Text(str(result.landed), "green" if result.landed == 1 else "red"),
            Text(str(result.late), "red" if result.late else "green"),
            Text("yes", "red") if result.freed_another else "",
            f"{result.seconds:.1f}",
        )
    return table


def told(write: Written) -> str:
    """Say what became of one write."""
    token = "" if write.token is None else f" under token {write.token}"
    late = ", after it was overtaken" if write.late else ""
    if write.landed:
        return f"● {write.at:5.1f} s  the {write.who} one wrote{token}{late}"
    return f"○ {write.at:5.1f} s  the {write.who} one's write{token} was refused: {write.why}"


def page(results: Sequence[PauseResult]) -> str:
    """Return the page. Everything that is not written here is escaped."""
    acts = "\n".join(map(_act, results))
    state = "good" if held(results) else "bad"
    first = results[0]
    title = f"The lease is {first.ttl:g} s. The holder pauses for {first.pause:g} s."
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>onejob demo pause</title>
<style>{STYLE}</style>
<main>
<h1>{escape(title)}</h1>
<p class="verdict {state}">{escape(verdict(results))}</p>
<p>{escape(LEGEND)}</p>
{acts}
</main>
</html>
"""


def _act(result: PauseResult) -> str:
    about = CAPTIONS[result.name]
    writes = "".join(f"<li>{escape(told(write))}</li>" for write in result.writes)
    freed = "<li>The first one's release freed the second one's lock.</li>"
    trouble = f'<p class="bad">{escape(result.trouble)}</p>' if result.trouble else ""
    return f"""<section>
<h2>{escape(result.name)}</h2>
<p>{escape(about.sentence)}</p>{trouble}
<ul class="writes">{writes}{freed if result.freed_another else ""}</ul>
<div class="drawing">{drawing(result)}</div>
</section>"""
