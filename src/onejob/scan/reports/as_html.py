"""HTML: one self-contained page, without scripts and without anything fetched from elsewhere."""

from __future__ import annotations

import unicodedata
from html import escape
from itertools import groupby

from onejob.scan.engine import Scan
from onejob.scan.finding import UNGUARDED, Finding
from onejob.scan.reports.table import summary

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin-bottom: 1rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; }
tr + tr td { border-top: 1px solid #8884; }
code { font-size: .9em; overflow-wrap: anywhere; }
h2.bad { color: #c22; }
.small { opacity: .75; font-size: .9em; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report(scan: Scan) -> str:
    """Return the page; everything that was scanned is escaped."""
    ordered = sorted(scan.findings, key=lambda f: (f.verdict.rank, f.path, f.line))
    groups = [
        _group(str(verdict), list(found), bad=verdict in UNGUARDED)
        for verdict, found in groupby(ordered, key=lambda f: f.verdict)
    ]
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>Where jobs are triggered</title><style>{_STYLE}</style></head><body>",
            f"<h1>Where jobs are triggered</h1><p>{_text(summary(scan))}.</p>",
            *groups,
            *_notes(scan),
            "</body></html>",
        )
    )


def _group(verdict: str, found: list[Finding], *, bad: bool) -> str:
    rows = "\n".join(map(_row, found))
    heading = (
        "<tr><th>place</th><th>what</th><th>runs per tick</th><th>why, and what to do</th></tr>"
    )
    mark = ' class="bad"' if bad else ""
    return f"<h2{mark}>{_text(verdict)} ({len(found)})</h2>\n<table>{heading}\n{rows}</table>"


def _row(finding: Finding) -> str:
    see = ", ".join(f"{each.path}:{each.line}" for each in finding.related)
    small = [finding.advice, f"see {see}" if see else "", f"rule {finding.rule}"]
    under = "".join(f'<div class="small">{_text(each)}</div>' for each in small if each)
    what = " ".join(filter(None, (finding.kind, finding.name)))
    schedule = f"<br><code>{_text(finding.schedule)}</code>" if finding.schedule else ""
    return (
        f"<tr><td><code>{_text(finding.path)}:{finding.line}</code></td>"
        f"<td>{_text(what)}{schedule}</td><td>{_text(finding.runs_per_tick)}</td>"
        f"<td>{_text(finding.reason)}{under}</td></tr>"
    )


def _notes(scan: Scan) -> list[str]:
    if not scan.notes:
        return []
    lines = "".join(f"<li>{_text(note.path)}: {_text(note.text)}</li>" for note in scan.notes)
    return [f"<h2>Not judged</h2><ul>{lines}</ul>"]


def _text(value: str) -> str:
    kept = "".join(
        c for c in value if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
    )
    return escape(kept)
