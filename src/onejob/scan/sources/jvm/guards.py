"""Guards in Java and Kotlin: annotations, the aspects behind them, ShedLock and Quartz settings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.bodies import calls_in, guards_in
from onejob.scan.facts import Fact, Function, Guard, Setting
from onejob.scan.finding import Verdict
from onejob.scan.sources.jvm.methods import Annotation, Method, Unit

_ASPECT = re.compile(r"@(?:annotation|within)\(\s*([\w.]+)\s*\)")
_PROVIDER = re.compile(
    r"\bnew\s+(\w+LockProvider)\b|\b(?:fun|LockProvider)\s+\w*[lL]ockProvider\w*\s*\("
    r"|:\s*LockProvider\b|\b(\w+LockProvider)\s*\("
)
_STRONG = (Verdict.GUARDED, Verdict.NO_OVERLAP, Verdict.WEAK_GUARD)
NAME_CHARACTERS_MIN = 5


def on_annotations(annotations: tuple[Annotation, ...]) -> Iterator[Guard]:
    """Return the guards that stand on the method itself."""
    for each in annotations:
        if each.name == "SchedulerLock":
            why = "lets a lock row of ShedLock decide who runs it"
            yield Guard("@SchedulerLock", Verdict.GUARDED, each.line, why)
        elif "SKIP" in each.arguments.get("concurrentExecution", ""):
            why = "skips within this process; other replicas run it all the same"
            yield Guard("concurrentExecution = SKIP", Verdict.INERT_GUARD, each.line, why)


def functions(unit: Unit) -> Iterator[Function]:
    """Return the methods whose bodies guard; a trigger elsewhere may call them."""
    for method in unit.methods:
        guards = tuple(g for g in guards_in(method.body, method.line) if g.gives in _STRONG)
        kept = tuple(guard for guard in guards if guard.name != "lock")
        if kept and len(method.name) >= NAME_CHARACTERS_MIN:
            yield Function(
                method.qualified,
                unit.file.path,
                method.line,
                guards=kept,
                calls=calls_in(method.body),
                marks=method.marks,
            )


def aspects(unit: Unit) -> Iterator[Function]:
    """Return the annotations that an aspect of this file puts a lock around."""
    for method in unit.methods:
        around = next((a for a in method.annotations if a.name in ("Around", "Before")), None)
        if around is None:
            continue
        expression = " ".join(around.arguments.values())
        for match in _ASPECT.finditer(_with_pointcuts(unit, expression)):
            name = _annotation_meant(match[1], method)
            guards = guards_in(method.body, method.line)
            if name and guards:
                yield Function(
                    name, unit.file.path, method.line, (_of_aspect(name, guards, method),)
                )


def _with_pointcuts(unit: Unit, expression: str) -> str:
    """Add what ``@Pointcut`` methods named in the expression say."""
    named = re.findall(r"\b(\w+)\(\)", expression)
    for method in unit.methods if named else ():
        for each in method.annotations:
            if each.name == "Pointcut" and method.name in named:
                expression += " " + " ".join(each.arguments.values())
    return expression


def _annotation_meant(text: str, method: Method) -> str:
    last = text.rpartition(".")[2]
    if last[:1].isupper():
        return last
    kotlin = re.search(rf"\b{re.escape(last)}\s*:\s*([\w.]+)", method.parameters)
    java = re.search(rf"([\w.]+)\s+{re.escape(last)}\s*[,)]", method.parameters)
    found = kotlin or java
    return found[1].rpartition(".")[2] if found else ""


def _of_aspect(name: str, guards: tuple[Guard, ...], method: Method) -> Guard:
    best = guards[0]
    if best.name == "lock":
        why = "has an aspect that goes on only if it got its lock"
        return Guard(f"@{name}", Verdict.GUARDED, method.line, why)
    return Guard(f"@{name}", best.gives, best.line, f"has an aspect with a {best.name}: {best.why}")


def settings(unit: Unit) -> Iterator[Fact]:
    """Return what switches ShedLock on."""
    text, path = unit.file.text, unit.file.path
    by_itself = "shedlock.micronaut" in text or "shedlock.cdi" in text
    for number, content in enumerate(unit.file.lines, start=1):
        stripped = content.lstrip()
        if stripped.startswith(("//", "*", "import ")):
            continue
        # Micronaut's and CDI's interceptors need no annotation that switches them on.
        if "@EnableSchedulerLock" in content or (by_itself and "@SchedulerLock" in content):
            yield Setting("shedlock.enabled", "true", path, number)
        provider = _PROVIDER.search(content)
        if provider and "shedlock" in text:
            yield Setting("shedlock.provider", provider[1] or provider[2] or "bean", path, number)
