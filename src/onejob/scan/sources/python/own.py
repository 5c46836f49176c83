"""Schedulers of the house's own: decorators by their shape, wrappers by their body.

A wrapper is a function that hands a function of its caller's to a scheduler or to a loop. Calls of
it, in whichever file, are the triggers; the join finds them by name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from onejob.scan import schedules
from onejob.scan.facts import Trigger, Use, Wrapper
from onejob.scan.sources.python import timing
from onejob.scan.sources.python.module import FunctionNode, Module, keywords
from onejob.scan.sources.python.scheduling import target_name

_NAMES = re.compile(
    r"cron|sched|period|every|interval|recur|repeat|timer|(^|_)(job|task)s?(_|$)", re.I
)
_DECORATORS = re.compile(
    r"cron|sched|period|every|recur|repeat|system_job|background_(job|task)", re.I
)
_PERIODS = (
    "cron",
    "crontab",
    "interval",
    "every",
    "run_every",
    "period",
    "cron_string",
    "schedule",
)
_COUNTS = ("seconds", "minutes", "hours", "days")
_KNOWN = frozenset(("task", "job", "actor", "shared_task", "repeat_every", "scheduled_job"))


def decorated(module: Module, taken: set[int]) -> Iterator[Trigger]:
    """Return functions and classes under a decorator that names a period and sounds like it."""
    marked: list[FunctionNode | ast.ClassDef] = [*module.functions, *module.classes]
    for node in marked:
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call) or decorator.lineno in taken:
                continue
            name = module.name(decorator.func)
            last = name.rpartition(".")[2]
            period = _period(module, decorator)
            if last in _KNOWN or not period or not _DECORATORS.search(last):
                continue
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield Trigger(
                kind="own-decorator",
                path=module.path,
                line=decorator.lineno,
                language="python",
                name=node.name,
                schedule=period,
                target=module.qualified(node) if function else f"{module.dotted}.{node.name}.run",  # type: ignore[arg-type]  # a function, by the test
                marks=tuple(filter(None, map(module.name, node.decorator_list))),
                confidence="medium",
            )


def _period(module: Module, call: ast.Call) -> str:
    given = keywords(call)
    for key in _PERIODS:
        if key in given:
            return timing.span(module, given[key]) or "as its decorator says"
    if any(key in given for key in _COUNTS):
        return timing.interval(module, given)
    for each in call.args[:2]:
        text = module.text(each)
        if schedules.is_cron(text):
            return schedules.cron(text)
    return ""


def wrapper_around(module: Module, trigger: Trigger, node: ast.AST) -> Wrapper | None:
    """Return the function that hands its caller's function to this trigger; None for none."""
    inner = module.function_of(node)
    outer = inner
    while inner is not None:
        outer = inner
        names = {
            each.arg for each in (*inner.args.posonlyargs, *inner.args.args, *inner.args.kwonlyargs)
        }
        if _runs_one_of(module, trigger, node, names - {"self", "cls"}):
            break
        inner = module.function_of(inner)
    if inner is None or outer is None:
        return None
    while (above := module.function_of(outer)) is not None:
        outer = above
    return Wrapper(outer.name, module.path, outer.lineno, trigger)


def _runs_one_of(module: Module, trigger: Trigger, node: ast.AST, names: set[str]) -> bool:
    if not names:
        return False
    if trigger.target in names:
        return True
    known = trigger.target.rpartition(".")[0] or module.local(trigger.target) is not None
    if not known and trigger.schedule.removeprefix("from ") in names:
        return True  # the period is the caller's, and so is what runs
    body: list[ast.AST] = list(ast.walk(node)) if isinstance(node, ast.While) else []
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in names
        for each in body
    )


def uses(module: Module) -> Iterator[Use]:
    """Return the calls and decorators that may be of a wrapper: it is known only after the join."""
    for call in module.calls:
        name = module.name(call.func)
        last = name.rpartition(".")[2]
        if not _NAMES.search(last) or len(last) > 60:
            continue
        parent = module.parents.get(call)
        if (
            isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef)
            and call in parent.decorator_list
        ):
            yield Use(
                last,
                module.path,
                call.lineno,
                parent.name,
                _period(module, call),
                module.qualified(parent),
            )
            continue
        handed = [*call.args, *(each.value for each in call.keywords)]
        target = next((t for each in handed if (t := _function_in(module, each))), "")
        if target:
            yield Use(
                last,
                module.path,
                call.lineno,
                target.rpartition(".")[2],
                _spoken(module, call),
                target,
            )


def _function_in(module: Module, node: ast.expr) -> str:
    match node:
        case ast.Lambda() | ast.Call(func=ast.Attribute(attr="s" | "si" | "signature")):
            return target_name(module, node) or "lambda"
        case ast.Name(id=identifier) if identifier not in module.values:
            return module.name(node)
        case ast.Attribute() if not isinstance(module.value(node), ast.Constant):
            return module.name(node)
        case _:
            return ""


def _spoken(module: Module, call: ast.Call) -> str:
    found = _period(module, call)
    if found:
        return found
    for each in call.args:
        if timing.number(module, each) is not None or isinstance(module.value(each), ast.Call):
            span = timing.span(module, each)
            if span:
                return span
    return ""
