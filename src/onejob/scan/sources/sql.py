"""Schedules inside databases: pg_cron, MySQL events, tasks of Snowflake, jobs of Oracle.

Where and when is shown, never what: scheduled statements carry tokens in clear text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.facts import Fact, Guard, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import cron, every, never

PATTERNS = (
    "*.sql",
    "*.py",
    "*.rb",
    "*.ts",
    "*.js",
    "*.go",
    "*.php",
    "*.java",
    "*.kt",
    "*.cs",
    "*.ex",
)

_WORDS = re.compile(
    r"cron\.schedule|CREATE\s[^;\n]*\bEVENT\b|CREATE\s[^;]{0,60}\bTASK\b|DBMS_SCHEDULER", re.I
)
_TEXT = r"(?:'((?:[^'\n]|''){0,200})'|\$\$([^$\n]{0,200})\$\$|\\?\"([^\"\n]{0,200}?)\\?\")"
_PG_CRON = re.compile(
    rf"\b(?:select|perform|call|from)\s+(?:\w+\s*:?=\s*)?cron\.schedule(?:_in_database)?\s*\(\s*"
    rf"(?:\w+\s*(?:=>|:=)\s*)?{_TEXT}(?:\s*,\s*(?:\w+\s*(?:=>|:=)\s*)?{_TEXT})?",
    re.IGNORECASE,
)
_EVENT = re.compile(
    r"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:DEFINER\s*=\s*\S+\s+)?EVENT\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    r"([`\"\w.]+)\s+ON\s+SCHEDULE\s+EVERY\s+'?(\d+)'?\s+([A-Z]+)",
    re.IGNORECASE,
)
_TASK = re.compile(
    r"\bCREATE\s+(?:OR\s+REPLACE\s+)?TASK\s+(?:IF\s+NOT\s+EXISTS\s+)?([\"\w.]+)[^;]{0,600}?"
    r"\bSCHEDULE\s*=\s*'([^']{1,80})'",
    re.IGNORECASE,
)
_ORACLE = re.compile(
    r"DBMS_SCHEDULER\s*\.\s*CREATE_(?:JOB|SCHEDULE)\s*\([^;]{0,2000}?repeat_interval\s*=>\s*'([^']{1,120})'",
    re.IGNORECASE,
)
_SECONDS = {
    "SECOND": 1,
    "MINUTE": 60,
    "HOUR": 3_600,
    "DAY": 86_400,
    "WEEK": 604_800,
}
FOUND_MAX = 1_000


def read(file: SourceFile) -> Iterator[Fact]:
    """Return the schedules of a database that a file creates."""
    if not _WORDS.search(file.text):
        return
    text = _without_comments(file)
    yield from _pg_cron(file, text)
    if not file.path.lower().endswith(".sql"):
        return
    for match in _limited(_EVENT, text):
        size = _SECONDS.get(match[3].upper())
        when = every(int(match[2]) * size) if size else f"every {match[2]} {match[3].lower()}"
        tail = text[match.end() : match.end() + 300].partition(";")[0]
        guards = []
        number = _line(text, match)
        if re.search(r"\bDISABLE\s+ON\s+(?:SLAVE|REPLICA)\b", tail, re.IGNORECASE):
            why = "keeps it off on replicas"
            guards.append(Guard("DISABLE ON REPLICA", Verdict.SINGLE, number, why))
        elif re.search(r"\bDISABLE\b", tail, re.IGNORECASE):
            guards.append(Guard("DISABLE", Verdict.DISABLED, number))
        if re.search(r"\bGET_LOCK\s*\(", text[match.end() : match.end() + 3_000], re.IGNORECASE):
            why = "keeps two runs on one server apart"
            guards.append(Guard("GET_LOCK", Verdict.HOST_ONLY, number, why))
        why = "every server with its event scheduler on runs it, and runs may overlap"
        name = match[1].rpartition(".")[2]
        yield _trigger(file, number, "mysql-event", name, when, tuple(guards), why)
    for match in _limited(_TASK, text):
        why = "the warehouse keeps two runs of one task apart"
        guard = Guard("ALLOW_OVERLAPPING_EXECUTION", Verdict.NO_OVERLAP, _line(text, match), why)
        written = re.sub(r"USING\s+CRON\s+", "", match[2], flags=re.IGNORECASE)
        when = cron(" ".join(written.split()[:5])) or f"every {written.lower()}"
        yield _trigger(file, _line(text, match), "database-job", match[1], when, (guard,), "")
    for match in _limited(_ORACLE, text):
        when = re.sub(r"[^\w=;, ]", "", match[1])[:60]
        yield _trigger(
            file, _line(text, match), "database-job", "", when, (), "each database runs it"
        )


def _pg_cron(file: SourceFile, text: str) -> Iterator[Trigger]:
    for match in _limited(_PG_CRON, text):
        groups = match.groups()
        first = next((each for each in groups[:3] if each), "")
        second = next((each for each in groups[3:] if each), "")
        named = not cron(first) and not _seconds(first)
        when = _when(second if named else first)
        if not when and not named:
            continue
        number = _line(text, match)
        why = "runs it on the primary alone, and never two of one job at once"
        guards = [Guard("pg_cron", Verdict.NO_OVERLAP, number, why)]
        if when and never(when):
            guards.append(Guard(when, Verdict.NEVER, number))
        yield _trigger(file, number, "pg-cron", first if named else "", when, tuple(guards), "")


def _when(text: str) -> str:
    return cron(text) or _seconds(text)


def _seconds(text: str) -> str:
    match = re.fullmatch(r"(\d{1,2})\s+seconds?", text.strip())
    return every(int(match[1])) if match and int(match[1]) else ""


def _trigger(
    file: SourceFile,
    line: int,
    kind: str,
    name: str,
    when: str,
    guards: tuple[Guard, ...],
    why: str,
) -> Trigger:
    return Trigger(
        kind=kind,
        path=file.path,
        line=line,
        language="sql",
        name=re.sub(r"[^\w.:-]", "", name)[:60] if len(name) <= 80 else "",
        schedule=when,
        guards=guards,
        fires="host" if kind == "mysql-event" else "platform",
        why=why,
    )


def _limited(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    for count, match in enumerate(pattern.finditer(text)):
        if count >= FOUND_MAX:
            return
        yield match


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1


def _without_comments(file: SourceFile) -> str:
    """Blank comments out; in other languages only lines that are comments."""
    if file.path.lower().endswith(".sql"):
        blank = re.sub(r"/\*[\s\S]*?(?:\*/|\Z)", lambda m: "\n" * m[0].count("\n"), file.text)
        return re.sub(r"(?m)--[^\n]*$", "", blank)
    return re.sub(r"(?m)^\s*(?:#|//|\*).*$", "", file.text)
