"""PHP: the scheduler of Laravel, Symfony's, WordPress' wp-cron, endless loops with a sleep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onejob.scan.bodies import calls_in, for_itself, for_waiting, guards_in, without_comments
from onejob.scan.facts import Fact, Guard, Setting, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.reading import SourceFile
from onejob.scan.schedules import CHARACTERS_MAX, cron, every, never
from onejob.scan.syntax import children, enclosing, limited, line, literal, name_of, nodes, parse

if TYPE_CHECKING:
    from ast_grep_py import SgNode

PATTERNS = ("*.php", "artisan")

_WORDS = re.compile(
    r"[sS]chedule\b|AsCronTask|AsPeriodicTask|RecurringMessage|wp_schedule_event|\bsleep\s*\(|Loop::"
    r"|addPeriodicTimer|Schedule::"
)
_STARTERS = ("command", "job", "call", "exec", "invoke")
_FREQUENCIES: dict[str, str] = {
    "everySecond": "every 1s",
    "everyFiveSeconds": "every 5s",
    "everyTenSeconds": "every 10s",
    "everyFifteenSeconds": "every 15s",
    "everyTwentySeconds": "every 20s",
    "everyThirtySeconds": "every 30s",
    "everyMinute": "* * * * *",
    "everyTwoMinutes": "*/2 * * * *",
    "everyThreeMinutes": "*/3 * * * *",
    "everyFourMinutes": "*/4 * * * *",
    "everyFiveMinutes": "*/5 * * * *",
    "everyTenMinutes": "*/10 * * * *",
    "everyFifteenMinutes": "*/15 * * * *",
    "everyThirtyMinutes": "*/30 * * * *",
    "hourly": "0 * * * *",
    "everyOddHour": "0 1-23/2 * * *",
    "everyTwoHours": "0 */2 * * *",
    "everyThreeHours": "0 */3 * * *",
    "everyFourHours": "0 */4 * * *",
    "everySixHours": "0 */6 * * *",
    "daily": "0 0 * * *",
    "twiceDaily": "0 1,13 * * *",
    "weekly": "0 0 * * 0",
    "monthly": "0 0 1 * *",
    "quarterly": "0 0 1 1-12/3 *",
    "yearly": "0 0 1 1 *",
}
_TIMED = frozenset(
    (
        *_FREQUENCIES,
        "cron",
        "dailyAt",
        "at",
        "hourlyAt",
        "weeklyOn",
        "monthlyOn",
        "twiceMonthly",
        "lastDayOfMonth",
        "weekdays",
        "weekends",
        "sundays",
        "mondays",
        "tuesdays",
        "wednesdays",
        "thursdays",
        "fridays",
        "saturdays",
        "twiceDailyAt",
        "yearlyOn",
        "quarterlyOn",
        "repeatEvery",
    )
)
_ONE_SERVER = (
    "lets a shared cache's lock choose one server for each fire time, where the cache is shared"
)
_OVERLAPPING = "refuses a second one at once, not a second one later"


def read(file: SourceFile) -> Iterator[Fact]:
    """Return what a PHP file starts by time."""
    if not _WORDS.search(file.text):
        return
    root = parse(file.text, "php")
    laravel = re.search(r"Illuminate\\|Schedule::|artisan|\$schedule\b", file.text) is not None
    for part in (
        (_laravel, _symfony, _functions, _loops) if laravel else (_symfony, _functions, _loops)
    ):
        yield from limited(part(file, root), file.path)


def _calls(chain: SgNode) -> list[tuple[str, list[str], int]]:
    """Return (name, arguments, line) of a chain's calls, in the order they are written."""
    found = []
    node: SgNode | None = chain
    for _ in range(40):
        if node is None or node.kind() not in ("member_call_expression", "scoped_call_expression"):
            break
        given = [each.text() for each in children(node.field("arguments"), "argument")]
        name = node.field("name")
        found.append((name.text() if name else "", given, line(name) if name else line(node)))
        node = node.field("object") if node.kind() == "member_call_expression" else None
    return found[::-1]


