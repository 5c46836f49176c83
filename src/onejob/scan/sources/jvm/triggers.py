"""Places in Java and Kotlin that start work by time, and listeners that take it from a queue."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onejob.scan.bodies import (
    answers,
    calls_in,
    for_a_person,
    for_itself,
    for_waiting,
    guards_in,
    takes_from_a_queue,
)
from onejob.scan.facts import Fact, Function, Guard, Trigger
from onejob.scan.finding import Confidence, Verdict
from onejob.scan.schedules import cron, never
from onejob.scan.sources.jvm import timing
from onejob.scan.sources.jvm.guards import on_annotations
from onejob.scan.sources.jvm.methods import Annotation, Call, Method, Unit
from onejob.scan.syntax import children, enclosing, line, nodes

_SCHEDULED = ("Scheduled", "Schedule", "Recurring")
_LISTENERS = re.compile(r"(?:Kafka|Rabbit|Jms|Sqs|Pulsar|Stream|ServiceBus)\w*Listener")
_FRAMEWORKS = (("io.micronaut.", "micronaut-scheduled"), ("io.quarkus.", "quarkus-scheduled"))
_RANDOM = re.compile(r"\brandom\b|Math\.random|Random\(|System\.currentTimeMillis|LocalTime\.now")


def triggers(unit: Unit) -> Iterator[Fact]:
    """Return the triggers of a file, and the functions that they run."""
    for method in unit.methods:
        yield from _annotated(unit, method)
    for call in unit.calls():
        yield from _called(unit, call)
    yield from _loops(unit)


def _annotated(unit: Unit, method: Method) -> Iterator[Fact]:
    scheduled = [a for a in method.annotations if a.name in _SCHEDULED and a.arguments]
    for annotation in scheduled:
        yield _scheduled(unit, method, annotation)
    if scheduled:
        yield _function(unit, method)
    for annotation in method.annotations:
        if _LISTENERS.fullmatch(annotation.name):
            yield Trigger(
                kind="consumer",
                path=unit.file.path,
                line=annotation.line,
                language=unit.language,
                name=method.qualified,
                target=method.qualified,
                alone=Verdict.CONSUMER,
                role="consumer",
                why="takes messages from a broker, which may hand the same one out again",
            )


def _scheduled(unit: Unit, method: Method, annotation: Annotation) -> Trigger:
    schedule = timing.annotated(unit, annotation)
    guards = list(on_annotations(method.annotations))
    written = annotation.arguments.get("cron", "")
    if written.strip("\"' ") in ("-", "off", "disabled"):
        guards.append(Guard("cron = -", Verdict.DISABLED, annotation.line))
    if schedule and never(_five(schedule)):
        guards.append(Guard(schedule, Verdict.NEVER, annotation.line))
    if _RANDOM.search(" ".join(annotation.arguments.values())):
        guards.append(Guard(schedule or "schedule", Verdict.PER_PROCESS_SCHEDULE, annotation.line))
    own = for_itself(method.name, method.owner) if not guards else ""
    kind = next((k for package, k in _FRAMEWORKS if package in unit.file.text), "spring-scheduled")
    alone = Verdict.PER_PROCESS_OK if own else Verdict.UNGUARDED
    why = f"its name, {own}, says that it serves its own process" if own else ""
    if annotation.name == "Recurring":
        kind, alone, why = (
            "jobrunr",
            Verdict.GUARDED,
            "its library keeps one row for each fire time",
        )
    elif annotation.name == "Schedule":
        kind = "ejb-timer"
        if annotation.arguments.get("persistent") != "false":
            why = "a persistent timer runs once per cluster only where the server shares its timers"
    return Trigger(
        kind=kind,
        path=unit.file.path,
        line=annotation.line,
        language=unit.language,
        name=method.qualified,
        schedule=schedule,
        target=method.qualified,
        marks=method.marks,
        guards=tuple(guards),
        alone=alone,
        why=why,
        confidence="medium" if own else "high",
    )


def _function(unit: Unit, method: Method) -> Function:
    return Function(
        method.qualified,
        unit.file.path,
        method.line,
        guards=guards_in(method.body, _body_line(unit, method)),
        calls=calls_in(method.body),
        marks=method.marks,
    )


def _body_line(unit: Unit, method: Method) -> int:
    body = children(method.node, "block", "function_body")
    return line(body[0]) if body else method.line


def _five(schedule: str) -> str:
    fields = schedule.split()
    return " ".join(fields[1:6]) if len(fields) in (6, 7) else schedule


def _called(unit: Unit, call: Call) -> Iterator[Fact]:
    arguments = call.arguments
    match call.name:
        case "scheduleAtFixedRate" | "scheduleWithFixedDelay" if len(arguments) >= 2:
            periods = arguments[2:4] if len(arguments) >= 4 else (arguments[-1], "")
            yield from _timer(unit, call, timing.of_unit(unit, periods[0], periods[-1]))
        case "schedule" if len(arguments) == 3 and _is_timer(unit, call):
            yield from _timer(unit, call, timing.of_unit(unit, arguments[2], ""))
        case "schedule" | "scheduleTask" if any(
            word in argument
            for argument in arguments
            for word in ("CronTrigger(", "PeriodicTrigger(")
        ):
            written = re.search(r"CronTrigger\(\s*([^,)]+)", " ".join(arguments))
            text = timing.text_or_name(unit, written[1]) if written else ""
            yield from _timer(unit, call, text)
        case "fixedRateTimer" | "timer" if not call.receiver and _period(arguments):
            yield from _timer(unit, call, timing.of_unit(unit, _period(arguments), ""))
        case "setPeriodic" if len(arguments) >= 2 and "ertx" in unit.file.text:
            yield from _timer(unit, call, timing.of_unit(unit, arguments[0], ""))
        case "interval" if call.receiver in ("Flux", "Observable", "Flowable", "Multi"):
            yield from _timer(
                unit, call, timing.span(unit, arguments[-1] if arguments else "", 0.001)
            )
        case "addCronTask" | "addFixedRateTask" | "addFixedDelayTask" | "addTriggerTask" if (
            arguments
        ):
            when = arguments[-1]
            text = timing.text_or_name(unit, when) if "Cron" in call.name else ""
            text = text or timing.span(unit, when, 0.001)
            yield from _timer(unit, call, text, "spring-scheduled")
        case "newTrigger":
            yield from _quartz(unit, call)
        case "setCronExpression" if "TriggerFactoryBean" in unit.file.text:
            text = timing.text_or_name(unit, arguments[0] if arguments else "")
            yield from _timer(unit, call, text, "quartz")
        case "scheduleRecurrently":
            texts = [cron(each.strip('"')) for each in arguments]
            yield from _timer(unit, call, next(filter(None, texts), ""), "jobrunr")
        case "recurring" if call.receiver.endswith("Tasks"):
            schedule = timing.span(unit, arguments[1] if len(arguments) > 1 else "", 1.0)
            yield from _timer(unit, call, schedule, "db-scheduler")
        case _:
            pass


def _is_timer(unit: Unit, call: Call) -> bool:
    if "java.util.Timer" not in unit.file.text and "java.util.*" not in unit.file.text:
        return False
    return "imer" in call.receiver


def _period(arguments: tuple[str, ...]) -> str:
    for each in arguments:
        match = re.match(r"\s*period\s*=\s*(.+)", each, re.DOTALL)
        if match:
            return match[1]
    return ""


#: A method of these names that calls another of them only passes its task on.
_WRAPPERS = frozenset(("scheduleAtFixedRate", "scheduleWithFixedDelay", "schedule", "setPeriodic"))
_KEYED = {
    "jobrunr": "its library keeps one row for each fire time",
    "db-scheduler": "its library claims the job's one row for each execution",
}


def _timer(unit: Unit, call: Call, schedule: str, kind: str = "java-timer") -> Iterator[Fact]:
    method = unit.method_of(call.node)
    names = (method.name if method else "", method.owner if method else unit.owner(call.node))
    target = _task(call)
    task = target.rpartition(".")[2]
    own = for_itself(task, *names)
    if for_a_person(*names) or names[0] in _WRAPPERS:
        return
    alone, why = Verdict.UNGUARDED, ""
    confidence: Confidence = "high"
    if kind in _KEYED:
        alone, why = Verdict.GUARDED, _KEYED[kind]
    elif own and kind == "java-timer":
        alone, why = Verdict.PER_PROCESS_OK, f"its name, {own}, says that it serves its own process"
        confidence = "medium"
    owner = f"{names[1]}." if names[1] else ""
    identity = re.search(r"withIdentity\(\s*\"([\w.: -]{1,60})\"", _statement(call))
    target = f"{owner}{task}" if task else f"{owner}{names[0]}"
    inline = " ".join(each for each in call.arguments if "->" in each or "{" in each)
    yield Trigger(
        kind=kind,
        path=unit.file.path,
        line=call.line,
        language=unit.language,
        name=identity[1] if identity else target,
        schedule=schedule,
        target=target,
        marks=tuple(calls_in(inline)),
        guards=guards_in(inline, call.line),
        alone=alone,
        why=why,
        confidence=confidence,
    )
    for each in unit.methods if task else ():
        if each.name == task:
            yield _function(unit, each)
            return


def _statement(call: Call) -> str:
    found = enclosing(
        call.node, "expression_statement", "local_variable_declaration", "return_statement"
    )
    return found.text()[:2_000] if found is not None and call.name == "newTrigger" else ""


def _task(call: Call) -> str:
    """Return the method that a call schedules: ``this::sweep``, ``() -> sweep()``, ``::sweep``."""
    for each in call.arguments[:2]:
        reference = re.search(r"(?:^|[\s(])[\w.]*::(\w+)", each)
        if reference:
            return reference[1]
        single = re.match(
            r"\s*(?:\(?\w*\)?\s*->|\{)\s*\{?\s*(?:\w+\.)*(\w+)\s*\([^)]*\)\s*;?\s*\}?\s*$", each
        )
        if single:
            return single[1]
    return ""


def _quartz(unit: Unit, call: Call) -> Iterator[Fact]:
    """See a Quartz trigger, whose chain has a schedule; without one it fires once, now."""
    chain = call.node
    for _ in range(40):
        parent = chain.parent()
        if parent is None or parent.kind() not in (
            "method_invocation",
            "call_expression",
            "navigation_expression",
            "field_access",
        ):
            break
        chain = parent
    text = chain.text()
    if "withSchedule" not in text:
        return
    written = re.search(r"cronSchedule\(\s*([^()]+?)\s*\)", text)
    interval = re.search(r"(?:withInterval|repeat\w+Every\w*)In?(\w+?)(?:ly)?\(([^()]*)\)", text)
    schedule = timing.text_or_name(unit, written[1]) if written else ""
    if interval and not schedule:
        schedule = timing.of_unit(unit, interval[2], interval[1].upper())
    timed = interval or written or re.search(r"repeatForever|At|daily|weekly|monthly|every", text)
    if not timed:
        return
    yield from _timer(unit, call, schedule, "quartz")


_FOREVER = re.compile(
    r"(?:while|do)\b|^.*&&\s*!Thread\.\w+\(\)\.isInterrupted\(\)|^\s*(?:true|!\s*\w*(?:stop|shut|clos|interrupt|done|terminat|cancel)\w*|\w*running"
    r"|\w*[aA]ctive|\w*[eE]nabled|!Thread\.\w+\(\)\.isInterrupted\(\)|isRunning\(\))",
    re.IGNORECASE,
)
_DO = {"java": "do_statement", "kotlin": "do_while_statement"}
_SLEEPS = re.compile(
    r"\bThread\.sleep\s*\(([^()]*)|\b(?:[A-Z]\w*|\w*[uU]nit)\.sleep\s*\(([^()]*)|\bdelay\s*\(([^()]*)"
)
_TAKES = re.compile(
    r"\.poll\s*\(|\.take\s*\(|receiveMessage|\.receive\s*\(|readMessage|blpop|xreadgroup|\.accept\s*\("
)


def _loops(unit: Unit) -> Iterator[Fact]:
    for loop in nodes(unit.root, "while_statement", _DO[unit.language]):
        condition, body = _loop_parts(unit, loop)
        sleeps = _SLEEPS.search(body)
        if sleeps is None or not _endless(condition):
            continue
        method = unit.method_of(loop)
        names = (method.name, method.owner) if method else ("", unit.owner(loop))
        if enclosing(loop, "while_statement", "for_statement", "catch_clause", "catch_block"):
            continue
        called = calls_in(body)
        if for_waiting(names[0]) or for_a_person(*names) or _ends_early(body):
            continue
        if answers(names[0], body):
            continue
        takes = _TAKES.search(body) is not None or takes_from_a_queue(*names)
        own = for_itself(*names, *(called[:1] if len(called) <= 2 else ()))
        amount = next(filter(None, sleeps.groups()), "")
        alone = Verdict.CONSUMER if takes else Verdict.PER_PROCESS_OK if own else Verdict.UNGUARDED
        yield Trigger(
            kind="consumer-loop" if takes else "loop",
            path=unit.file.path,
            line=line(loop),
            language=unit.language,
            name=".".join(filter(None, reversed(names))),
            schedule=timing.span(unit, amount, 0.001),
            target=".".join(filter(None, reversed(names))),
            guards=guards_in(body, line(loop)),
            marks=called,
            alone=alone,
            role="consumer" if takes else "trigger",
            why=f"its name, {own}, says that it serves its own process" if own else "",
            confidence="medium",
        )


def _loop_parts(unit: Unit, loop: object) -> tuple[str, str]:
    parts = children(loop)  # type: ignore[arg-type]
    if not parts:
        return "", ""
    if parts[0].kind() in ("block", "control_structure_body"):
        return parts[-1].text().strip("()"), parts[0].text()
    return parts[0].text().strip("()"), parts[-1].text()


def _endless(condition: str) -> bool:
    return _FOREVER.match(condition.strip()) is not None


def _ends_early(body: str) -> bool:
    """Decide whether a loop leaves by itself when it has what it waits for."""
    leaves = re.search(r"\b(?:break|return)\b", body) is not None
    counted = re.search(r"\b(?:attempt|retr|tries|count)\w*\s*(?:\+\+|--|\+=|>|<)", body, re.I)
    return leaves and (counted is not None or len(body) < 400)
