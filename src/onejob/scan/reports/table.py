"""Text: grouped by verdict, worst first; what counts is said last, where a terminal shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from onejob.scan.engine import Scan
from onejob.scan.finding import UNGUARDED, Finding, Verdict
from onejob.scan.reading import SourceFile, read_file
from onejob.scan.reports.code import shown
from onejob.scan.schedules import explained

RELATED_MAX = 3
DIRECTORIES_MAX = 10


def lines(scan: Scan, code_root: Path | None = None) -> Iterator[tuple[str, str]]:
    """Return (text, style) for each line; with a root, also the lines that were scanned."""
    guarded = any(f.verdict is Verdict.GUARDED for f in scan.findings) and not scan.unguarded
    ordered = sorted(scan.findings, key=lambda f: (f.verdict.rank, f.path, f.line))
    for verdict, group in groupby(ordered, key=lambda f: f.verdict):
        found = list(group)
        style = "bold red" if verdict in UNGUARDED else "bold"
        yield f"{verdict}  {len(found)}", style
        for finding in found:
            yield from _one(finding)
            if code_root is not None:
                yield f"      | {_code(code_root, finding)}", "dim"
        if verdict is Verdict.MULTIPLIER and guarded:
            yield "  nothing to do: no trigger here is unguarded", "green"
            yield "", ""
            continue
        for advice in dict.fromkeys(each.advice for each in found if each.advice):
            rules = ", ".join(sorted({each.rule for each in found if each.advice == advice}))
            yield f"  do ({rules}): {advice}", "green"
        yield "", ""
    yield from _directories(scan.findings)
    yield summary(scan), "bold red" if scan.unguarded else "bold green"


def _one(finding: Finding) -> Iterator[tuple[str, str]]:
    what = " ".join(filter(None, (finding.kind, finding.name)))
    told = explained(finding.schedule)
    spoken = f": {told}" if told and told != finding.schedule else ""
    schedule = f" [{finding.schedule}{spoken}]" if finding.schedule else ""
    yield f"  {finding.path}:{finding.line}  {what}{schedule}  {finding.rule}", ""
    runs = f"; runs per tick: {finding.runs_per_tick}" if finding.runs_per_tick else ""
    sure = "" if finding.confidence == "high" else f" ({finding.confidence} confidence)"
    yield f"      {finding.reason}{runs}{sure}", "dim"
    places = [f"{each.path}:{each.line} {each.what}".rstrip() for each in finding.related]
    if places:
        more = f", and {len(places) - RELATED_MAX} more" if len(places) > RELATED_MAX else ""
        yield f"      see {', '.join(places[:RELATED_MAX])}{more}", "dim"


def _code(root: Path, finding: Finding) -> str:
    file = read_file(root if root.is_dir() else root.parent, finding.path)
    if not isinstance(file, SourceFile) or finding.line > len(file.lines):
        return ""
    return shown(file.lines[finding.line - 1], finding.language)


def _directories(findings: Iterable[Finding]) -> Iterator[tuple[str, str]]:
    counts = Counter(_top(f.path) for f in findings if f.role == "trigger")
    if len(counts) < 2:
        return
    bad = Counter(_top(f.path) for f in findings if f.role == "trigger" and f.verdict in UNGUARDED)
    yield "by directory", "bold"
    for directory, count in counts.most_common(DIRECTORIES_MAX):
        yield f"  {directory}: {count} triggers, {bad[directory]} unguarded", ""
    if len(counts) > DIRECTORIES_MAX:
        yield f"  and {len(counts) - DIRECTORIES_MAX} more directories", ""
    yield "", ""


def _top(path: str) -> str:
    parts = path.split("/")
    return "/".join(parts[: min(2, len(parts) - 1)]) or "."


def summary(scan: Scan) -> str:
    """Return the last line."""
    parts = [f"{scan.triggers} triggers, {scan.unguarded} unguarded, in {scan.files} files"]
    if scan.allowed:
        parts.append(f"{scan.allowed} allowed by comments")
    return "; ".join(parts)
