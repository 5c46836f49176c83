"""Loops: which of them is scheduled work, which takes from a queue, which is neither.

A loop is scheduled work when it goes on until the program stops, waits in each turn, and does
something else besides. It is not when it ends with an answer (polling, paging), waits only after a
failure (retrying) or only to stay alive, draws for a person, or yields to a caller.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from onejob.scan.facts import Guard, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.sources.python import timing
from onejob.scan.sources.python.module import Module, argument
from onejob.scan.sources.python.purpose import (
    consumes,
    for_itself,
    for_one_client,
    in_process,
    interactive,
)

STOP = re.compile(
    r"stop|shut_?down|kill|exit|terminat|cancel|quit|clos|signal|interrupt|abort|halt"
    r"|teardown|disconnect",
    re.I,
)
GO = re.compile(
    r"running|run$|_run\b|active|enabled|keep_|should_|is_alive$|started|continue|^true$", re.I
)
#: A loop that can also be asked for one turn is still a loop.
_MODE = re.compile(r"\bonce\b|_once\b|\bloop\b|daemon|forever|one_?shot|single_?run", re.I)
_SLEEPS = ("sleep", "async_sleep", "sleep_ms", "pause")
_WAITS = ("wait", "wait_for", "join_timeout", "sleep_or_stop", "wait_for_stop")
_LOG = re.compile(r"(^|\.)(log(ger|ging)?|_log|_logger|print|warnings?|stdout|console)\b", re.I)
_ENDS = ("KeyboardInterrupt", "CancelledError", "SystemExit", "GeneratorExit")


@dataclass
class Loop:
    """What one loop does in a turn, without its inner functions."""

    node: ast.While
    waits: list[tuple[ast.Call, bool]] = field(default_factory=list)
    """Each wait, and whether it is reached only after a failure."""
    calls: list[ast.Call] = field(default_factory=list)
    answers: bool = False
    """It ends when it has what it wanted."""
    yields: bool = False
    idle: list[ast.If] = field(default_factory=list)
    """Conditions that wait when nothing was there."""
    touched: bool = False
    """It changes something without a call."""


def find(module: Module) -> Iterator[Trigger]:
    """Return the loops of this file that are scheduled work, or take from a queue."""
    for node in module.loops:
        if isinstance(node, ast.While) and _endless(module, node):
            found = _judged(module, node)
            if found is not None:
                yield found


def _endless(module: Module, node: ast.While) -> bool:
    match node.test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return bool(STOP.search(ast.unparse(operand)))
        case ast.Compare(ops=[ast.Is() | ast.IsNot() | ast.Eq()], left=left):
            return bool(STOP.search(ast.unparse(left)) or GO.search(ast.unparse(left)))
        case ast.BoolOp(values=values):
            return all(
                _endless(module, ast.While(test=value, body=[], orelse=[])) for value in values
            )
        case ast.Name() | ast.Attribute() | ast.Call():
            text = ast.unparse(node.test)
            return bool(GO.search(text)) and not STOP.search(text)
        case ast.NamedExpr():
            return False
        case _:
            return False


def _judged(module: Module, node: ast.While) -> Trigger | None:
    loop = _read(module, node)
    function = module.function_of(node)
    if loop.yields or interactive(module, loop.calls, node) or for_one_client(module, function):
        return None
    consuming = consumes(module, loop.calls) or _when_empty(module, loop)
    if in_process(module, loop.calls) and not consuming:
        return None
    if not loop.waits:
        return _trigger(module, node, loop, consumer=True) if consumes(module, loop.calls) else None
    if all(failed for _, failed in loop.waits) and not consuming:
        return None
    if loop.answers and not consuming:
        return None
    if not loop.touched and not _works(module, loop):
        return None
    return _trigger(module, node, loop, consumer=consuming)


def _trigger(module: Module, node: ast.While, loop: Loop, *, consumer: bool) -> Trigger:
    function = module.function_of(node)
    wait = next((call for call, failed in loop.waits if not failed), None)
    asynchronous = isinstance(function, ast.AsyncFunctionDef)
    own = "" if consumer else for_itself(module, function, loop.calls)
    return Trigger(
        kind="consumer-loop" if consumer else "asyncio-loop" if asynchronous else "loop",
        path=module.path,
        line=node.lineno,
        language="python",
        name=function.name if function else "",
        schedule=_waited(module, wait),
        target=module.qualified(function) if function else "",
        marks=module.marks(function) if function else (),
        guards=(Guard(own, Verdict.PER_PROCESS_OK, node.lineno, "serves its own process"),)
        if own
        else (),
        alone=Verdict.CONSUMER if consumer else Verdict.UNGUARDED,
        role="consumer" if consumer else "trigger",
        why="" if consumer else "every process that starts this loop does the work in each turn",
        confidence="medium",
    )


def _read(module: Module, node: ast.While) -> Loop:
    loop = Loop(node)
    # (node, inside an inner loop, after a failure, under a condition that means stop)
    stack: list[tuple[ast.AST, bool, bool, bool]] = [(node.test, False, False, False)]
    stack += [(each, False, False, False) for each in reversed(node.body)]
    while stack:
        each, inner, failed, stopping = stack.pop()
        match each:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue
            case ast.Yield() | ast.YieldFrom():
                loop.yields = True
            case ast.Break() if not inner and not stopping and not failed:
                loop.answers = True
            case ast.Return(value=value) if not stopping and not failed:
                # A bare return in a try or at the end is as good as a break.
                loop.answers = loop.answers or not _nothing(value) or not stopping
            case ast.Call():
                if is_wait(module, each):
                    loop.waits.append((each, failed))
                else:
                    if not failed:
                        loop.calls.append(each)
                    if _exits(module, each) and not failed and not stopping:
                        loop.answers = True
            case ast.AugAssign() | ast.Delete():
                loop.touched = loop.touched or isinstance(each, ast.Delete)
            case ast.If():
                loop.idle.append(each)
            case _:
                pass
        for child in ast.iter_child_nodes(each):
            stack.append(_below(each, child, inner, failed, stopping))
    return loop


def _below(
    parent: ast.AST, child: ast.AST, inner: bool, failed: bool, stopping: bool
) -> tuple[ast.AST, bool, bool, bool]:
    match parent:
        case ast.For() | ast.AsyncFor() | ast.While():
            inner = True
        case ast.ExceptHandler(type=kind):
            ends = kind is not None and any(end in ast.unparse(kind) for end in _ENDS)
            stopping, failed = stopping or ends, True
        case ast.If(test=test) if child is not test:
            text = ast.unparse(test)
            stopping = stopping or any(words.search(text) for words in (STOP, GO, _MODE))
        case _:
            pass
    return child, inner, failed, stopping


def _nothing(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _exits(module: Module, call: ast.Call) -> bool:
    return module.name(call.func) in ("sys.exit", "exit", "os._exit", "quit")


def is_wait(module: Module, call: ast.Call) -> bool:
    """Decide whether a call waits for time to pass, or for the end."""
    name = module.name(call.func)
    last = name.rpartition(".")[2]
    if last in _SLEEPS or last.endswith("_sleep") or last.startswith(("sleep_", "_sleep")):
        return True
    if last in ("wait", *_WAITS) and (call.args or call.keywords):
        return bool(STOP.search(name) or "event" in name.lower() or "asyncio" in name) or (
            timing.number(module, argument(call, 0, "timeout")) is not None
        )
    return False


def _waited(module: Module, wait: ast.Call | None) -> str:
    if wait is None:
        return ""
    last = module.name(wait.func).rpartition(".")[2]
    position = 1 if last == "wait_for" else 0
    node = argument(wait, position, "timeout", "seconds", "delay")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        node = node.left  # the rest of the period, after the work
    found = timing.number(module, node)
    return timing.span(module, node) if found is None or found > 0 else ""


def _when_empty(module: Module, loop: Loop) -> bool:
    """Every wait stands under "nothing was there": it polls for work, and has no schedule."""
    if not loop.waits:
        return False
    empty = [test for test in loop.idle if _asks_for_nothing(module, test.test)]
    inside = {id(node) for test in empty for part in test.body for node in ast.walk(part)}
    return all(id(call) in inside for call, _ in loop.waits)


def _asks_for_nothing(module: Module, test: ast.expr) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
            return _came_from_a_call(module, name)
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is() | ast.Eq()], comparators=[right]):
            return (
                isinstance(right, ast.Constant)
                and not right.value
                and (_came_from_a_call(module, name))
            )
        case ast.Compare(left=ast.Call(func=ast.Name(id="len")), ops=[ast.Eq()]):
            return True
        case _:
            return False


def _came_from_a_call(module: Module, name: str) -> bool:
    value = module.values.get(name)
    if value is None:
        # Bound by unpacking: a, b = fetch()
        return any(
            isinstance(each, ast.Assign)
            and isinstance(each.value, ast.Call)
            and any(
                isinstance(n, ast.Name) and n.id == name for t in each.targets for n in ast.walk(t)
            )
            for each in module.assignments
        )
    if isinstance(value, ast.Await):
        value = value.value
    return isinstance(value, ast.Call)


def _works(module: Module, loop: Loop) -> bool:
    """Decide whether a turn does more than wait, log and look at the clock."""
    for call in loop.calls:
        name = module.name(call.func)
        last = name.rpartition(".")[2]
        if _LOG.search(name) or name.startswith(("time.", "datetime.", "asyncio.", "random.")):
            continue
        if last in _IDLE or STOP.search(last):
            continue
        if "schedule" in name.lower() and last in ("run_pending", "run", "idle_seconds"):
            continue
        return True
    return False


_IDLE_WORDS = """
    run_pending len int str float min max round is_set is_alive format now utcnow time monotonic
    total_seconds getattr isinstance wait join range abs strftime isoformat shutdown set
    get_event_loop debug info warning error exception critical log wait_for timedelta
"""
_IDLE = frozenset(_IDLE_WORDS.split())
