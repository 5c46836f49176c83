"""Schedules in cloud templates and app specifications: CloudFormation, SAM, Serverless, Vercel, ...

These platforms deliver each fire time at least once. What receives it must know its key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.facts import Fact, Guard, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.launching import Place, launches
from onejob.scan.manifest import Node, documents
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import cron
from onejob.scan.sources.terraform import schedule_text

PATTERNS = (
    "*.yml",
    "*.yaml",
    "*.template",
    "*.template.json",
    "vercel.json",
    "function.json",
    "wrangler.toml",
    "wrangler.json*",
    "netlify.toml",
    "railway.json",
    "railway.toml",
    "fly.toml",
    "template.json",
    "serverless.json",
)

_WORDS = re.compile(
    r"ScheduleExpression|\bSchedule\b|\bschedules?\b|\bcrons?\b|\bcronSchedule\b|run_command"
    r"|dockerCommand|startCommand|schedule_interval"
)
_OWNED = re.compile(r"^\.github/|/\.github/|\.gitlab|docker-compose|dependabot|renovate|mkdocs")
_RATE = re.compile(r"^(?:rate|cron)\([^()]*\)$")
_WHY = "the platform delivers each fire time at least once"


def read(file: SourceFile) -> Iterator[Fact]:
    """Return the schedules of a cloud's template."""
    path, name = file.path.lower(), file.name.lower()
    if not _WORDS.search(file.text) or _OWNED.search(path):
        return
    if name.endswith(".toml"):
        yield from _toml(file)
        return
    found = documents(file.text)
    for document in found:
        if name == "vercel.json" or "crons" in document.entries:
            yield from _crons(file, document)
        if name == "function.json":
            yield from _azure(file, document)
        if name in ("cron.yaml", "cron.yml"):
            yield from _app_engine(file, document)
        if name in ("railway.json",):
            yield from _text(file, document.at("deploy", "cronSchedule"), "railway", "railway-cron")
        yield from _expressions(file, document)
        yield from _specification(file, document)


def _expressions(file: SourceFile, document: Node) -> Iterator[Trigger]:
    """See ``rate(...)`` and ``cron(...)`` under a schedule's key, wherever they stand."""
    names: dict[int, str] = {}
    for key, node, parent in document.walk():
        if key != "-" and node.entries:
            for child in node.entries.values():
                names.setdefault(id(child), key)
        known = key in (
            "ScheduleExpression",
            "Schedule",
            "schedule",
            "rate",
            "-",
            "schedule_expression",
        )
        if known and _RATE.match(node.text.strip()) and parent is not None:
            yield _trigger(
                file,
                node.line,
                _name(parent, names),
                schedule_text(node.text),
                "eventbridge",
                _switched_off(parent),
            )


def _name(parent: Node, names: dict[int, str]) -> str:
    given = parent.get("Name") or parent.get("name") or names.get(id(parent), "")
    return re.sub(r"[^\w.-]", "", given)[:60]


def _switched_off(node: Node) -> tuple[Guard, ...]:
    for key, off in (("State", "disabled"), ("Enabled", "false"), ("enabled", "false")):
        if node.get(key).lower() == off:
            return (Guard(f"{key}: {node.get(key)}", Verdict.DISABLED, node.line_of(key)),)
    return ()


def _crons(file: SourceFile, document: Node) -> Iterator[Trigger]:
    listed = document.at("crons") or Node(0)
    for item in listed.items[:100]:
        when = item.get("schedule") or item.text
        if cron(when):
            yield _trigger(file, item.line, item.get("path")[:60], cron(when), "vercel-cron", ())


def _azure(file: SourceFile, document: Node) -> Iterator[Trigger]:
    for binding in (document.at("bindings") or Node(0)).items[:20]:
        if binding.get("type") == "timerTrigger":
            name = file.path.rpartition("/")[0].rpartition("/")[2]
            line = binding.line_of("schedule")
            when = cron(binding.get("schedule"))
            yield _trigger(file, line, name, when, "azure-timer", ())


def _app_engine(file: SourceFile, document: Node) -> Iterator[Trigger]:
    for item in (document.at("cron") or Node(0)).items[:200]:
        when = item.get("schedule")
        if when and item.get("url"):
            text = cron(when) or re.sub(r"[^\w\s:,]", "", when)[:60]
            yield _trigger(file, item.line, item.get("url")[:60], text, "cloud-scheduler", ())


def _text(file: SourceFile, node: Node | None, name: str, kind: str) -> Iterator[Trigger]:
    if node is not None and cron(node.text):
        yield _trigger(file, node.line, name, cron(node.text), kind, ())


def _specification(file: SourceFile, document: Node) -> Iterator[Fact]:
    """App specifications of platforms: services with commands and counts, and cron jobs."""
    for group in ("services", "workers", "jobs"):
        for item in _items(document, group)[:100]:
            name = item.get("name")
            command = next(
                (k for k in ("run_command", "dockerCommand", "startCommand") if k in item.entries),
                "",
            )
            if item.get("type") == "cron" and cron(item.get("schedule")):
                line = item.line_of("schedule")
                yield _trigger(
                    file, line, name[:60], cron(item.get("schedule")), "platform-cron", ()
                )
            elif command:
                count = item.get("instance_count") or item.get("numInstances")
                place = Place(
                    file.path,
                    item.line_of(command),
                    "app-spec",
                    name,
                    (name, item.get("dockerfile_path")),
                    int(count) if count.isdigit() else None,
                    "rolling",
                )
                yield from launches(item.get(command), place)


def _items(document: Node, group: str) -> list[Node]:
    found = document.at(group) or document.at("spec", group)
    return found.items if found is not None else []


def _toml(file: SourceFile) -> Iterator[Trigger]:
    """Wrangler's ``crons = [...]``, Netlify's and Railway's schedules: read by line."""
    section = ""
    for number, text in enumerate(file.lines, start=1):
        content = text.strip()
        header = re.match(r"\[+([^\]]+)\]+", content)
        if header:
            section = header[1].strip("\"' ")
        match = re.match(r"(?:crons|schedule|cronSchedule)\s*=\s*(.+)", content)
        if match is None:
            continue
        name = section.rpartition(".")[2].strip("\"'") or file.name
        for written in re.findall(r"\"([^\"]+)\"|'([^']+)'", match[1]):
            when = cron(written[0] or written[1])
            if when:
                yield _trigger(file, number, name[:60], when, "platform-cron", ())


def _trigger(
    file: SourceFile, line: int, name: str, when: str, kind: str, guards: tuple[Guard, ...]
) -> Trigger:
    return Trigger(
        kind=kind,
        path=file.path,
        line=max(1, line),
        language="cloud",
        name=name,
        schedule=when,
        guards=guards,
        alone=Verdict.AT_LEAST_ONCE,
        fires="platform",
        why=_WHY,
        words=(name,),
    )
