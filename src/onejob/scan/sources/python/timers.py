"""Timers that arm themselves again, and tasks that sleep until a time before they work."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from onejob.scan.facts import Guard, Trigger
from onejob.scan.finding import Related, Verdict
from onejob.scan.sources.python import timing
from onejob.scan.sources.python.loops import GO, STOP, is_wait
from onejob.scan.sources.python.module import FunctionNode, Module, argument
from onejob.scan.sources.python.purpose import for_itself


def find(module: Module) -> Iterator[Trigger]:
    """Return the timers that arm themselves again, and the starts that wait for a time."""
    yield from _timers(module)
    yield from _delayed_starts(module)


def _timers(module: Module) -> Iterator[Trigger]:
    for call in module.calls:
        name = module.name(call.func)
        if name.endswith("threading.Timer") or name == "Timer":
            again = argument(call, 1, "function")
            period = argument(call, 0, "interval")
        elif name.endswith((".call_later", ".enter")) and len(call.args) > 1:
            again = call.args[1] if name.endswith("call_later") else argument(call, 2, "action")
            period = call.args[0]
        else:
            continue
        function = module.function_of(call)
        if function is None or again is None or _sometimes(module, call):
            continue
        target = module.name(again).rpartition(".")[2]
        outer = module.function_of(function)
        around = {function.name, outer.name if outer else ""}
        started = module.local(target)
        if target not in around and not (
            started is not None and _calls(module, started, function.name)
        ):
            continue
        own = for_itself(module, function, [])
        yield Trigger(
            kind="timer",
            path=module.path,
            line=function.lineno,
            language="python",
            name=function.name,
            schedule=timing.span(module, period),
            target=module.qualified(function),
            marks=module.marks(function),
            guards=(Guard(own, Verdict.PER_PROCESS_OK, function.lineno, "serves its own process"),)
            if own
            else (),
            related=(Related(module.path, call.lineno, "arms itself again"),)
            if call.lineno != function.lineno
            else (),
        )


def _sometimes(module: Module, call: ast.Call) -> bool:
    """Decide whether a timer is armed only under a condition that says nothing of stopping."""
    for above in module.above(call):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
        if isinstance(above, ast.ExceptHandler):
            return True
        if isinstance(above, ast.If):
            text = ast.unparse(above.test)
            return not (STOP.search(text) or GO.search(text))
    return False


def _calls(module: Module, function: FunctionNode, name: str) -> bool:
    return any(
        isinstance(node, ast.Call) and module.name(node.func).rpartition(".")[2] == name
        for node in ast.walk(function)
    )


_STARTS = re.compile(r"start|startup|lifespan|init|main|setup|run|ready|boot|create_app", re.I)
_TIMED = re.compile(r"schedul|daily|hourly|nightly|weekly|cron|period|midnight|recurr", re.I)


def _delayed_starts(module: Module) -> Iterator[Trigger]:
    """``create_task(schedule_daily())`` where that sleeps until a time that it works out."""
    for call in module.calls:
        name = module.name(call.func)
        if name.rpartition(".")[2] not in ("create_task", "ensure_future", "start_soon"):
            continue
        started = argument(call, 0, "coro", "coro_or_future", "func")
        function = module.function_of(call)
        if not isinstance(started, ast.Call) or started.args or function is None:
            continue
        target = module.local(module.name(started.func))
        if target is None or not _STARTS.search(function.name) or not _TIMED.search(target.name):
            continue
        inner = list(ast.walk(target))
        sleeps = [n for n in inner if isinstance(n, ast.Call) and is_wait(module, n)]
        if not sleeps or any(isinstance(node, ast.While) for node in inner):
            continue
        yield Trigger(
            kind="asyncio-loop",
            path=module.path,
            line=call.lineno,
            language="python",
            name=target.name,
            schedule="at a time that the code works out",
            target=module.qualified(target),
            marks=module.marks(target),
            confidence="medium",
            why="every process that starts this waits for the same time and does the work",
        )