def _root_of(chain: SgNode) -> str:
    node: SgNode | None = chain
    for _ in range(40):
        if node is None:
            return ""
        if node.kind() == "scoped_call_expression":
            scope = node.field("scope")
            return scope.text() if scope is not None else ""
        if node.kind() != "member_call_expression":
            return node.text()
        node = node.field("object")
    return ""


def _laravel(file: SourceFile, root: SgNode) -> Iterator[Trigger]:
    for chain in nodes(root, "member_call_expression"):
        parent = chain.parent()
        if parent is not None and parent.kind() == "member_call_expression":
            continue
        calls = _calls(chain)
        names = [name for name, _, _ in calls]
        starter = next((c for c in calls if c[0] in _STARTERS), None)
        owner = _root_of(chain)
        if not re.search(r"[sS]chedule$|\$this->schedule|\$event$|^\\?Artisan$", owner):
            continue
        if starter is None or not (_TIMED & set(names)):
            continue
        yield _laravel_trigger(file, chain, calls, starter)


def _laravel_trigger(
    file: SourceFile,
    chain: SgNode,
    calls: list[tuple[str, list[str], int]],
    starter: tuple[str, list[str], int],
) -> Trigger:
    guards = []
    for name, given, number in calls:
        if name == "onOneServer":
            guards.append(Guard("onOneServer()", Verdict.GUARDED, number, _ONE_SERVER))
        elif name == "withoutOverlapping":
            guards.append(Guard("withoutOverlapping()", Verdict.NO_OVERLAP, number, _OVERLAPPING))
        elif name in ("when", "skip", "environments") and re.search(r"hostname", " ".join(given)):
            guards.append(Guard("a test of the host's name", Verdict.HOST_ONLY, number))
    when = _frequency(calls)
    if when and never(when):
        guards.append(Guard(when, Verdict.NEVER, line(chain)))
    text = starter[1][0] if starter[1] else ""
    named = re.match(r"(?:new\s+)?\\?([\w\\]+)", text)
    name = literal(text).split(" ")[0] or (named[1].rpartition("\\")[2] if named else "")
    body = without_comments(text) if "function" in text or "fn" in text else ""
    label = next((literal(g[0]) for n, g, _ in calls if n in ("name", "description") and g), "")
    return Trigger(
        kind="laravel-schedule",
        path=file.path,
        line=starter[2],
        language="php",
        name=(label or ("" if body else name))[:60],
        schedule=when,
        target=calls_in(body)[0] if body and calls_in(body) else name,
        guards=(*guards, *guards_in(body, starter[2])),
        fires="host",
        why="every host whose crontab has schedule:run runs it",
        words=("schedule:run", "schedule:work"),
    )


def _frequency(calls: list[tuple[str, list[str], int]]) -> str:
    for name, given, _ in calls:
        text = literal(given[0]) if given else ""
        if name == "cron" and given:
            return cron(text) or _from(given[0])
        if name in _FREQUENCIES:
            at = next((literal(g[0]) for n, g, _ in calls if n == "at" and g), "")
            return f"{_FREQUENCIES[name]} at {at}" if at else _FREQUENCIES[name]
        if name in ("dailyAt", "at") and re.fullmatch(r"\d{1,2}:\d{2}", text):
            hour, _, minute = text.partition(":")
            return f"{int(minute)} {int(hour)} * * *"
        if name in _TIMED and name not in ("weekdays", "weekends"):
            shown = ", ".join(each for each in given if re.fullmatch(r"[\w':.]{1,20}", each))
            return f"{name}({shown})"[:CHARACTERS_MAX]
    return ""


def _from(text: str) -> str:
    name = re.search(r"[A-Za-z_][\w:>.()-]*\w", text)
    return f"from {name[0]}"[:CHARACTERS_MAX] if name else ""


