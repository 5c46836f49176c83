"""uWSGI's configuration: its own cron, daemons that it attaches, mules and processes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.command import number
from onejob.scan.facts import Fact, Guard, Launch, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.launching import Place, launches
from onejob.scan.reading import SourceFile
from onejob.scan.sources.crontab import entry

PATTERNS = (
    "uwsgi*.ini*",
    "*uwsgi.ini",
    "uwsgi*.yml",
    "uwsgi*.yaml",
    "*.uwsgi",
    "uwsgi*.conf",
    "*.ini",
)

_CRON = re.compile(r"-?\d+\s+-?\d+\s+-?\d+\s+-?\d+\s+-?\d+\s+\S")


def read(file: SourceFile) -> Iterator[Fact]:
    """Return crons, attached daemons and processes of a uWSGI file."""
    if (
        not re.search(r"(?m)^\s*\[uwsgi\]|^\s*uwsgi\s*:", file.text)
        and "uwsgi" not in file.name.lower()
    ):
        return
    for line, text in enumerate(file.lines, start=1):
        content = text.strip()
        if not content or content[0] in "#;":
            continue
        pair = re.match(r"-?\s*([\w-]+)\s*[=:]\s*(.*)", content)
        if pair is None:
            continue
        key, value = pair[1], pair[2].strip()
        match key:
            case "cron" | "cron2" | "legion-cron" | "unique-cron" | "unique-legion-cron":
                yield from _cron(file, line, key, value)
            case (
                "attach-daemon"
                | "smart-attach-daemon"
                | "attach-daemon2"
                | "mule"
                | "legion-attach-daemon"
            ):
                command = re.sub(r"^(?:/\S+\.pid|[\w-]+=\S+?,\s*cmd=)\s*", "", value)
                yield from launches(command, Place(file.path, line, "uwsgi", "", (key,)))
            case "processes" | "workers" | "p":
                workers, variable = number(value)
                yield Launch(
                    kind="web-workers" if workers != 1 else "process",
                    path=file.path,
                    line=line,
                    language="uwsgi",
                    name="uwsgi",
                    words=_modules(file),
                    fires="web",
                    workers=workers,
                    workers_from=variable,
                    verdict=Verdict.MULTIPLIER if workers != 1 else Verdict.SINGLE,
                    why=f"starts {workers or 'several'} processes, and each loads everything",
                    reported=workers != 1,
                )
            case _:
                pass


def _modules(file: SourceFile) -> tuple[str, ...]:
    found = re.findall(r"(?m)^\s*(?:module|wsgi-file|wsgi)\s*[=:]\s*([\w./:]+)", file.text)
    return tuple(found[:5])


def _cron(file: SourceFile, line: int, key: str, value: str) -> Iterator[Trigger]:
    text = value
    if key.endswith("cron2"):
        given = dict(re.findall(r"(minute|hour|day|month|week)=(-?\d+)", value))
        fields = [given.get(name, "-1") for name in ("minute", "hour", "day", "month", "week")]
        text = " ".join(fields) + " " + value.rpartition(" ")[2]
    if not _CRON.match(text):
        return
    parts = text.split(None, 5)
    fields = ["*" if f == "-1" else f"*/{f[1:]}" if f.startswith("-") else f for f in parts[:5]]
    found = entry(" ".join([*fields, parts[5]]), line, user_field=False)
    if found is None:
        return
    guards = list(found.guards)
    if "legion" in key:
        why = "lets the lord of the legion run it; a split network has two"
        guards.append(Guard("legion", Verdict.WEAK_GUARD, line, why))
    yield Trigger(
        kind="uwsgi-cron",
        path=file.path,
        line=line,
        language="uwsgi",
        name=found.name,
        schedule=found.schedule,
        target=found.name,
        guards=tuple(guards),
        fires="host",
        words=found.words,
        why="every host's uWSGI master runs it",
    )
