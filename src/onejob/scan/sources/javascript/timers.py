"""``setInterval``, ``setTimeout`` that arms itself again, and loops that sleep, on servers only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onejob.scan.bodies import for_a_person
from onejob.scan.facts import Guard, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.purposes import own_purpose
from onejob.scan.sources.javascript import times
from onejob.scan.sources.javascript.guards import around_start, guards_in
from onejob.scan.sources.javascript.script import (
    FUNCTIONS,
    Script,
    arguments,
    around,
    called,
    line_of,
    own_name,
    same,
)
from onejob.scan.sources.javascript.side import on_server
from onejob.scan.syntax import above, children, enclosing, line, nodes

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_STOP = re.compile(
    r"stop|shut_?down|kill|exit|terminat|cancel|quit|clos|abort|signal|destroy", re.I
)
_GO = re.compile(r"running|active|enabled|keep|should|alive|started|^\(?true\)?$|^\(?1\)?$", re.I)
_SLEEP = re.compile(
    r"(?<![\w$])(sleep|delay|wait|waitFor|pause|setTimeout(?:Async|Promise)?|timeout|snooze|setTimeoutP)"
    r"\s*\(",
    re.I,
)
_CLIENT = re.compile(
    r"^\(?\s*(socket|ws|req|request|res|client|connection|stream|sock|ctx)\b", re.I
)
_LOG = re.compile(r"^(console|logger|log|debug|this\.logger|this\.log|winston)\b")
_RETRY = re.compile(r"retry|retries|attempt|backoff|reconnect|tries|remaining", re.I)
_QUEUES = re.compile(
    r"\b(receiveMessage|ReceiveMessageCommand|brpop|blpop|brpoplpush|xreadgroup|bzpopmin|getNextJob"
    r"|fetchJob|dequeue|claimJob|popJob|lpop|rpop)\b",
    re.I,
)
_ENDS = re.compile(r"^(?:stop|shut_?down|close|dispose|destroy|teardown)", re.I)
_EVENTS = re.compile(r"['\"](exit|close|error|disconnect|end|SIG\w+)['\"]")


def find(script: Script) -> Iterator[tuple[Trigger, SgNode]]:
    """Return the timers and loops of a file that runs on a server, each with its node."""
    text = script.file.text
    timed = "setInterval" in text or "setTimeout" in text or "while" in text or "for (;;)" in text
    if not timed or not on_server(script):
        return
    for node in nodes(script.root, "call_expression"):
        name = called(node)
        if name in (
            "setInterval",
            "global.setInterval",
            "globalThis.setInterval",
            "timers.setInterval",
        ):
            yield from ((trigger, node) for trigger in _interval(script, node))
        elif name in ("setTimeout", "global.setTimeout"):
            yield from ((trigger, node) for trigger in _rearmed(script, node))
    for node in nodes(
        script.root, "while_statement", "for_statement", "do_statement", "for_in_statement"
    ):
        yield from ((trigger, node) for trigger in _loop(script, node))


def _interval(script: Script, node: SgNode) -> Iterator[Trigger]:
    given = arguments(node)
    if not given or _for_one_client(node) or _until_done(script, node, given[0]):
        return
    function = script.function(given[0])
    body = function.text() if function is not None else given[0].text()
    if function is not None and not _works(function):
        return
    period = given[1] if len(given) > 1 else None
    yield _fact(
        script, node, "set-interval", given[0], function, times.milliseconds(script, period), body
    )


def _fact(
    script: Script,
    node: SgNode,
    kind: str,
    callback: SgNode | None,
    function: SgNode | None,
    schedule: str,
    body: str,
) -> Trigger:
    label = callback.text() if callback is not None and callback.kind() not in FUNCTIONS else ""
    label = re.sub(r"^this\.|\.bind\(.*\)$", "", label)
    name = label if re.fullmatch(r"[\w.$]{1,80}", label) else around(node)
    calls = (
        [called(c) for c in nodes(function, "call_expression")] if function is not None else [label]
    )
    own = own_purpose(
        (label, around(node), _assigned(node), _owner_class(node)),
        [c.rpartition(".")[2] for c in calls],
    )
    consumer = bool(_QUEUES.search(body))
    return Trigger(
        kind="consumer-loop" if consumer else kind,
        path=script.path,
        line=line(node) if kind != "set-interval" else line_of(node),
        language=script.language,
        name=name,
        schedule=schedule,
        target=label if function is None and re.fullmatch(r"[\w.$]{1,120}", label) else "",
        guards=(
            *(
                (Guard(own, Verdict.PER_PROCESS_OK, line(node), "serves its own process"),)
                if own
                else ()
            ),
            *(guards_in(script, function) if function is not None else ()),
            *around_start(script, node),
        ),
        alone=Verdict.CONSUMER if consumer else Verdict.UNGUARDED,
        role="consumer" if consumer else "trigger",
        confidence="medium",
    )


def _assigned(node: SgNode) -> str:
    """Return the name that keeps the timer: it often says what the timer is for."""
    parent = node.parent()
    if parent is None:
        return ""
    if parent.kind() == "variable_declarator":
        name = parent.field("name")
    elif parent.kind() == "assignment_expression":
        name = parent.field("left")
    else:
        return ""
    return name.text().rpartition(".")[2] if name is not None else ""


def _owner_class(node: SgNode) -> str:
    owner = enclosing(node, "class_declaration", "class")
    name = owner.field("name") if owner is not None else None
    return name.text() if name is not None else ""


def _for_one_client(node: SgNode) -> bool:
    for function in above(node, *FUNCTIONS):
        parameters = function.field("parameters") or function.field("parameter")
        if parameters is not None and _CLIENT.match(parameters.text()):
            return True
        parent = function.parent()
        if parent is not None and parent.kind() == "arguments":
            maker = parent.parent()
            if maker is not None and called(maker) in ("Promise", "ReadableStream"):
                return True
    return False


def _until_done(script: Script, node: SgNode, callback: SgNode) -> bool:
    """Decide whether the timer ends itself when it has what it wanted."""
    function = script.function(callback)
    return function is not None and "clearInterval" in function.text()


def _works(function: SgNode) -> bool:
    body = function.field("body")
    if body is None:
        return True
    return any(not _LOG.match(called(call)) for call in nodes(body, "call_expression")) or any(
        nodes(body, "augmented_assignment_expression", "new_expression")
    )


def _rearmed(script: Script, node: SgNode) -> Iterator[Trigger]:
    given = arguments(node)
    function = enclosing(node, *FUNCTIONS)
    if not given or function is None or _for_one_client(node):
        return
    name = around(node)
    if not name or _RETRY.search(name) or not _arms(script, given[0], name):
        return
    if for_a_person(name) or any(_ENDS.match(own_name(each)) for each in above(node, *FUNCTIONS)):
        return  # it shows something, or waits for the end of what is being stopped
    owner = _owner(node, name)
    if owner is None or _conditional(node, owner):
        return
    period = given[1] if len(given) > 1 else None
    if period is not None and _RETRY.search(period.text().replace("emaining", "")):
        return
    schedule = times.milliseconds(script, period)
    yield _fact(script, owner, "set-timeout", None, owner, schedule, owner.text())


def _owner(node: SgNode, name: str) -> SgNode | None:
    """Return the innermost function of that name around the node."""
    return next((each for each in above(node, *FUNCTIONS) if own_name(each) == name), None)


def _arms(script: Script, callback: SgNode, name: str) -> bool:
    text = callback.text()
    if callback.kind() in FUNCTIONS:
        return (
            len(text) < 300
            and re.search(rf"(?:this\.|(?<![\w$.])){re.escape(name)}\s*\(", text) is not None
        )
    if re.fullmatch(rf"(?:this\.)?{re.escape(name)}(?:\.bind\(this\))?", text):
        return True
    # By way of one more function: beat arms safeBeat, which calls beat.
    other = script.function(callback)
    return other is not None and any(
        called(call).rpartition(".")[2] == name for call in nodes(other, "call_expression")
    )


def _conditional(node: SgNode, owner: SgNode) -> bool:
    """Decide whether it arms itself only sometimes: after a failure, until something is there."""
    for each in above(node, "if_statement", "catch_clause", "ternary_expression", *FUNCTIONS):
        if same(each, owner):
            return False
        if each.kind() == "if_statement":
            condition = each.field("condition")
            if condition is None or not (
                _STOP.search(condition.text()) or _GO.search(condition.text())
            ):
                return True
        elif each.kind() in ("catch_clause", "ternary_expression") or _handles_an_end(each):
            return True
    return False


def _handles_an_end(function: SgNode) -> bool:
    """Decide whether a function is called when something went away: it starts that again."""
    parent = function.parent()
    call = parent.parent() if parent is not None and parent.kind() == "arguments" else None
    return call is not None and _EVENTS.search(call.text()[:120]) is not None


def _loop(script: Script, node: SgNode) -> Iterator[Trigger]:
    body = node.field("body")
    if body is None or not _endless(node):
        return
    if enclosing(node, "generator_function_declaration", "generator_function") is not None:
        return
    waits = [call for call in nodes(body, "await_expression") if _sleeps(call)]
    consumer = bool(_QUEUES.search(body.text()))
    if not waits and not consumer:
        return
    if _for_one_client(node) or _answers(body) or not _works_in_loop(body):
        return
    if waits and not consumer and all(_after_failure(wait, body) for wait in waits):
        return
    function = enclosing(node, *FUNCTIONS)
    inner = nodes(waits[0], "call_expression") if waits else []
    given = arguments(inner[-1] if "setTimeout" in waits[0].text() else inner[0]) if inner else []
    number = given[1:2] if inner and "setTimeout" in waits[0].text() and given[1:] else given[:1]
    schedule = times.milliseconds(script, number[0]) if number else ""
    yield _fact(script, node, "loop", None, function, schedule, body.text())


def _sleeps(wait: SgNode) -> bool:
    """Decide whether an ``await`` waits for time: a sleep, or a promise around a timeout."""
    awaited = children(wait)
    if not awaited:
        return False
    name = called(awaited[0]).rpartition(".")[2]
    text = wait.text()
    return _SLEEP.match(f"{name}(") is not None or (
        name == "Promise" and "setTimeout" in text and len(text) < 300
    )


def _endless(node: SgNode) -> bool:
    if node.kind() == "for_in_statement":
        right = node.field("right")
        return right is not None and right.text().startswith("setInterval(")
    condition = node.field("condition")
    text = condition.text() if condition is not None else ""
    if node.kind() == "for_statement":
        return text in ("", ";")
    inner = text.strip("()").strip()
    if inner in ("true", "1"):
        return True
    if inner.startswith("!"):
        return bool(_STOP.search(inner))
    return bool(re.fullmatch(r"(?:this\.)?[\w.]+", inner) and _GO.search(inner))


def _answers(body: SgNode) -> bool:
    for node in nodes(body, "return_statement", "break_statement"):
        function = enclosing(node, *FUNCTIONS)
        if function is not None and _inside(function, body):
            continue
        if node.kind() == "break_statement":
            inner = enclosing(
                node, "while_statement", "for_statement", "for_in_statement", "switch_statement"
            )
            if inner is not None and _inside(inner, body):
                continue
        condition = enclosing(node, "if_statement")
        test = condition.field("condition") if condition is not None else None
        if test is not None and _inside(condition, body) and _STOP.search(test.text()):
            continue
        return True
    return False


def _inside(node: SgNode | None, body: SgNode) -> bool:
    if node is None:
        return False
    inner, outer = node.range(), body.range()
    return outer.start.index <= inner.start.index and inner.end.index <= outer.end.index


def _after_failure(wait: SgNode, body: SgNode) -> bool:
    found = enclosing(wait, "catch_clause")
    return found is not None and _inside(found, body)


def _works_in_loop(body: SgNode) -> bool:
    return any(
        not _LOG.match(name) and not _SLEEP.match(f"{name.rpartition('.')[2]}(")
        for name in map(called, nodes(body, "call_expression"))
    )
