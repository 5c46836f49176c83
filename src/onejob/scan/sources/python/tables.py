"""Tables of schedules: rows in one place, and a loop that hands each of them to a scheduler.

The rows are what a reader looks for, so each becomes a trigger; the call in the loop is named as
the place that registers them. Rows that are plain texts stay one trigger, at the call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from onejob.scan import schedules
from onejob.scan.facts import Trigger
from onejob.scan.finding import Related
from onejob.scan.sources.python import timing
from onejob.scan.sources.python.module import Module, entries

ROWS_MAX = 200
_PERIODS = ("interval", "every", "schedule", "period", "cron", "crontab", "frequency")


def unrolled(module: Module, trigger: Trigger, node: ast.AST) -> Iterator[Trigger]:
    """Return a trigger for each row of the table around a call; the trigger itself without one."""
    rows = _rows(module, node)
    if not rows:
        yield trigger
        return
    register = Related(module.path, trigger.line, "registers it")
    for row in rows[:ROWS_MAX]:
        name, schedule, target = _cells(module, row)
        yield replace(
            trigger,
            line=row.lineno,
            name=name or target.rpartition(".")[2] or trigger.name,
            schedule=schedule or trigger.schedule,
            target=target or trigger.target,
            related=(*trigger.related, register),
        )


def _rows(module: Module, node: ast.AST) -> list[ast.expr]:
    for above in module.above(node):
        match above:
            case ast.For(iter=table) | ast.AsyncFor(iter=table) | ast.comprehension(iter=table):
                return _composite(module, table)
            case ast.ListComp(generators=[first, *_]) | ast.DictComp(generators=[first, *_]):
                return _composite(module, first.iter)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return []
            case _:
                continue
    return []


def _composite(module: Module, table: ast.expr) -> list[ast.expr]:
    if isinstance(table, ast.Call) and isinstance(table.func, ast.Attribute):
        table = table.func.value if table.func.attr in ("items", "values") else table
    found = module.value(table)
    rows: list[ast.expr] = []
    match found:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            rows = elements
        case ast.Dict(values=values):
            rows = values
        case _:
            return []
    kinds = (ast.Dict, ast.Tuple, ast.List, ast.Call)
    return rows if rows and all(isinstance(row, kinds) for row in rows) else []


def _cells(module: Module, row: ast.expr) -> tuple[str, str, str]:
    """Return the name, the schedule and the function in a row, as far as their shapes tell."""
    named = entries(row)
    if isinstance(row, ast.Call) and not named:
        named = {each.arg: each.value for each in row.keywords if each.arg}
    cells = [*named.values()] if named else [*getattr(row, "elts", getattr(row, "args", []))]
    texts = [module.text(cell) for cell in cells]
    schedule = next((schedules.cron(text) for text in texts if schedules.is_cron(text)), "")
    if not schedule:
        period = next((named[key] for key in _PERIODS if key in named), None)
        schedule = timing.span(module, period) if period is not None else ""
    target = next((module.name(c) for c in cells if isinstance(c, ast.Name | ast.Attribute)), "")
    target = next((t for t in texts if "." in t and " " not in t and "/" not in t), target)
    name = next((module.text(named[key]) for key in ("id", "name", "job_id") if key in named), "")
    plain = (text for text in texts if text and not schedules.is_cron(text) and len(text) < 80)
    return name or next(plain, ""), schedule, target
