"""supervisord: programs, and how many processes of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from onejob.scan.facts import Fact, Launch
from onejob.scan.finding import Verdict
from onejob.scan.launching import Place, launches
from onejob.scan.reading import SourceFile

PATTERNS = (
    "supervisor*.conf*",
    "supervisor*.ini*",
    "*supervisor*.conf",
    "*/supervisor/*",
    "*/supervisor.d/*",
    "*/supervisord.d/*",
    "worker.conf",
    "*.conf.j2",
)


def read(file: SourceFile) -> Iterator[Fact]:
    """Return one launch for each program."""
    if "[program:" not in file.text:
        return
    name, begins = "", 0
    values: dict[str, tuple[str, int]] = {}
    for number, text in enumerate([*file.lines, "[end]"], start=1):
        header = re.match(r"\s*\[([^\]]+)\]", text)
        if header:
            if name and "command" in values:
                yield from _program(file, name, values)
            is_program = header[1].startswith("program:")
            name, begins = (header[1].partition(":")[2], number) if is_program else ("", number)
            values = {}
            continue
        pair = re.match(r"\s*([a-z_]+)\s*=\s*(.*)", text)
        if pair and name and begins:
            values[pair[1]] = (pair[2], number)


def _program(file: SourceFile, name: str, values: dict[str, tuple[str, int]]) -> Iterator[Fact]:
    command, line = values["command"]
    count = values.get("numprocs", ("1", 0))[0].strip()
    workers = int(count) if count.isdigit() else None
    plain = re.sub(r"[^\w.-]", "", name)[:60]
    for fact in launches(command, Place(file.path, line, "supervisor", plain, (plain,))):
        if isinstance(fact, Launch) and workers != 1:
            fires_many = fact.reported and fact.verdict is Verdict.SINGLE
            fact = replace(
                fact,
                workers=None if workers is None or fact.workers is None else workers * fact.workers,
                verdict=Verdict.MULTIPLIER if fires_many else fact.verdict,
                why=f"numprocs starts {workers or 'several'} of it" if fires_many else fact.why,
            )
        yield fact
