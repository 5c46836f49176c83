"""systemd: timers, and the services that they or the boot start."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.command import started
from onejob.scan.facts import Fact, Function, Guard, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.launching import Place, launches
from onejob.scan.prefixed import guarded_by_us
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import CHARACTERS_MAX, every

PATTERNS = ("*.timer", "*.timer.*", "*.service", "*.service.*")

_TIMED = re.compile(
    r"(OnCalendar|OnUnitActiveSec|OnUnitInactiveSec|OnBootSec|OnStartupSec|OnActiveSec)\s*=\s*(.*)"
)
_REPEATS = ("OnCalendar", "OnUnitActiveSec", "OnUnitInactiveSec")
_SPAN = re.compile(r"(\d+)\s*(ms|s|sec|seconds?|m|min|minutes?|h|hr|hours?|d|days?|w|weeks?)?$")
_SIZES = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def read(file: SourceFile) -> Iterator[Fact]:
    """Return the timers of a ``.timer``, and what a ``.service`` starts."""
    unit = re.sub(r"\.(?:j2|erb|in|tmpl|tpl|epp)$", "", file.name.lower())
    if unit.endswith(".timer"):
        yield from _timer(file)
    elif unit.endswith(".service"):
        yield from _service(file)


def _timer(file: SourceFile) -> Iterator[Trigger]:
    name = file.name.partition(".timer")[0].rstrip("@")
    timed = [
        (number, match[1], match[2].strip())
        for number, text in enumerate(file.lines, start=1)
        if (match := _TIMED.match(text.strip())) and match[2].strip()
    ]
    unit = re.search(r"(?m)^\s*Unit\s*=\s*([\w@.-]{1,80})\s*$", file.text)
    repeating = [each for each in timed if each[1] in _REPEATS]
    for number, key, value in repeating[:20]:
        guards = []
        condition = re.search(r"(?m)^Condition(?:Host|PathExists|FirstBoot)=.+$", file.text)
        if condition and condition[0].startswith("ConditionHost"):
            line = file.text.count("\n", 0, condition.start()) + 1
            guards.append(Guard("ConditionHost", Verdict.HOST_ONLY, line, "names one host by hand"))
        yield Trigger(
            kind="systemd-timer",
            path=file.path,
            line=number,
            language="systemd",
            name=name[:60],
            schedule=_when(key, value),
            target=unit[1] if unit else f"{name}.service",
            guards=tuple(guards),
            fires="host",
            why="every host with this timer runs it",
            words=(name,),
        )


def _when(key: str, value: str) -> str:
    if key == "OnCalendar":
        return re.sub(r"[^\w*:/.,~ -]", "", value)[:CHARACTERS_MAX]
    span = _SPAN.match(value)
    if span is None:
        return ""
    unit = (span[2] or "s")[0] if span[2] != "ms" else "s"
    return every(int(span[1]) * _SIZES.get(unit, 1)) if int(span[1]) else ""


def _service(file: SourceFile) -> Iterator[Fact]:
    name = file.name.partition(".service")[0].rstrip("@")
    for number, text in enumerate(file.lines, start=1):
        match = re.match(r"ExecStart\s*=\s*[-@:+!]*\s*(\S.*)", text.strip())
        if match:
            place = Place(file.path, number, "systemd", name, (name,))
            yield from launches(match[1], place)
            ours = guarded_by_us(started(match[1]), number)
            if ours is not None:
                yield Function(f"{name}.service", file.path, number, (ours,))
