"""Schedules in JavaScript expressions: cron texts, milliseconds, NestJS's named expressions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from onejob.scan import schedules
from onejob.scan.sources.javascript.script import Script, arguments, called, entries

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_NUMBER = re.compile(r"[\d_]+(?:\.\d+)?(?:e\d+)?")
_PRODUCT = re.compile(r"[\d_.]+(?:\s*\*\s*[\d_.]+)*")
_WORDS = re.compile(
    r"(?:every\s+)?(\d+|one|a|an)?\s*(milliseconds?|ms|seconds?|secs?|minutes?|mins?|hours?|days?|weeks?"
    r"|[smhdw])\b\s*$",
    re.I,
)
_UNITS = {"ms": 0.001, "mi": 60.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_KEYED = {
    "milliseconds": 0.001,
    "seconds": 1.0,
    "minutes": 60.0,
    "hours": 3_600.0,
    "days": 86_400.0,
    "weeks": 604_800.0,
}
_NAMED = {
    "EVERY_SECOND": "* * * * * *",
    "EVERY_MINUTE": "*/1 * * * *",
    "EVERY_HOUR": "0 * * * *",
    "EVERY_DAY_AT_MIDNIGHT": "0 0 * * *",
    "EVERY_DAY_AT_NOON": "0 12 * * *",
    "EVERY_WEEK": "0 0 * * 0",
    "EVERY_WEEKDAY": "0 0 * * 1-5",
    "EVERY_WEEKEND": "0 0 * * 6,0",
    "EVERY_QUARTER": "0 0 1 */3 *",
    "EVERY_YEAR": "0 0 1 1 *",
    "EVERY_1ST_DAY_OF_MONTH_AT_MIDNIGHT": "0 0 1 * *",
    "EVERY_1ST_DAY_OF_MONTH_AT_NOON": "0 12 1 * *",
}
_AT = re.compile(r"EVERY_DAY_AT_(\d+)(AM|PM)")
_STEP = re.compile(r"EVERY_(\d+)_(SECOND|MINUTE|HOUR)S?")
#: ``Second.ms``, ``ONE_HOUR_MS``: constants of other files whose names say what they are.
_UNIT_NAME = re.compile(
    r"(?:ONE_|MS_PER_|MS_IN_)?(second|minute|hour|day|week)s?(?:[._]?(?:IN_?)?m(?:illi)?s\w*)?",
    re.I,
)
_TO_MILLISECONDS = re.compile(r"(second|minute|hour|day)s?ToM(?:illi|s)\w*", re.I)
_CHANCE = re.compile(r"Math\.random|new Date\(\)|Date\.now\(|randomInt|randomUUID|process\.pid")
_NAME = re.compile(r"[A-Za-z_$][\w$.]*")


def expression(script: Script, node: SgNode | None) -> str:
    """Return a cron expression; ``from NAME`` where the file does not say."""
    if node is None:
        return ""
    text = node.text()
    if "CronExpression." in text:
        return _named(text.rpartition(".")[2])
    found = schedules.cron(script.text(node))
    return found or words(script.text(node)) or computed(node)


def _named(name: str) -> str:
    at, step = _AT.fullmatch(name), _STEP.fullmatch(name)
    if at is not None:
        hour = int(at[1]) % 12 + (12 if at[2] == "PM" else 0)
        return f"0 {hour} * * *"
    if step is not None:
        number = step[1]
        if step[2] == "SECOND":
            return f"*/{number} * * * * *"
        return f"*/{number} * * * *" if step[2] == "MINUTE" else f"0 */{number} * * *"
    return _NAMED.get(name, name.lower().replace("_", " "))


def milliseconds(script: Script, node: SgNode | None) -> str:
    """Return ``every 5m`` of a number of milliseconds, through constants and products."""
    found = _amount(script, node, 0)
    if found is not None:
        return schedules.every(found / 1000) if found > 0 else ""
    return computed(node)


def _amount(script: Script, node: SgNode | None, depth: int) -> float | None:
    node = script.value(node)
    if node is None or depth > 20:
        return None
    if node.kind() == "number":
        return float(node.text().replace("_", "")) if _NUMBER.fullmatch(node.text()) else None
    unit = _UNIT_NAME.fullmatch(node.text()) if len(node.text()) < 40 else None
    if unit is not None:
        return _KEYED[f"{unit[1].lower()}s"] * 1000
    if node.kind() == "parenthesized_expression":
        return _amount(script, node.child(1), depth + 1)
    if node.kind() == "binary_expression":
        left = _amount(script, node.field("left"), depth + 1)
        right = _amount(script, node.field("right"), depth + 1)
        sign = node.field("operator")
        if left is None or right is None or sign is None:
            return None
        if sign.text() == "*":
            return left * right
        return left + right if sign.text() == "+" else None
    return _called(script, node, depth)


def _called(script: Script, node: SgNode, depth: int) -> float | None:
    """``minutesToMilliseconds(5)`` and ``ms("5m")``."""
    if node.kind() != "call_expression":
        return None
    name, given = called(node).rpartition(".")[2], arguments(node)
    unit = _TO_MILLISECONDS.fullmatch(name)
    if not given or (unit is None and name != "ms"):
        return None
    if unit is None:
        text = words(script.text(given[0]))
        return _spoken(text)
    amount = _amount(script, given[0], depth + 1)
    return amount * _KEYED[f"{unit[1].lower()}s"] * 1000 if amount is not None else None


def _spoken(text: str) -> float | None:
    match = re.fullmatch(r"every (\d+)(ms|[smhdw])", text)
    return float(match[1]) * _UNITS[match[2]] * 1000 if match else None


def words(text: str) -> str:
    """Return ``every 5m`` of words such as ``5 minutes``, ``every 2 hours``, ``one day``."""
    match = _WORDS.fullmatch(text.strip()) if len(text) < 40 else None
    if match is None:
        return ""
    number = float(match[1]) if (match[1] or "").isdigit() else 1.0
    unit = match[2].lower()
    key = unit[:2] if unit[:2] in ("ms", "mi") and not unit.startswith("mins") else unit[:1]
    if unit.startswith("millisecond"):
        key = "ms"
    return schedules.every(number * _UNITS[key])


def keyed(script: Script, node: SgNode | None) -> str:
    """Return ``every 5m`` of an object such as ``{minutes: 5}``."""
    total = 0.0
    given = entries(script.value(node))
    for unit, size in _KEYED.items():
        if unit in given:
            amount = _amount(script, given[unit], 0)
            if amount is None:
                return computed(given[unit])
            total += amount * size
    return schedules.every(total) if total else ""


def computed(node: SgNode | None) -> str:
    """Return the name that a schedule is computed from; "" where it is no name."""
    text = node.text() if node is not None else ""
    if text[:1] in "\"'`":
        return ""
    found = (each for each in _NAME.findall(text[:200]) if not each.startswith(("Math", "Number")))
    name = next(found, "")
    return f"from {name}"[: schedules.CHARACTERS_MAX] if name else ""


def by_chance(script: Script, node: SgNode | None) -> bool:
    """Decide whether a schedule is drawn from clock or chance when the file is loaded."""
    found = script.value(node)
    if found is None or len(found.text()) > 400:
        return False
    if _CHANCE.search(found.text()):
        return True
    names = _NAME.findall(found.text()) if found.kind() == "template_string" else []
    return any(
        (bound := script.values.get(name)) is not None
        and len(bound.text()) < 200
        and _CHANCE.search(bound.text()) is not None
        for name in names
    )
