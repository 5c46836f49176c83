"""C#: BackgroundService loops, timers, Hangfire, Quartz.NET, Coravel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onejob.scan.bodies import (
    answers,
    calls_in,
    for_a_person,
    for_itself,
    for_waiting,
    guards_in,
    without_comments,
)
from onejob.scan.facts import Fact, Function, Guard, Setting, Trigger
from onejob.scan.finding import Confidence, Verdict
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import CHARACTERS_MAX, cron, every
from onejob.scan.syntax import children, enclosing, limited, line, literal, name_of, nodes, parse

if TYPE_CHECKING:
    from ast_grep_py import SgNode

PATTERNS = ("*.cs",)

_WORDS = re.compile(
    r"BackgroundService|IHostedService|PeriodicTimer|\bTimer\s*\(|Task\.Delay|Thread\.Sleep"
    r"|RecurringJob|IRecurringJobManager|AddOrUpdate|WithCronSchedule|CronScheduleBuilder"
    r"|UseClustering|\.Schedule(?:<|\()|TimerTrigger|\[AutomaticRetry|WithSimpleSchedule|EventBatching"
)
_FOR_PEOPLE = re.compile(
    r"using\s+(?:System\.Windows|Avalonia|Microsoft\.Maui|UnityEngine|Godot|Xamarin)\b"
)
_SPANS = re.compile(r"TimeSpan\.From(Milliseconds|Seconds|Minutes|Hours|Days)\(\s*([\d_.]+)\s*\)")
_UNITS = {
    "Milliseconds": 0.001,
    "Seconds": 1.0,
    "Minutes": 60.0,
    "Hours": 3_600.0,
    "Days": 86_400.0,
}
_NAMED_CRONS = {
    "Minutely": "* * * * *",
    "Hourly": "0 * * * *",
    "Daily": "0 0 * * *",
    "Weekly": "0 0 * * 1",
    "Monthly": "0 0 1 * *",
    "Yearly": "0 0 1 1 *",
    "Never": "0 0 31 2 *",
}
_ENDLESS = re.compile(
    r"true|.*(?:IsCancellationRequested|WaitForNextTickAsync|!\s*_?\w*(?:[sS]top|[cC]ancel|[dD]ispos)"
    r"|_?\w*[rR]unning).*",
    re.DOTALL,
)
_TAKES = re.compile(
    r"ReceiveMessage|\.Consume\(|DequeueAsync|WaitToReadAsync|\.Take\(|TryDequeue|BasicGet"
)


def read(file: SourceFile) -> Iterator[Fact]:
    """Return what a C# file starts by time."""
    if not _WORDS.search(file.text) or _FOR_PEOPLE.search(file.text):
        return
    root = parse(file.text, "csharp")
    for part in (_loops, _timers, _calls, _attributes):
        yield from limited(part(file, root), file.path)


def _around(node: SgNode) -> tuple[str, str]:
    method = enclosing(
        node, "method_declaration", "local_function_statement", "constructor_declaration"
    )
    return name_of(method), name_of(enclosing(node, "class_declaration", "record_declaration"))


def _loops(file: SourceFile, root: SgNode) -> Iterator[Trigger]:
    for loop in nodes(root, "while_statement", "do_statement"):
        parts = children(loop)
        if len(parts) < 2:
            continue
        condition, block = (
            (parts[0], parts[-1]) if loop.kind() == "while_statement" else (parts[-1], parts[0])
        )
        text = without_comments(block.text())
        ticks = "WaitForNextTickAsync" in condition.text()
        waits = re.search(r"(?:await\s+Task\.Delay|Thread\.Sleep)\s*\(([^;]*?)\)\s*(?:;|\.)", text)
        if not (ticks or waits) or not _ENDLESS.fullmatch(condition.text().strip()):
            continue
        method, owner = _around(loop)
        if for_waiting(method) or for_a_person(method, owner) or _leaves(text):
            continue
        if answers(method, text) or re.search(r"\bActionResult|HttpContext", text):
            continue
        when = _of_timer(file, condition.text()) if ticks else span(file, waits[1] if waits else "")
        own = for_itself(owner, method)
        takes = _TAKES.search(text) is not None and not ticks
        yield _trigger(
            file,
            line(loop),
            "consumer-loop" if takes else "loop",
            name=".".join(filter(None, (owner, method))),
            when=when,
            body=text,
            own=own,
            consumes=takes,
            confidence="high" if "BackgroundService" in file.text else "medium",
        )


def _leaves(text: str) -> bool:
    kept = re.sub(r"if\s*\([^)]*(?:[cC]ancel|[sS]top)[^)]*\)\s*\{?[^}]*\}?", "", text)
    return re.search(r"\b(?:break|return)\b", kept) is not None and len(kept) < 500


