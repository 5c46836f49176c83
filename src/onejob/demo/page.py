"""One self-contained page: figures, timelines as inline SVG, light and dark, fit for a phone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from onejob.demo.captions import Caption, caption
from onejob.demo.processes import Mark
from onejob.demo.result import Result, verdict
from onejob.demo.table import Drawable
from onejob.demo.timeline import Bar, Lane

#: The drawing's own units; it is scaled to the page.
WIDTH, LABEL, LANE_HEIGHT, BAR_HEIGHT = 720, 100, 30, 16


#: How a mark is drawn, and what it says when it is pointed at.
SIGNS = {
    "kill": ("✗", "killed"),
    "freeze": ("‖", "frozen"),
    "thaw": ("▸", "thawed"),
    "landed": ("●", "a write landed"),
    "refused": ("○", "a write was refused"),
}


def page(results: Sequence[Result], *, seed: int, faults: bool) -> str:
    """Return the page. Everything that is not written here is escaped."""
    acts = "\n".join(_act(result, caption(result.name, faults=faults)) for result in results)
    state = "good" if results[-1].once else "bad"
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>onejob demo</title>
<style>{STYLE}</style>
<main>
<h1>One night, one email each?</h1>
<p class="verdict {state}">{escape(verdict(results))}</p>
{_legend()}
{acts}
<footer>The same faults again: <code>onejob demo --seed {seed}</code></footer>
</main>
</html>
"""


def _act(result: Result, about: Caption) -> str:
    trouble = f'<p class="bad">{escape(result.trouble)}</p>' if result.trouble else ""
    return f"""<section>
<h2>{escape(result.name)}</h2>
<p>{escape(about.sentence)}</p>
<ul class="figures">{_figures(result)}</ul>{trouble}
<div class="drawing">{drawing(result)}</div>
</section>"""


def _figures(result: Result) -> str:
    figures: Iterable[tuple[str, int, str]] = (
        ("emails", result.emails, ""),
        ("duplicates", result.duplicates, "bad" if result.duplicates else "good"),
        ("missing", result.missing, "bad" if result.missing else "good"),
        ("killed", result.kills, ""),
        ("frozen", result.pauses, ""),
    )
    return "".join(
        f'<li class="{state}"><b>{number}</b> {name}</li>' for name, number, state in figures
    )


def drawing(result: Drawable) -> str:
    """Return a timeline as an SVG, with a title for those who don't see it."""
    lanes = result.timeline.lanes
    height = LANE_HEIGHT * len(lanes) + 24
    drawn = "".join(
        _lane(lane, LANE_HEIGHT * number, result.timeline.seconds)
        for number, lane in enumerate(lanes)
    )
    title = f"Who held what when in the act {result.name}, over {result.seconds:.1f} seconds"
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img"><title>{escape(title)}</title>'
        f"{drawn}{_axis(result.timeline.seconds, height)}</svg>"
    )


def _lane(lane: Lane, top: int, seconds: float) -> str:
    order = ("alive", "held", "sent", "frozen")
    bars = sorted(lane.bars, key=lambda bar: order.index(bar.what))
    middle = top + LANE_HEIGHT / 2
    return (
        f'<text x="0" y="{middle + 4:.0f}" class="name">{escape(lane.name)}</text>'
        + "".join(_bar(bar, middle, seconds) for bar in bars)
        + "".join(_mark(mark, middle, seconds) for mark in lane.marks)
    )


def _bar(bar: Bar, middle: float, seconds: float) -> str:
    left = _x(bar.since, seconds)
    width = max(1.5, _x(bar.until, seconds) - left)
    height = {"alive": 2, "frozen": 6}.get(bar.what, BAR_HEIGHT)
    return (
        f'<rect class="{bar.what}" x="{left:.1f}" y="{middle - height / 2:.1f}" '
        f'width="{width:.1f}" height="{height}" rx="1"/>'
    )


def _mark(mark: Mark, middle: float, seconds: float) -> str:
    sign, told = SIGNS[mark.what]
    return (
        f'<text class="mark {mark.what}" x="{_x(mark.at, seconds):.1f}" y="{middle + 6:.1f}">'
        f"{sign}<title>{told} after {mark.at:.1f} s</title></text>"
    )


def _axis(seconds: float, height: int) -> str:
    step = next(step for step in (0.5, 1, 2, 5, 10, 30, 60, 300, 3_600) if seconds / step <= 8)
    ticks = [number * step for number in range(int(seconds / step) + 1)]
    return "".join(
        f'<text class="tick" x="{_x(tick, seconds):.1f}" y="{height - 4}">{tick:g} s</text>'
        for tick in ticks
    )


def _x(at: float, seconds: float) -> float:
    return LABEL + (WIDTH - LABEL - 16) * max(0.0, min(1.0, at / max(seconds, 0.001)))


def _legend() -> str:
    keys = "".join(
        f'<li><svg viewBox="0 0 20 20"><rect class="{what}" x="0" y="{10 - height // 2}" '
        f'width="20" height="{height}"/></svg>{told}</li>'
        for what, height, told in (
            ("sent", 16, "sending"),
            ("held", 16, "holds the job"),
            ("alive", 2, "alive"),
            ("frozen", 6, "frozen"),
        )
    )
    marks = '<li><i class="kill">✗</i>killed</li><li><i class="thaw">▸</i>thawed</li>'
    return f'<ul class="legend">{keys}{marks}</ul>'


STYLE = """
:root { --ground: #fff; --ink: #1c2024; --quiet: #667079; --line: #d8dde2; --sent: #0a7a8f;
  --held: #b5dbe3; --frozen: #4a63c8; --bad: #b3261e; --good: #1b7a3d; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --ink: #e6e9ec; --quiet: #9aa4ad;
  --line: #394149; --sent: #45c3da; --held: #1f4f5a; --frozen: #90a4ff; --bad: #ff8a80;
  --good: #6fd08c; } }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .25rem; }
p { margin: 0 0 .5rem; }
.verdict { font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); }
ul { list-style: none; margin: 0 0 .75rem; padding: 0; display: flex; flex-wrap: wrap;
  gap: .25rem 1.25rem; }
.figures b { font-variant-numeric: tabular-nums; font-size: 1.15rem; }
.legend { color: var(--quiet); font-size: .85rem; }
.legend svg { width: 1.2em; height: 1.2em; vertical-align: -.25em; margin-right: .35em; }
.legend i { font-style: normal; margin-right: .35em; }
.drawing { border-top: 1px solid var(--line); padding-top: .25rem; }
.drawing svg { display: block; width: 100%; height: auto; }
.alive { fill: var(--quiet); } .held { fill: var(--held); } .sent { fill: var(--sent); }
.frozen { fill: var(--frozen); }
text { fill: var(--ink); font-size: 13px; }
.tick { fill: var(--quiet); font-size: 11px; text-anchor: middle; }
.mark { font-size: 18px; font-weight: bold; text-anchor: middle; }
.kill { fill: var(--bad); color: var(--bad); }
.refused { fill: var(--good); color: var(--good); }
.freeze, .thaw { fill: var(--frozen); color: var(--frozen); }
@media (max-width: 34rem) { text { font-size: 20px; } .tick { font-size: 17px; }
  .mark { font-size: 26px; } }
footer { margin-top: 2.5rem; color: var(--quiet); font-size: .85rem; }
"""
