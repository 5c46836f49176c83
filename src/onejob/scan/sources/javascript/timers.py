"""``setInterval``, ``setTimeout`` that arms itself again, and loops that sleep, on servers only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

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
    same,
)
from onejob.scan.sources.javascript.side import on_server
from onejob.scan.syntax import above, enclosing, line, nodes

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
_TINY_MILLISECONDS = 250


def find(script: Script) -> Iterator[Trigger]:
    """Return the timers and loops of a file that runs on a server."""
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
            yield from _interval(script, node)
        elif name in ("setTimeout", "global.setTimeout"):
            yield from _rearmed(script, node)
    for node in nodes(
        script.root, "while_statement", "for_statement", "do_statement", "for_in_statement"
    ):
        yield from _loop(script, node)


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
    own = own_purpose((label, around(node), _assigned(node)), [c.rpartition(".")[2] for c in calls])
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
    if not name or _RETRY.search(name) or not _arms(given[0], name):
        return
    owner = _owner(node, name)
    if owner is None or _conditional(node, owner):
        return
    period = given[1] if len(given) > 1 else None
    if period is not None and _RETRY.search(period.text()):
        return
    schedule = times.milliseconds(script, period)
    yield _fact(script, owner, "set-timeout", None, owner, schedule, owner.text())


def _owner(node: SgNode, name: str) -> SgNode | None:
    """Return the innermost function of that name around the node."""
    for function in above(node, *FUNCTIONS):
        body = function.field("body")
        if body is not None and around(body) == name:
            return function
    return None


def _arms(callback: SgNode, name: str) -> bool:
    text = callback.text()
    if callback.kind() in FUNCTIONS:
        return len(text) < 300 and re.search(rf"(?<![\w$]){re.escape(name)}\s*\(", text) is not None
    return re.fullmatch(rf"(?:this\.)?{re.escape(name)}(?:\.bind\(this\))?", text) is not None


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
        elif each.kind() in ("catch_clause", "ternary_expression"):
            return True
    return False


def _loop(script: Script, node: SgNode) -> Iterator[Trigger]:
    body = node.field("body")
    if body is None or not _endless(node):
        return
    if enclosing(node, "generator_function_declaration", "generator_function") is not None:
        return
    waits = [
        call
        for call in nodes(body, "await_expression", "yield_expression")
        if _SLEEP.search(call.text()[:200]) and not call.text().startswith("yield")
    ]
    consumer = bool(_QUEUES.search(body.text()))
    if not waits and not consumer:
        return
    if _for_one_client(node) or _answers(body) or not _works_in_loop(body):
        return
    if waits and not consumer and all(_after_failure(wait, body) for wait in waits):
        return
    function = enclosing(node, *FUNCTIONS)
    schedule = ""
    for wait in waits[:1]:
        found = re.search(r"\(\s*([\w.$*\s]+?)\s*\)", wait.text())
        inner = next((c for c in nodes(wait, "call_expression")), None)
        given = arguments(inner) if inner is not None else []
        schedule = times.milliseconds(script, given[0]) if given and found else ""
    yield _fact(script, node, "loop", None, function, schedule, body.text())


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
