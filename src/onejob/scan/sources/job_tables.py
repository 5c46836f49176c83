"""Tables of schedules in YAML: sidekiq-cron and -scheduler, resque-scheduler, solid_queue, que."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.facts import Fact, Guard, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.manifest import Node, documents
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import never
from onejob.scan.sources.ruby.script import written

PATTERNS = (
    "sidekiq*.yml",
    "sidekiq*.yaml",
    "*schedule*.yml",
    "*schedule*.yaml",
    "recurring*.yml",
    "recurring*.yaml",
    "*cron*.yml",
    "*cron*.yaml",
    "*/recurring/*.yml",
)

_WHY = {
    "solid-queue": "its library inserts one row for each fire time, under a unique key",
    "que-scheduler": "its library keeps its state in one row, which each run locks",
    "resque-scheduler": "one scheduler holds a lock in Redis",
}
_ENVIRONMENTS = ("production", "default", "staging", "development", "test", "shared")


def read(file: SourceFile) -> Iterator[Fact]:
    """Return one trigger for each entry with a schedule and a class."""
    if ".github/" in file.path or not re.search(r"cron|every|schedule", file.text):
        return
    for document in documents(file.text):
        for table in _tables(document):
            in_table = table is not document
            for name, entry in list(table.entries.items())[:2_000]:
                line = table.line_of(name)
                yield from _entry(file, name.lstrip(":"), line, entry, in_table=in_table)


def _tables(document: Node) -> Iterator[Node]:
    """Return the nodes whose entries are jobs: the file itself, an environment, ``:schedule:``."""
    for path in (
        (":schedule",),
        ("schedule",),
        (":scheduler", ":schedule"),
        ("scheduler", "schedule"),
    ):
        found = document.at(*path)
        if found is not None and found.entries:
            yield found
            return
    environments = [document.entries[e] for e in _ENVIRONMENTS if e in document.entries]
    if environments:
        yield environments[0]
    else:
        yield document


def _get(entry: Node, *names: str) -> Node | None:
    for name in names:
        for key in (name, f":{name}"):
            if key in entry.entries:
                return entry.entries[key]
    return None


def _entry(
    file: SourceFile, name: str, line: int, entry: Node, *, in_table: bool
) -> Iterator[Trigger]:
    """Read one entry; in a table that is called one, its key may be the class."""
    when = _get(entry, "cron", "every", "schedule", "interval")
    job = _get(entry, "class", "job_class", "command", "klass", "job")
    told = job is not None or _get(entry, "queue", "args", "description") is not None
    if when is None or not (told or (in_table and name[:1].isupper())):
        return
    text = when.text or (when.items[0].text if when.items else "")
    schedule = written(text) or (written(f"every {text}") if text else "")
    kind = _kind(file, entry)
    guards = []
    enabled, status = _get(entry, "enabled"), _get(entry, "status")
    off = enabled is not None and enabled.text.lower() == "false"
    if off or (status is not None and status.text == "disabled"):
        guards.append(Guard("enabled: false", Verdict.DISABLED, entry.line))
    if schedule and never(schedule):
        guards.append(Guard(schedule, Verdict.NEVER, when.line))
    named = job.text if job is not None and _get(entry, "command") is None else ""
    yield Trigger(
        kind=kind,
        path=file.path,
        line=line,
        language="yaml",
        name=re.sub(r"[^\w:.-]", "", named or name)[:60],
        schedule=schedule,
        target=re.sub(r"[^\w:.]", "", named),
        guards=tuple(guards),
        alone=Verdict.GUARDED,
        why=_WHY.get(kind, "its library adds one entry to Redis for each fire time"),
    )


def _kind(file: SourceFile, entry: Node) -> str:
    name = file.name.lower()
    if name.startswith("recurring") or ("schedule" in entry.entries and "que_" not in name):
        return "solid-queue"
    if "resque" in name:
        return "resque-scheduler"
    if "que_" in name:
        return "que-scheduler"
    if re.search(r"(?m)^\s*:?schedule(?:r)?:", file.text):
        return "sidekiq-scheduler"
    return "sidekiq-cron"