def _trigger(
    file: SourceFile,
    number: int,
    kind: str,
    *,
    name: str,
    when: str,
    body: str = "",
    own: str = "",
    consumes: bool = False,
    guards: tuple[Guard, ...] = (),
    alone: Verdict = Verdict.UNGUARDED,
    why: str = "",
    confidence: Confidence = "high",
    marks: tuple[str, ...] = (),
) -> Trigger:
    called = calls_in(body)
    if consumes:
        alone = Verdict.CONSUMER
    elif own and alone is Verdict.UNGUARDED:
        alone, confidence = Verdict.PER_PROCESS_OK, "medium"
        why = f"its name, {own}, says that it serves its own process"
    return Trigger(
        kind=kind,
        path=file.path,
        line=number,
        language="csharp",
        name=name[:60],
        schedule=when,
        target=name if not called else called[0],
        marks=(*marks, *called[1:6]),
        guards=(*guards, *guards_in(body, number)),
        alone=alone,
        role="consumer" if consumes else "trigger",
        why=why,
        confidence=confidence,
    )


def _timers(file: SourceFile, root: SgNode) -> Iterator[Trigger]:
    bodies = _method_bodies(root)
    for made in nodes(root, "object_creation_expression"):
        kind = made.field("type")
        if kind is None or kind.text().rpartition(".")[2] != "Timer":
            continue
        given = [each.text() for each in children(made.field("arguments"), "argument")]
        if len(given) == 4 and not re.search(r"Infinite|^-1$|\(-1\)", given[3]):
            period = given[3]
        elif (
            len(given) == 1
            and "System.Timers" in file.text
            and ".AutoReset = false" not in file.text
        ):
            period = given[0]
        else:
            continue
        method, owner = _around(made)
        task = given[0] if re.fullmatch(r"[\w.]+", given[0]) and len(given) == 4 else method
        own = for_itself(task.rpartition(".")[2], owner)
        body = bodies.get(task.rpartition(".")[2], "")
        yield _trigger(
            file,
            line(made),
            "dotnet-timer",
            name=".".join(filter(None, (owner, task.rpartition(".")[2]))),
            when=span(file, period),
            body=body,
            own=own,
        )


def _method_bodies(root: SgNode) -> dict[str, str]:
    found: dict[str, str] = {}
    for method in nodes(root, "method_declaration"):
        body = method.field("body")
        if body is not None:
            found.setdefault(name_of(method), without_comments(body.text()))
    return found


def _calls(file: SourceFile, root: SgNode) -> Iterator[Fact]:
    for call in nodes(root, "invocation_expression"):
        function = call.field("function")
        if function is None:
            continue
        receiver = function.text().rpartition(".")[0]
        name = re.sub(r"<.*$", "", _last_name(function.text()), flags=re.DOTALL)
        given = [each.text() for each in children(call.field("arguments"), "argument")]
        number = function.range().end.line + 1
        if name in ("AddOrUpdate", "AddOrUpdateDynamic") and "ecurring" in receiver:
            yield _hangfire(file, number, given)
        elif name in ("WithCronSchedule", "CronSchedule") or (
            name == "WithSchedule" and "ronSchedule" in call.text()
        ):
            text = literal(given[0]) if given else ""
            yield _trigger(file, number, "quartz-net", name=_identity(call), when=cron(text))
        elif name == "WithSimpleSchedule" and "Repeat" in call.text():
            yield _trigger(
                file, number, "quartz-net", name=_around(call)[1], when=_simple(file, call.text())
            )
        elif name == "UseClustering":
            yield Setting("quartz-net.clustered", "true", file.path, number)
        elif name in _CORAVEL and re.search(r"\.Schedule(?:Async|<|\(|WithParams)", receiver):
            yield from _coravel(file, call, name, number, given)


def _identity(call: SgNode) -> str:
    """Name a trigger by its identity, or by the class that makes it."""
    named = re.search(r"WithIdentity\(\s*\"([\w.: -]{1,60})\"", _chain(call))
    return named[1] if named else _around(call)[1]


def _last_name(text: str) -> str:
    depth = 0
    for position in range(len(text) - 1, -1, -1):
        depth += (text[position] in ">)") - (text[position] in "<(")
        if text[position] == "." and depth == 0:
            return text[position + 1 :]
    return text


def _hangfire(file: SourceFile, number: int, given: list[str]) -> Trigger:
    text = ", ".join(given)
    named = re.search(r"Cron\.(\w+)\(?", text)
    written = next((cron(literal(each)) for each in given if cron(literal(each))), "")
    when = written or (_NAMED_CRONS.get(named[1], "") if named else "")
    task = re.search(r"=>\s*(?:await\s+)?(?:\w+\.)*(\w+)\s*\(", text)
    never = (Guard("Cron.Never", Verdict.NEVER, number),) if named and named[1] == "Never" else ()
    return Trigger(
        kind="hangfire",
        path=file.path,
        line=number,
        language="csharp",
        name=(literal(given[0]) if given else "")[:60] or (task[1] if task else ""),
        schedule=when,
        target=task[1] if task else "",
        guards=never,
        alone=Verdict.GUARDED,
        why="its storage holds a lock while a recurring job is enqueued; a retry runs it again",
    )


