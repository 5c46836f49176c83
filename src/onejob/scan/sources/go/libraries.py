"""Scheduler libraries of Go: robfig/cron, gocron, asynq, River, go-quartz."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.bodies import calls_in, for_itself, guards_in, without_comments
from onejob.scan.facts import Fact, Function, Guard, Setting, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.schedules import never
from onejob.scan.sources.go.unit import QUIET, Call, Unit
from onejob.scan.syntax import line, literal, nodes

_CRON_IMPORTS = ("robfig/cron", "go-cron", "/cron/v", "gopkg.in/robfig")
_CRON_NAMES = re.compile(r"cron|sched", re.IGNORECASE)
_CRON_MADE = re.compile(r"\bcron\.New\w*\(")


def libraries(unit: Unit) -> Iterator[Fact]:
    """Return the schedules that a file gives to a library, and settings of the library."""
    for call in unit.calls:
        match call.name:
            case "AddFunc" | "AddJob" | "AddFuncWithID" | "AddNamedFunc" if _is_cron(unit, call):
                position = 1 if len(call.arguments) > 2 and not _timed(unit, call, 0) else 0
                when = unit.schedule(call.text(position))
                yield _trigger(unit, call, "robfig-cron", when, position + 1)
            case "Schedule" if len(call.arguments) == 2 and unit.uses(*_CRON_IMPORTS):
                when = unit.span(call.text(0).partition("(")[2].rstrip(")"))
                yield _trigger(unit, call, "robfig-cron", when, 1)
            case "NewJob" if unit.uses("gocron") and call.arguments:
                if "OneTimeJob(" in call.text(0):
                    continue
                yield _trigger(unit, call, "gocron", _gocron(unit, call.text(0)), 1)
            case "Do" | "DoWithJobDetails" if unit.uses("gocron", "carlescere/scheduler"):
                yield from _chained(unit, call)
            case "Register" if unit.uses("hibiken/asynq") and _timed(unit, call, 0):
                yield _trigger(unit, call, "asynq", unit.schedule(call.text(0)), 1)
            case "NewPeriodicJob" if unit.uses("riverqueue/river"):
                when = unit.span(call.text(0).partition("(")[2].rstrip(")"))
                yield _trigger(unit, call, "river", when, 1)
            case "ScheduleJob" if unit.uses("reugn/go-quartz"):
                yield _trigger(unit, call, "go-quartz", unit.span(call.text(1)), 0)
            case (
                "Add"
                | "MustAdd"
                | "RegisterJob"
                | "AddTask"
                | "AddCronJob"
                | "AddCron"
                | "NewCronJob"
            ):
                position = next((p for p in range(3) if _written(unit, call, p)), -1)
                if position < 0 and _of_a_cron(unit, call):
                    position = 0
                if position >= 0 and len(call.arguments) > 1:
                    when = unit.schedule(call.text(position))
                    yield _trigger(unit, call, "own-cron", when, len(call.arguments) - 1)
            case "WithDistributedLocker" | "WithDistributedElector":
                name = f"gocron.{call.name.removeprefix('WithDistributed').lower()}"
                yield Setting(name, call.name, unit.file.path, call.line)
            case _:
                pass


def _is_cron(unit: Unit, call: Call) -> bool:
    """Tell a cron's AddFunc from a minifier's: by the import, the schedule, or the receiver."""
    if len(call.arguments) < 2:
        return False
    if _timed(unit, call, 0) or _timed(unit, call, 1):
        return True
    written = literal(call.text(0))
    if written:
        return False
    return unit.uses(*_CRON_IMPORTS) or _CRON_NAMES.search(call.receiver) is not None


def _of_a_cron(unit: Unit, call: Call) -> bool:
    """Decide whether the receiver was made by one of the many packages called ``cron``."""
    made = unit.constant(call.receiver) if re.fullmatch(r"[\w.]+", call.receiver) else ""
    path = unit.imports.get("cron", "")
    return path.rpartition("/")[0].count(".") > 0 and _CRON_MADE.match(made) is not None


def _timed(unit: Unit, call: Call, position: int) -> bool:
    text = call.text(position)
    found = unit.schedule(text)
    return bool(found) and not found.startswith("from ")


def _written(unit: Unit, call: Call, position: int) -> bool:
    return bool(literal(call.text(position))) and _timed(unit, call, position)


def _gocron(unit: Unit, job: str) -> str:
    name = re.match(r"\w+\.(\w+)\(", job)
    inner = job.partition("(")[2].rpartition(")")[0]
    match name[1] if name else "":
        case "DurationJob":
            return unit.span(inner)
        case "CronJob":
            return unit.schedule(inner.partition(",")[0]) or unit.schedule(inner.rpartition(",")[0])
        case "DailyJob" | "WeeklyJob" | "MonthlyJob" | "DurationRandomJob" as kind:
            return f"every {kind.removesuffix('Job').lower()}"
        case _:
            return unit.span(job)


_PERIODS = {"Second": "s", "Minute": "m", "Hour": "h", "Day": "d", "Week": "w", "Month": " months"}


def _chained(unit: Unit, call: Call) -> Iterator[Trigger]:
    """``s.Every(5).Minutes().Do(task)``, ``s.Cron("...").Do(task)``."""
    chain = call.receiver
    every = re.search(r"\.Every\(([^()]*(?:\([^()]*\))?[^()]*)\)(?:\.(\w+?)s?\(\))?", chain)
    written = re.search(r"\.Cron(?:WithSeconds)?\((\"[^\"]*\"|[\w.]+)\)", chain)
    if every is None and written is None:
        return
    if written:
        when = unit.schedule(written[1])
    elif every is not None and every[2] in _PERIODS:
        when = f"every {every[1] or 1}{_PERIODS[every[2]]}".replace("every 1 months", "every month")
    elif every is not None and literal(every[1]):
        when = f"every {literal(every[1])}"[:40]
    else:
        when = unit.span(every[1]) if every is not None else ""
    yield _trigger(unit, call, "gocron", when, 0)


def _trigger(unit: Unit, call: Call, kind: str, when: str, task: int) -> Trigger:
    body = without_comments(call.text(task))
    inline = "func(" in body
    given = re.match(r"\w+\.NewTask\(\s*(?:\w+\.)*(\w+)", body)
    name = (
        re.search(r"([A-Za-z_]\w*)\s*(?:\{[^{}]*\}|\([^()]*\))?\s*\)?$", body)
        if not inline
        else None
    )
    called = tuple(each for each in calls_in(body) if each not in QUIET) if inline else ()
    target = (
        given[1]
        if given and not inline
        else name[1]
        if name
        else called[0]
        if called
        else unit.names_around(call.node)[0]
    )
    guards = [*_alone(kind, call), *guards_in(body if inline else "", call.line)]
    if when and never(when):
        guards.append(Guard(when, Verdict.NEVER, call.line))
    own = for_itself(target) if not guards else ""
    return Trigger(
        kind=kind,
        path=unit.file.path,
        line=call.line,
        language="go",
        name=target[:60],
        schedule=when,
        target=target,
        marks=tuple(dict.fromkeys((*called[1:6], unit.names_around(call.node)[0]))),
        guards=tuple(guards),
        alone=Verdict.PER_PROCESS_OK if own else Verdict.UNGUARDED,
        fires="scheduler" if kind == "asynq" else "process",
        why=f"its name, {own}, says that it serves its own process" if own else "",
        confidence="medium" if own else "high",
    )


def _alone(kind: str, call: Call) -> Iterator[Guard]:
    if kind == "river":
        why = "lets its elected leader insert each job; a unique option keys it"
        yield Guard("River", Verdict.GUARDED, call.line, why)
    elif kind == "asynq" and "asynq.Unique(" in call.node.text():
        why = "keeps a lock in Redis that lapses"
        yield Guard("asynq.Unique", Verdict.WEAK_GUARD, call.line, why)


def functions(unit: Unit) -> Iterator[Function]:
    """Return the functions that guard, and those that only an elected leader starts."""
    strong = (Verdict.GUARDED, Verdict.NO_OVERLAP, Verdict.WEAK_GUARD)
    for name, number, body in unit.functions():
        guards = tuple(g for g in guards_in(body, number) if g.gives in strong and g.name != "lock")
        if guards and len(name) > 3:
            yield Function(name, unit.file.path, number, guards, calls_in(body))
    if "OnStartedLeading" in unit.file.text:
        why = "lets one leader run it; nothing fences a leader that has been replaced"
        for element in nodes(unit.root, "keyed_element"):
            if not element.text().startswith("OnStartedLeading"):
                continue
            guard = Guard("leader election", Verdict.WEAK_GUARD, line(element), why)
            body = without_comments(element.text().partition(":")[2])
            for name in (*calls_in(body), body.strip()):
                if re.fullmatch(r"\w+", name) and len(name) > 2:
                    yield Function(name, unit.file.path, line(element), (guard,))
