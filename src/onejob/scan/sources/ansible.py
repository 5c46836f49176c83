"""Ansible's cron module: a line in the crontab of every host of the play."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.facts import Fact, Guard, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.manifest import Node, documents
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import cron
from onejob.scan.sources.crontab import entry

PATTERNS = (
    "*/tasks/*.yml",
    "*/tasks/*.yaml",
    "*/playbooks/*.yml",
    "playbook*.yml",
    "site.yml",
    "*cron*.yml",
)

_FIELDS = ("minute", "hour", "day", "month", "weekday")
_MODULES = ("cron", "ansible.builtin.cron")


def read(file: SourceFile) -> Iterator[Fact]:
    """Return the cron tasks of a play or a role."""
    if not re.search(r"(?m)^\s*-?\s*(?:ansible\.builtin\.)?cron:", file.text):
        return
    for document in documents(file.text):
        for key, node, parent in document.walk():
            if key in _MODULES and parent is not None:
                yield from _task(file, node, parent, parent.line_of(key))


def _task(file: SourceFile, module: Node, task: Node, line: int) -> Iterator[Trigger]:
    given = {name: child.text for name, child in module.entries.items()}
    if not given and module.text:
        given = dict(re.findall(r"(\w+)=(\"[^\"]*\"|'[^']*'|\S+)", module.text))
    job = given.get("job", "")
    if not job or given.get("state", "present").strip("\"'") == "absent":
        return
    if "special_time" in given:
        when = cron(f"@{given['special_time']}")
    else:
        when = " ".join(given.get(name, "*").strip("\"'") or "*" for name in _FIELDS)
    found = entry(f"{when} {job}", line, user_field=False)
    guards = list(found.guards) if found is not None else []
    if task.get("run_once").lower() in ("true", "yes"):
        why = "puts it on one host of the play"
        guards.append(Guard("run_once", Verdict.HOST_ONLY, task.line_of("run_once"), why))
    if given.get("disabled", "").lower() in ("true", "yes"):
        guards.append(Guard("disabled", Verdict.DISABLED, line))
    yield Trigger(
        kind="ansible-cron",
        path=file.path,
        line=line,
        language="ansible",
        name=re.sub(r"[^\w .:-]", "", given.get("name", ""))[:60] or (found.name if found else ""),
        schedule=found.schedule if found is not None else cron(when),
        target=found.name if found is not None else "",
        guards=tuple(guards),
        fires="host",
        words=found.words if found is not None else (),
        why="every host of the play runs it",
    )
