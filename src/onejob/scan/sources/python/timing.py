"""Schedules in Python expressions: intervals, cron fields, crontab objects, through constants."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from onejob.scan import schedules
from onejob.scan.sources.python.module import Module, argument, keywords

#: Of APScheduler, of timedelta, and of most libraries that count.
UNITS = {
    "weeks": 604_800.0,
    "days": 86_400.0,
    "hours": 3_600.0,
    "minutes": 60.0,
    "seconds": 1.0,
    "milliseconds": 0.001,
    "week": 604_800.0,
    "day": 86_400.0,
    "hour": 3_600.0,
    "minute": 60.0,
    "second": 1.0,
}
CRON_FIELDS = ("second", "minute", "hour", "day", "month", "day_of_week")
DEPTH_MAX = 30
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Mult: operator.mul,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Div: operator.truediv,
}
_DAY_NAMES = re.compile(r"(sun|mon|tue|wed|thu|fri|sat)(?:day|sday|nesday|rsday|urday)")
_SAYS_NOTHING = ("bool", "timedelta", "datetime", "int", "float", "max", "min", "os", "self")
_CHANCE = ("random.", "uuid.", "secrets.", "numpy.random", "os.getpid", "time.time", "datetime.now")
_CHANCE_ENDS = ("randint", "randrange", "getpid", ".now", ".utcnow", "uniform", "time_ns")


def number(module: Module, node: ast.AST | None, depth: int = 0) -> float | None:
    """Return a number that is written in the file, through names and arithmetic; spans in seconds.

    None where the program computes it.
    """
    if depth > DEPTH_MAX:
        return None
    node = module.value(node)
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            first = number(module, left, depth + 1)
            second = number(module, right, depth + 1)
            if first is None or second is None or (second == 0 and isinstance(op, ast.Div)):
                return None
            return _ARITHMETIC[type(op)](first, second)
        case ast.Call(func=ast.Attribute(attr="total_seconds", value=span)):
            return number(module, span, depth + 1)
        case ast.Call() if module.name(node.func).endswith("timedelta"):
            return _timedelta(module, node, depth)
        case ast.Call(func=ast.Name(id="int" | "float" | "round"), args=[inner, *_]):
            return number(module, inner, depth + 1)
        case _:
            return None


def _timedelta(module: Module, call: ast.Call, depth: int) -> float | None:
    positions = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
    given: dict[str, ast.expr] = dict(zip(positions, call.args, strict=False))
    given.update(keywords(call))
    total = 0.0
    for unit, node in given.items():
        size = UNITS.get(unit, 0.000001 if unit == "microseconds" else None)
        amount = number(module, node, depth + 1)
        if size is None or amount is None:
            return None
        total += size * amount
    return total


def interval(module: Module, given: Mapping[str, ast.expr]) -> str:
    """Return ``every 5m`` of keyword arguments such as minutes=5; a name where it is computed."""
    total = 0.0
    for unit, size in UNITS.items():
        if unit not in given:
            continue
        amount = number(module, given[unit])
        if amount is None:
            return computed(module, given[unit])
        total += amount * size
    return schedules.every(total) if total else ""


def span(module: Module, node: ast.AST | None) -> str:
    """Return ``every 5m`` of a number of seconds, a timedelta or a schedule object."""
    if node is None:
        return ""
    found = number(module, node)
    if found is not None:
        return schedules.every(found) if found > 0 else ""
    value = module.value(node)
    if isinstance(value, ast.Call):
        last = module.name(value.func).rpartition(".")[2]
        if last in ("crontab", "cron", "Crontab"):
            return crontab(module, value)
        if last == "schedule":
            return span(module, argument(value, 0, "run_every"))
    text = module.text(node)
    return schedules.cron(text) or computed(module, node)


def computed(module: Module, node: ast.AST | None) -> str:
    """Return the name that a schedule is computed from, as ``from settings.INTERVAL``."""
    for each in ast.walk(node) if node is not None else ():
        if isinstance(each, ast.Attribute | ast.Name):
            name = module.name(each)
            if name and not name.startswith(".") and name.rpartition(".")[2] not in _SAYS_NOTHING:
                return f"from {name}"[: schedules.CHARACTERS_MAX]
    return ""


def crontab(module: Module, call: ast.Call) -> str:
    """Return the cron expression of Celery's or huey's ``crontab(minute=..., hour=...)``."""
    order = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
    given: dict[str, ast.expr] = {}
    if any(isinstance(each, ast.Starred) for each in call.args):
        return computed(module, call.args[0])
    given.update(zip(order, call.args, strict=False))
    given.update(keywords(call))
    if len(given) == 1 and call.args and schedules.is_cron(module.text(call.args[0])):
        return schedules.cron(module.text(call.args[0]))
    names = (
        ("minute",),
        ("hour",),
        ("day_of_month", "day"),
        ("month_of_year", "month"),
        ("day_of_week",),
    )
    return _fields(module, given, names)


def cron_fields(module: Module, given: Mapping[str, ast.expr]) -> str:
    """Return the cron expression of APScheduler's fields: coarser ones default to ``*``."""
    present = [name for name in CRON_FIELDS if name in given]
    if not present:
        return ""
    names = (("minute",), ("hour",), ("day",), ("month",), ("day_of_week",))
    least = (
        min(CRON_FIELDS.index(name) for name in present if name != "day_of_week")
        if (present != ["day_of_week"])
        else 3
    )
    # Fields finer than the finest that is given stand at their minimum.
    fields = []
    for position, (name,) in enumerate(names, start=1):
        if name in given:
            fields.append(_field(module, given[name]))
        else:
            fields.append(("1" if name in ("day", "month") else "0") if position < least else "*")
    if "" in fields:
        return computed(module, next(given[name] for name in present))
    second = f"{_field(module, given['second'])} " if "second" in given else ""
    return second.removeprefix("0 ") + " ".join(fields)


def _fields(
    module: Module, given: Mapping[str, ast.expr], names: tuple[tuple[str, ...], ...]
) -> str:
    fields = []
    for alternatives in names:
        node = next((given[name] for name in alternatives if name in given), None)
        field = "*" if node is None else _field(module, node)
        if not field:
            return computed(module, node)
        fields.append(field)
    return " ".join(fields)


def _field(module: Module, node: ast.expr) -> str:
    value = module.value(node)
    match value:
        case ast.Constant(value=int(digits)) if not isinstance(value.value, bool):
            return str(digits)
        case ast.Constant(value=str(text)):
            field = _DAY_NAMES.sub(r"\1", text.replace(" ", "").lower())
            return field if len(field) <= schedules.CHARACTERS_MAX else ""
        case ast.Constant(value=None):
            return "*"
        case ast.Set(elts=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            fields = [_field(module, each) for each in parts]
            return ",".join(fields) if all(fields) else ""
        case _:
            return ""


def by_chance(module: Module, *nodes: ast.AST | None) -> bool:
    """Decide whether a schedule is drawn from clock or chance when the file is loaded."""
    for root in nodes:
        followed = module.value(root)
        for node in ast.walk(followed) if followed is not None else ():
            if isinstance(node, ast.Name) and node.id in module.values:
                inner = module.values[node.id]
                if isinstance(inner, ast.Call) and _chance(module.name(inner.func)):
                    return True
            if isinstance(node, ast.Call) and _chance(module.name(node.func)):
                return True
    return False


def _chance(name: str) -> bool:
    return name.startswith(_CHANCE) or name.endswith(_CHANCE_ENDS)
