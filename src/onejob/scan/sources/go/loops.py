"""Loops in Go that wait for a ticker, a tick or a sleep, and what they are not: retries, timeouts.

A ticker alone starts nothing: it counts where a loop without an end receives from it. A loop that
also takes data from another channel only flushes what this process has gathered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onejob.scan.bodies import (
    calls_in,
    for_a_person,
    for_itself,
    for_waiting,
    guards_in,
    supervises,
    without_comments,
)
from onejob.scan.facts import Guard, Trigger
from onejob.scan.finding import Confidence, Verdict
from onejob.scan.sources.go.unit import FUNCTIONS, QUIET, Call, Unit
from onejob.scan.syntax import above, children, enclosing, line, nodes

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_ENDS = re.compile(
    r"done|quit|stop|exit|clos|shutdown|cancel|ctx|context|term|sig|kill|interrupt|dying|err|die",
    re.IGNORECASE,
)
_KEEPS_ALIVE = re.compile(r"^\{\s*time\.Sleep\([^\n]*\)\s*\}$")
_TAKES = re.compile(
    r"\.(?:ReceiveMessage\w*|BLPop|BRPop|XReadGroup|FetchMessage|ReadMessage|Dequeue|Receive|Poll)\("
)
_CONNECTIONS = re.compile(
    r"websocket|\bws\b|Conn\b|net\.Conn|http\.ResponseWriter|\w+_\w*Server\b|\bstream\s"
)
_SESSIONS = re.compile(
    r"[cC]onn(?:ect|ection)?(?:Loop|$)|[sS]ubscribe|[rR]econnect|[sS]tream|[dD]ial"
)
_OF_ONE_CLIENT = re.compile(r"(?:[cC]onn|[sS]ession|[sS]tream)$")
_WORKER = re.compile(r"worker|process_?next|dequeue", re.IGNORECASE)


def loops(unit: Unit) -> Iterator[Trigger]:
    """Return the loops of a file that time starts."""
    seen: set[int] = set()
    for call in unit.calls:
        found: Iterator[Trigger] | None = None
        if call.receiver == "time" and call.name in ("Tick", "NewTicker", "NewTimer"):
            found = _ticking(unit, call)
        elif call.receiver == "time" and call.name in ("Sleep", "After"):
            found = _sleeping(unit, call)
        elif call.receiver == "wait" and unit.uses("apimachinery/pkg/util/wait"):
            found = _until(unit, call)
        for trigger in found or ():
            if trigger.line not in seen:
                seen.add(trigger.line)
                yield trigger


def _ticking(unit: Unit, call: Call) -> Iterator[Trigger]:
    loop = _loop_over(unit, call)
    if loop is None:
        return
    body = loop.field("body")
    text = without_comments(body.text()) if body is not None else ""
    inside = unit.function_of(loop)
    if inside is not None and inside.field("result") is not None and _leaves(text):
        return  # it waits for an answer that its caller wants
    yield from _trigger(unit, call, loop, text, unit.span(call.text(0)), "go-ticker")


def _loop_over(unit: Unit, call: Call) -> SgNode | None:
    """Return the endless loop that receives from a ticker; None for a timeout or a wait."""
    clause = enclosing(call.node, "range_clause")
    if clause is not None and call.name == "Tick":
        return enclosing(clause, "for_statement")
    inner = enclosing(call.node, "for_statement")
    if call.name == "Tick" and enclosing(call.node, "receive_statement") is not None:
        return inner if inner is not None and _endless(inner) else None
    name = _bound_to(call.node)
    if not name:
        return None
    around = unit.function_of(call.node)
    place = around if around is not None and "." not in name else unit.root
    suffix = "" if call.name == "Tick" else r"\.C"
    receives = re.compile(rf"(?:<-\s*|range\s+){re.escape(name)}{suffix}\b")
    for loop in nodes(place, "for_statement"):
        if not receives.search(loop.text()):
            continue
        if call.name == "NewTimer":
            again = f"{name}.Reset(" in loop.text() or _contains(loop, call.node)
            if not again or _leaves(without_comments(loop.text())) or _data_cases(loop):
                continue
        elif _contains(loop, call.node):
            continue
        if _endless(loop) or receives.search(loop.text().partition("{")[0]):
            return loop
    return None


def _bound_to(node: SgNode) -> str:
    for parent in above(node):
        if parent.kind() in ("short_var_declaration", "assignment_statement"):
            left = parent.field("left")
            return left.text().partition(",")[0].strip() if left is not None else ""
        if parent.kind() in ("var_spec", "const_spec"):
            name = parent.field("name")
            return name.text() if name is not None else ""
        if parent.kind() == "keyed_element":
            key = children(parent)
            return f"{key[0].text()}" if key else ""
        if parent.kind() in ("block", "call_expression", "func_literal", *FUNCTIONS):
            return ""
    return ""


def _contains(loop: SgNode, node: SgNode) -> bool:
    outer, inner = loop.range(), node.range()
    return outer.start.index <= inner.start.index and inner.end.index <= outer.end.index


def _endless(loop: SgNode) -> bool:
    """Decide whether a loop has no condition of its own, or asks only whether to stop."""
    head = loop.text().partition("{")[0].removeprefix("for").strip()
    if head in ("", "true", ";;"):
        return True
    return re.fullmatch(r"!?[\w.()]+", head) is not None and (
        _ENDS.search(head) is not None or "unning" in head or "alive" in head.lower()
    )


def _sleeping(unit: Unit, call: Call) -> Iterator[Trigger]:
    loop = enclosing(call.node, "for_statement")
    if loop is None or not _endless(loop):
        return
    if unit.function_of(call.node) is not None and unit.function_of(loop) is not None:
        inner, outer = unit.function_of(call.node), unit.function_of(loop)
        if inner is not None and outer is not None and line(inner) != line(outer):
            return  # the sleep is in a function of its own inside the loop
    body = loop.field("body")
    text = without_comments(body.text()) if body is not None else ""
    if _KEEPS_ALIVE.match(text) or _leaves(text):
        return
    if call.name == "After":
        if enclosing(call.node, "communication_case") is None or _data_cases(loop):
            return
    elif _data_cases(loop):
        return  # events drive it; the sleep only keeps them from coming too fast
    elif text.count("time.Sleep") == 1 and not _sleeps_at_the_end(loop, call.node):
        return
    yield from _trigger(unit, call, loop, text, unit.span(call.text(0)), "loop")


def _sleeps_at_the_end(loop: SgNode, sleep: SgNode) -> bool:
    """Decide whether a sleep is the turn's own, and not what follows a failure."""
    found = enclosing(sleep, "if_statement")
    body = loop.field("body")
    if found is None or body is None:
        return True
    condition = found.text().partition("{")[0]
    return "err" not in condition and "Err" not in condition