_CORAVEL = {
    "EveryMinute": "every 1m",
    "EveryFiveMinutes": "every 5m",
    "EveryTenMinutes": "every 10m",
    "EveryFifteenMinutes": "every 15m",
    "EveryThirtyMinutes": "every 30m",
    "Hourly": "every 1h",
    "Daily": "every 1d",
    "DailyAtHour": "every 1d",
    "DailyAt": "every 1d",
    "Weekly": "every 1w",
    "Cron": "",
    "EverySeconds": "",
    "EverySecond": "every 1s",
    "EveryTenSeconds": "every 10s",
    "EveryThirtySeconds": "every 30s",
}


def _coravel(
    file: SourceFile, call: SgNode, name: str, number: int, given: list[str]
) -> Iterator[Trigger]:
    if (
        "oravel" not in file.text
        and "UseScheduler" not in file.text
        and "scheduler" not in call.text()
    ):
        return
    when = _CORAVEL[name] or (cron(literal(given[0])) if given else "")
    task = re.search(r"Schedule(?:WithParams)?<\s*([\w.]+)", call.text())
    chain = _chain(call)
    guards: tuple[Guard, ...] = ()
    if ".PreventOverlapping(" in chain:
        why = "locks in this process, unless a shared mutex is registered"
        guards = (Guard("PreventOverlapping", Verdict.HOST_ONLY, number, why),)
    yield _trigger(file, number, "coravel", name=task[1] if task else "", when=when, guards=guards)


def _chain(call: SgNode) -> str:
    top = call
    for _ in range(30):
        parent = top.parent()
        if parent is None or parent.kind() not in (
            "member_access_expression",
            "invocation_expression",
        ):
            break
        top = parent
    return top.text()


def _simple(file: SourceFile, text: str) -> str:
    match = re.search(
        r"(?:WithInterval|RepeatEvery)(?:In)?(\w*?)\(([^()]*(?:\([^()]*\))?[^()]*)\)", text
    )
    if match is None:
        return ""
    if match[1] in _UNITS and match[2].strip().isdigit():
        return every(int(match[2]) * _UNITS[match[1]])
    return span(file, match[2])


def _attributes(file: SourceFile, root: SgNode) -> Iterator[Fact]:
    for attribute in nodes(root, "attribute"):
        name = name_of(attribute)
        if name.endswith("TimerTrigger"):
            written = literal(_first_argument(attribute))
            method, owner = _around(attribute)
            yield Trigger(
                kind="azure-timer",
                path=file.path,
                line=line(attribute),
                language="csharp",
                name=method or owner,
                schedule=cron(written) or _from(written),
                alone=Verdict.AT_LEAST_ONCE,
                fires="platform",
                why="the platform delivers each fire time at least once",
            )
        elif name == "DisableConcurrentExecution":
            method, owner = _around(attribute)
            why = "refuses a second one at once, not a second one later"
            guard = Guard(f"[{name}]", Verdict.NO_OVERLAP, line(attribute), why)
            yield Function(method or owner, file.path, line(attribute), (guard,))


def _first_argument(attribute: SgNode) -> str:
    text = attribute.text().partition("(")[2].rpartition(")")[0]
    return text.partition(",")[0]


def span(file: SourceFile, expression: str) -> str:
    """Return ``every 5m`` of a TimeSpan or milliseconds; the name it comes from otherwise."""
    found = _SPANS.search(expression)
    if found:
        return every(float(found[2].replace("_", "")) * _UNITS[found[1]])
    first = expression.partition(",")[0].strip()
    plain = first.replace("_", "")
    if re.fullmatch(r"[\d\s*]+", plain) and re.search(r"\d", plain):
        product = 1.0
        for number in re.findall(r"\d+", plain):
            product *= int(number)
        return every(product / 1000) if product else ""
    if re.fullmatch(r"\w+", first):
        bound = re.search(rf"\b{re.escape(first)}\s*=\s*([^;=]+);", file.text)
        if bound and _SPANS.search(bound[1]):
            return span(file, bound[1])
        if bound and re.fullmatch(r"[\d_\s*]+", bound[1]):
            return span(file, bound[1])
    return _from(first)


def _of_timer(file: SourceFile, condition: str) -> str:
    name = re.search(r"(\w+)\.WaitForNextTickAsync", condition)
    made = re.search(
        rf"\b{re.escape(name[1] if name else '')}\b\s*=\s*new\s*(?:PeriodicTimer)?\s*\(([^;]*)\)",
        file.text,
    ) or re.search(r"new\s+PeriodicTimer\s*\(([^;]*)\)", file.text)
    return span(file, made[1]) if made else ""


def _from(text: str) -> str:
    name = re.search(r"[A-Za-z_][\w.]*", re.sub(r"[%\"]|TimeSpan\.From\w+", " ", text))
    return f"from {name[0]}"[:CHARACTERS_MAX] if name else ""