def _symfony(file: SourceFile, root: SgNode) -> Iterator[Fact]:
    for attribute in nodes(root, "attribute") if "Task" in file.text else ():
        match = re.match(
            r"\\?(?:\w+\\)*(AsCronTask|AsPeriodicTask)\b\s*\(?(.*)", attribute.text(), re.DOTALL
        )
        if match:
            owner = name_of(enclosing(attribute, "class_declaration"))
            yield _symfony_trigger(file, line(attribute), owner, match[2])
    for call in nodes(root, "scoped_call_expression") if "RecurringMessage" in file.text else ():
        if call.text().startswith(("RecurringMessage::every", "RecurringMessage::cron")):
            given = call.text().partition("(")[2]
            named = re.search(r"new\s+\\?([\w\\]+)", given)
            name = named[1].rpartition("\\")[2] if named else ""
            yield _symfony_trigger(file, line(call), name, given)
    match = (
        re.search(r"->(lock|stateful)\s*\(", file.text) if "RecurringMessage" in file.text else None
    )
    if match:
        number = file.text.count("\n", 0, match.start()) + 1
        yield Setting(f"symfony-scheduler.{match[1]}", "true", file.path, number)


def _symfony_trigger(file: SourceFile, number: int, name: str, given: str) -> Trigger:
    first = re.search(r"[\"']([^\"']+)[\"']", given)
    text = first[1] if first else ""
    interval = re.fullmatch(r"(\d+)\s*(second|minute|hour|day|week)s?", text)
    sizes = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
    when = cron(text) or (every(int(interval[1]) * sizes[interval[2]]) if interval else "")
    return Trigger(
        kind="symfony-scheduler",
        path=file.path,
        line=number,
        language="php",
        name=name[:60],
        schedule=when,
        target=name,
        fires="scheduler",
        why="each worker that consumes the schedule fires it, unless it has a lock",
    )


def _functions(file: SourceFile, root: SgNode) -> Iterator[Trigger]:
    if "wp_schedule_event" not in file.text:
        return
    for call in nodes(root, "function_call_expression"):
        function = call.field("function")
        if function is None or function.text() != "wp_schedule_event":
            continue
        given = [each.text() for each in children(call.field("arguments"), "argument")]
        if len(given) < 3:
            continue
        why = "is a transient lock in the database that lapses after a minute"
        yield Trigger(
            kind="wp-cron",
            path=file.path,
            line=line(call),
            language="php",
            name=literal(given[2])[:60],
            schedule=literal(given[1]) or _from(given[1]),
            target=literal(given[2]),
            guards=(Guard("wp-cron's lock", Verdict.WEAK_GUARD, line(call), why),),
        )


def _loops(file: SourceFile, root: SgNode) -> Iterator[Trigger]:
    for loop in nodes(root, "while_statement", "do_statement"):
        head = (
            loop.text().partition("{")[0] if loop.kind() == "while_statement" else loop.text()[-60:]
        )
        if not re.search(
            r"while\s*\(\s*(?:true|1|!\s*\$\w*(?:stop|quit|exit)\w*)\s*\)", head, re.I
        ):
            continue
        text = without_comments(loop.text(), "//#")
        waits = re.search(r"\b(u?sleep)\s*\(\s*([^()]*)", text)
        method = name_of(enclosing(loop, "method_declaration", "function_definition"))
        if (
            waits is None
            or for_waiting(method)
            or enclosing(loop, "while_statement", "for_statement")
        ):
            continue
        if re.search(r"\b(?:break|return)\b", text) and len(text) < 500:
            continue
        plain = waits[2].strip().replace("_", "")
        size = 1e-6 if waits[1] == "usleep" else 1.0
        owner = name_of(enclosing(loop, "class_declaration"))
        own = for_itself(owner, method)
        takes = re.search(r"->(?:pop|reserve|receiveMessage|brpop|blpop|consume|get)\s*\(", text)
        yield Trigger(
            kind="consumer-loop" if takes else "loop",
            path=file.path,
            line=line(loop),
            language="php",
            name=".".join(filter(None, (owner, method))),
            schedule=every(int(plain) * size) if plain.isdigit() and int(plain) else "",
            target=".".join(filter(None, (owner, method))),
            guards=guards_in(text, line(loop)),
            alone=Verdict.CONSUMER
            if takes
            else Verdict.PER_PROCESS_OK
            if own
            else Verdict.UNGUARDED,
            role="consumer" if takes else "trigger",
            confidence="medium",
        )