def _leaves(text: str) -> bool:
    """Decide whether a loop ends when it has what it waits for: then it is a wait or a retry."""
    rest = re.sub(
        r"case\s+<-[^\n:]*(?:"
        + _ENDS.pattern
        + r")[^\n:]*:[\s\S]*?(?=\bcase\b|\bdefault\b|\}\s*\n|$)",
        "",
        text,
        flags=re.IGNORECASE,
    )
    rest = re.sub(
        r"if[^{\n]*(?:" + _ENDS.pattern + r")[^{\n]*\{[^{}]*\}", "", rest, flags=re.IGNORECASE
    )
    return re.search(r"\breturn\b|\bbreak\b(?!\s*$)", rest) is not None


def _data_cases(loop: SgNode) -> list[str]:
    """Return the channels other than timers and signals that a loop receives from."""
    found = []
    for case in nodes(loop, "communication_case"):
        head = case.text().partition(":")[0] if ":=" not in case.text()[:60] else case.text()[:120]
        received = re.search(r"(?:case\s+|=\s*)<-\s*([\w.()]+)", head)
        if received and not _ENDS.search(received[1]):
            name = received[1]
            if not re.search(r"\.C$|time\.|[tT]ick|[tT]imer|wake|notify|trigger|kick", name):
                found.append(name)
    return found


