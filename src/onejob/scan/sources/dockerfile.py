"""Dockerfiles: what the image starts, how many of it, and crontabs that are built into it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from onejob.scan.command import started
from onejob.scan.facts import Fact, Launch, Setting, Smell
from onejob.scan.launching import Place, launches
from onejob.scan.reading import SourceFile
from onejob.scan.sources.shell import cron_lines

PATTERNS = (
    "dockerfile*",
    "*.dockerfile",
    "*dockerfile",
    "containerfile*",
    "*.containerfile",
)

INSTRUCTIONS_MAX = 2_000
_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+(.*)", re.DOTALL)
_PAIR = re.compile(r"([A-Za-z_]\w*)=(\"(?:\\.|[^\"])*\"|'[^']*'|\S*)")
_COUNTS = re.compile(r"WORKER|CONCURRENCY|PROCESSES|REPLICAS|INSTANCES|THREADS")
_CODE = (".py", ".rb", ".js", ".ts", ".go", ".java", ".md", ".yml", ".yaml", ".json")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, with its continuation lines joined."""

    name: str
    text: str
    line: int
    lines: tuple[str, ...]


def instructions(file: SourceFile) -> list[Instruction]:
    """Return the instructions of a Dockerfile; comments between continuation lines are left out."""
    found: list[Instruction] = []
    gathered: list[str] = []
    begins = 0
    for number, raw in enumerate(file.lines, start=1):
        if raw.lstrip().startswith("#") or (gathered and not raw.strip()):
            if gathered:
                gathered.append("")
            continue
        if not gathered:
            begins = number
        gathered.append(raw)
        if raw.rstrip().endswith(("\\", "`")):
            continue
        joined = "\n".join(gathered)
        match = _INSTRUCTION.match(joined)
        if match and len(found) < INSTRUCTIONS_MAX:
            name = match[1].upper()
            found.append(Instruction(name, match[2], begins, tuple(gathered)))
        gathered = []
    return found


def read(file: SourceFile) -> Iterator[Fact]:
    """Return what each stage's last command starts, and settings that say how often."""
    if file.name.lower().endswith(_CODE):
        return
    last: dict[str, Instruction] = {}
    words = (file.path.rpartition("/")[0], file.name.partition(".")[2])
    for each in [*instructions(file), Instruction("FROM", "", 0, ())]:
        match each.name:
            case "FROM":
                yield from _stage(file, last, words)
                last = {}
            case "CMD" | "ENTRYPOINT":
                last[each.name] = each
            case "ENV":
                yield from _settings(file, each)
            case "RUN" if "cron" in each.text:
                yield from cron_lines(file, list(each.lines), each.line)
            case _:
                pass


def _settings(file: SourceFile, instruction: Instruction) -> Iterator[Setting]:
    text = instruction.text
    pairs = _PAIR.findall(text) or [tuple(text.split(None, 1))] if text.strip() else []
    for pair in pairs:
        if (
            len(pair) == 2
            and _COUNTS.search(pair[0])
            and re.fullmatch(r"[\"']?\d{1,4}[\"']?", pair[1])
        ):
            line = instruction.line
            for offset, part in enumerate(instruction.lines):
                if re.search(rf"\b{re.escape(pair[0])}\b", part):
                    line = instruction.line + offset
                    break
            yield Setting(f"env.{pair[0]}", pair[1].strip("\"'"), file.path, line)


def _stage(
    file: SourceFile, last: dict[str, Instruction], words: tuple[str, ...]
) -> Iterator[Fact]:
    entrypoint, command = last.get("ENTRYPOINT"), last.get("CMD")
    shown = command or entrypoint
    if shown is None:
        return
    arguments = [*_arguments(entrypoint), *_arguments(command)]
    if entrypoint and command and not _is_list(entrypoint.text):
        arguments = _arguments(entrypoint)  # the shell form takes no arguments
    for fact in launches(arguments, Place(file.path, shown.line, "docker", "", words)):
        yield fact
        if isinstance(fact, Launch):
            yield from _shell_first(file, command if command and not entrypoint else entrypoint)


def _arguments(instruction: Instruction | None) -> list[str]:
    if instruction is None:
        return []
    text = instruction.text.replace("\\\n", " ")
    if _is_list(text):
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = re.findall(r"\"([^\"]*)\"|'([^']*)'", text)
            return [first or second for first, second in parsed]
        return [str(each) for each in parsed]
    return ["sh", "-c", text]


def _is_list(text: str) -> bool:
    return text.strip().startswith("[")


def _shell_first(file: SourceFile, instruction: Instruction | None) -> Iterator[Smell]:
    """See a shell as process 1: it does not pass SIGTERM on, and jobs are killed in the middle."""
    if instruction is None:
        return
    text = instruction.text.strip()
    if _is_list(text):
        arguments = _arguments(instruction)
        if len(arguments) < 3 or arguments[0].rpartition("/")[2] not in ("sh", "bash"):
            return
        text = arguments[2] if arguments[1].endswith("c") else ""
    found = [each for each in started(text) if each.kind or each.fires in ("web", "worker")]
    if found and not any(each.execs for each in found):
        yield Smell(
            kind="shell-as-pid-1",
            path=file.path,
            line=instruction.line,
            language="docker",
            name=found[0].program,
            why="a shell is process 1 here and does not pass SIGTERM on: what it started is killed "
            "in the middle of a job when the container stops",
        )
