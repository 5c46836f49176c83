"""Crontab files, ``/etc/cron.d`` with its user field, ``cron.daily`` and its like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from onejob.scan.command import CHARACTERS_MAX, Started, started
from onejob.scan.facts import Fact, Guard, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.prefixed import guarded_by_us
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import cron, never

PATTERNS = (
    "crontab",
    "crontab.*",
    "crontab-*",
    "crontab_*",
    "*.crontab",
    "*.cron",
    "*-crontab",
    "*_crontab",
    "crontabs",
    "cron.txt",
    "root.cron",
    "*/cron.d/*",
    "*/crontabs/*",
    "*/cron.hourly/*",
    "*/cron.daily/*",
    "*/cron.weekly/*",
    "*/cron.monthly/*",
)

_CODE = (".py", ".rb", ".js", ".ts", ".go", ".java", ".kt", ".php", ".cs", ".md", ".yml", ".yaml")
_PERIODS = {
    "cron.hourly": "0 * * * *",
    "cron.daily": "0 0 * * *",
    "cron.weekly": "0 0 * * 0",
    "cron.monthly": "0 0 1 * *",
}
_NAMES = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat"
_VALUE = rf"(?:\d{{1,2}}|\*|{_NAMES})"
_FIELD = rf"{_VALUE}(?:-{_VALUE})?(?:/\d{{1,3}})?"
_FIELDS = rf"(?:{_FIELD}(?:,{_FIELD})*)"
_ALIASES = r"@(?:yearly|annually|monthly|weekly|daily|midnight|hourly|reboot|every_minute)"
_LINE = re.compile(
    rf"\s*(?P<when>{_FIELDS}(?:[ \t]+{_FIELDS}){{4}}|{_ALIASES})[ \t]+(?P<rest>\S.*)", re.IGNORECASE
)
#: A template may stand where a field does: `{{ minute }} 3 * * *`, `${MINUTE} 3 * * *`.
_ANY = rf"(?:{_FIELDS}|\{{\{{[^}}]*\}}\}}|\$\{{?\w+\}}?|<%=.*?%>)"
_TEMPLATED = re.compile(rf"\s*(?P<when>(?:{_ANY}[ \t]+){{5}})(?P<rest>\S.*)", re.IGNORECASE)
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}\$?(?=\s)|\{\{[^}]*\}\}(?=\s)|\$\{?\w+\}?(?=\s)")
_HOST_LOCKS = re.compile(
    r"(?:^|[\s/;&])(flock|lockrun|setlock|run-one|run-this-one|solo|lckdo|with-lock-ex|chpst\s+-[lL])\b"
)
_HOST_TEST = re.compile(r"hostname\b[^&|]*(?:==?|grep)|\bHOSTNAME\b[^&|]*==?")
_SHARED_LOCKS = re.compile(r"\b(consul\s+lock|etcdctl\s+lock|cronlock|redis-lock|zklock|cronsul)\b")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a crontab."""

    schedule: str
    name: str
    words: tuple[str, ...]
    guards: tuple[Guard, ...]


def entry(text: str, line: int, *, user_field: bool) -> Entry | None:
    """Read one line; None for what is no entry: comments, settings, prose."""
    match = _LINE.match(text) or _TEMPLATED.match(text)
    if match is None or "/path/to/" in text or "=" in text[: match.end("when")].partition("{{")[0]:
        return None
    when, rest = " ".join(match["when"].split()), match["rest"]
    if user_field:
        user = _USER.match(rest)
        rest = rest[user.end() :].strip() if user else rest
    command = rest.replace("\\%", "%")
    found = started(command)
    words = tuple(dict.fromkeys(word for each in found for word in each.words))
    schedule = cron(when) or ("" if re.search(r"[{$<]", when) else when)
    return Entry(schedule, _name(words), words, tuple(_guards(command, found, schedule, line)))


def _guards(command: str, found: list[Started], schedule: str, line: int) -> Iterator[Guard]:
    if schedule and never(schedule):
        yield Guard(schedule, Verdict.NEVER, line)
    ours = guarded_by_us(found, line)
    if ours is not None:
        yield ours
    shared = _SHARED_LOCKS.search(command)
    if shared:
        name = shared[1].split()[0]
        why = "is held only while its session lives; nothing fences a holder that was paused"
        yield Guard(name, Verdict.WEAK_GUARD, line, why)
    lock = _HOST_LOCKS.search(command)
    if lock:
        why = "locks a file on this host; every other host has its own"
        yield Guard(lock[1].split()[0], Verdict.HOST_ONLY, line, why)
    elif _HOST_TEST.search(command):
        yield Guard("a test of the host's name", Verdict.HOST_ONLY, line, "names one host by hand")


_RUNNERS = frozenset(("manage.py", "artisan", "rake", "rails", "console", "wp", "drush", "flask"))
_PROGRAMS = re.compile(r"(?:python|php|ruby|node|perl)[\d.]*|java|bundle|bash|sh|root|www-data")
_OPERAND = re.compile(r"\d+|[\d./-]+|/(?:dev|var/log|tmp)/.*|.*\.(?:log|lock|pid|flock)")


def _name(words: tuple[str, ...]) -> str:
    """Name a command by its script, or by the sub-command of a framework's runner."""
    named = [word for word in words if not _OPERAND.fullmatch(word)]
    short = [word.rpartition("/")[2] for word in named]
    if "onejob" in short and "once" in short[:-1]:
        return short[short.index("once") + 1][:60]
    for position, word in enumerate(short):
        if word in _RUNNERS and position + 1 < len(short):
            return short[position + 1][:60]
    for word in short:
        if word and not _PROGRAMS.fullmatch(word) and not _HOST_LOCKS.match(word):
            return word[:60]
    return ""


def trigger(found: Entry, file: SourceFile, line: int, kind: str = "crontab") -> Trigger:
    """Return the fact that an entry is."""
    return Trigger(
        kind=kind,
        path=file.path,
        line=line,
        language="crontab",
        name=found.name,
        schedule=found.schedule,
        target=found.name,
        guards=found.guards,
        fires="host",
        words=found.words,
        why="every host with this crontab runs it",
    )


def read(file: SourceFile) -> Iterator[Fact]:
    """Return the entries of a crontab."""
    path = "/" + file.path.lower()
    if path.endswith(_CODE):
        return
    for directory, schedule in _PERIODS.items():
        if f"/{directory}/" in path:
            if file.name not in (".placeholder", ".gitkeep", "README") and file.text.strip():
                name = file.name[:60]
                known = started(file.text) if len(file.text) <= CHARACTERS_MAX else []
                guards = tuple(_guards(file.text[:20_000], known, schedule, 1))
                found = Entry(schedule, name, (name,), guards)
                yield trigger(found, file, 1, "cron-directory")
            return
    user_field = "/cron.d/" in path or (file.name == "crontab" and "/etc/" in path)
    for number, text in enumerate(file.lines, start=1):
        content = text.lstrip()
        if not content or content[0] in "#;":
            continue
        found_entry = entry(text, number, user_field=user_field or _has_user(text))
        if found_entry is not None:
            yield trigger(found_entry, file, number)


def _has_user(text: str) -> bool:
    """See a user field where the path doesn't promise one: a bare known user before a command."""
    return (
        re.match(r"\s*(?:\S+\s+){5}(?:root|www-data|nobody|ubuntu|deploy|app)\s+\S", text)
        is not None
    )