def _until(unit: Unit, call: Call) -> Iterator[Trigger]:
    if not re.fullmatch(r"(?:\w*Until\w*|Forever)", call.name) or "Poll" in call.name:
        return
    body = call.text(1 if "Context" in call.name and len(call.arguments) > 2 else 0)
    period = next(
        (
            a.text()
            for a in call.arguments
            if re.search(r"time\.|[pP]eriod|[iI]nterval", a.text()[:80])
        ),
        call.text(1),
    )
    yield from _trigger(unit, call, None, without_comments(body), unit.span(period), "loop")


def _trigger(
    unit: Unit, call: Call, loop: SgNode | None, text: str, schedule: str, kind: str
) -> Iterator[Trigger]:
    function, receiver = unit.names_around(call.node)
    called = tuple(name for name in calls_in(text) if name not in QUIET)
    work = [name for name in called if name not in ("Stop", "Reset")]
    only = work[:1] if len(work) <= 2 else []
    if kind == "loop" and loop is not None and not work and not guards_in(text, 0):
        return  # it only keeps the process alive until it is told to end
    if for_a_person(function, receiver) or for_waiting(function) or supervises(function):
        return
    if kind == "loop" and loop is None:
        target = re.fullmatch(r"(?:\w+\.)*(\w+)", text.strip())
        work = [target[1]] if target else work
        only = work[:1]
    worker = loop is None and bool(work) and _WORKER.search(work[0]) is not None
    consumes = worker or _TAKES.search(text) is not None
    alone = Verdict.CONSUMER if consumes else Verdict.UNGUARDED
    if _OF_ONE_CLIENT.search(receiver) or _one_client(unit, call.node):
        return
    if kind == "loop" and _SESSIONS.search(function):
        return
    own = for_itself(
        function, *only, f"{receiver}_{function}", receiver, *_package(unit)
    ) or _one_client(unit, call.node)
    confidence: Confidence = "high" if kind == "go-ticker" else "medium"
    why = ""
    if alone is Verdict.UNGUARDED and loop is not None and _data_cases(loop):
        own = own or "the channel that it also reads"
        confidence = "medium"
    if alone is Verdict.UNGUARDED and own:
        alone, confidence = Verdict.PER_PROCESS_OK, "medium"
        why = f"{own} says that it serves its own process"
    first = text.partition("\n")[0]
    yield Trigger(
        kind="consumer-loop" if consumes else kind,
        path=unit.file.path,
        line=line(loop) if kind == "go-ticker" and _heads(loop, call) and loop else call.line,
        language="go",
        name=".".join(filter(None, (receiver, function))) or first[:0],
        schedule=schedule,
        target=work[0] if work else function,
        marks=tuple(dict.fromkeys((*work[1:8], function))),
        guards=(*_led(unit, call.node), *guards_in(text, line(loop) if loop else call.line)),
        alone=alone,
        role="consumer" if consumes else "trigger",
        why=why,
        confidence=confidence,
    )


def _package(unit: Unit) -> tuple[str, ...]:
    """Return the package's name where it says that everything in it serves the process."""
    match = re.search(r"(?m)^package\s+(\w*(?:cache|metric|telemetry|health)\w*)", unit.file.text)
    return (f"{match[1]}_cleanup",) if match else ()


def _heads(loop: SgNode | None, call: Call) -> bool:
    return loop is not None and line(loop) == call.line


def _one_client(unit: Unit, node: SgNode) -> str:
    """See a loop that lives as long as one connection: its function takes the connection."""
    found = enclosing(node, *FUNCTIONS)
    parameters = found.field("parameters") if found is not None else None
    match = _CONNECTIONS.search(parameters.text()) if parameters is not None else None
    return match[0] if match else ""


def _led(unit: Unit, node: SgNode) -> Iterator[Guard]:
    """See work that only the elected leader starts."""
    for parent in above(node, "keyed_element", "call_expression"):
        head = parent.text()[:200]
        if "OnStartedLeading" in head or "leaderelection." in head.partition("(")[0]:
            why = "lets one leader run it; nothing fences a leader that has been replaced"
            yield Guard("leader election", Verdict.WEAK_GUARD, line(parent), why)
            return
