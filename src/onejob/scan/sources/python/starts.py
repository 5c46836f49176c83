"""Where a scheduler is started: what guards that guards every job that the file gives it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from onejob.scan.facts import Guard, Setting
from onejob.scan.finding import Verdict
from onejob.scan.sources.python.guards import guards_in
from onejob.scan.sources.python.locks import file_lock
from onejob.scan.sources.python.module import Module

#: Jobs of these are fired by an object that is started somewhere.
STARTED = ("apscheduler", "flask-apscheduler", "rocketry")
_SCHEDULER = re.compile(r"sched|aps", re.I)
_MASTER = ("on_starting", "when_ready")
_KINDS = (Verdict.HOST_ONLY, Verdict.WEAK_GUARD)


def guards_of_start(module: Module) -> tuple[Guard, ...]:
    """Return what decides whether this process starts its scheduler; none for a bare start."""
    found: list[Guard] = []
    for call in _starts(module):
        before = [guard for guard in _around(module, call) if guard.line <= call.lineno]
        if not before:
            return ()
        found.append(before[0])
    return tuple(found[:1])


def _starts(module: Module) -> Iterator[ast.Call]:
    for call in module.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "start":
            made = f"{module.name(call.func.value)} {module.maker(call.func.value)}"
            if _SCHEDULER.search(made):
                yield call


def _around(module: Module, call: ast.Call) -> Iterator[Guard]:
    function = module.function_of(call)
    if function is not None:
        yield from (guard for guard in guards_in(module, function) if guard.gives in _KINDS)
        return
    for other in module.calls:
        if module.function_of(other) is None:
            guard = file_lock(module, other)
            if guard is not None:
                yield guard


def started_in_master(module: Module) -> Iterator[Setting]:
    """Return the setting that gunicorn's master starts the scheduler: once on each host."""
    for call in _starts(module):
        function = module.function_of(call)
        if function is not None and function.name in _MASTER:
            yield Setting("scheduler.in-master", "true", module.path, call.lineno)
