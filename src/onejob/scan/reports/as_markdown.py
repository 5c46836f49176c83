"""Markdown: for a comment on a change, or a page of a wiki. What was scanned cannot mark it up."""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

from onejob.scan.engine import Scan
from onejob.scan.finding import Finding
from onejob.scan.reports.table import summary

_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+!|~@])")


def report(scan: Scan) -> str:
    """Return a heading, a summary, and one table for each verdict, worst first."""
    parts = ["# Where jobs are triggered", escaped(summary(scan)) + "."]
    ordered = sorted(scan.findings, key=lambda f: (f.verdict.rank, f.path, f.line))
    for verdict, group in groupby(ordered, key=lambda f: f.verdict):
        found = list(group)
        rows = [
            "| place | what | schedule | runs per tick | why | rule |",
            "|---|---|---|---|---|---|",
            *map(_row, found),
        ]
        parts += [f"## {verdict} ({len(found)})", "\n".join(rows)]
        advice = dict.fromkeys(each.advice for each in found if each.advice)
        parts += [f"- {escaped(each)}" for each in advice]
    return "\n\n".join(parts) + "\n"


def _row(finding: Finding) -> str:
    what = " ".join(filter(None, (finding.kind, finding.name)))
    cells = (
        f"{finding.path}:{finding.line}",
        what,
        finding.schedule,
        finding.runs_per_tick,
        finding.reason,
        finding.rule,
    )
    return "| " + " | ".join(map(escaped, cells)) + " |"


def escaped(text: str) -> str:
    """Return text on one line in which nothing is markup."""
    one = "".join(
        c if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else " " for c in text
    )
    return _MARKUP.sub(r"\\\1", one)
