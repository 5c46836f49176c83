"""Schedules in annotations and calls of Java and Kotlin."""

from __future__ import annotations

import re

from onejob.scan.schedules import CHARACTERS_MAX, cron, every
from onejob.scan.sources.jvm.methods import Annotation, Unit
from onejob.scan.syntax import literal

_SECONDS = {
    "NANOSECONDS": 1e-9,
    "MICROSECONDS": 1e-6,
    "MILLISECONDS": 0.001,
    "SECONDS": 1.0,
    "MINUTES": 60.0,
    "HOURS": 3_600.0,
    "DAYS": 86_400.0,
}
_SHORT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = re.compile(r"Duration\.of(Millis|Seconds|Minutes|Hours|Days)\(([^()]+)\)")
_KOTLIN = re.compile(r"([\d_]+)L?\.(milliseconds|seconds|minutes|hours|days)\b")
_INTERVALS = (
    ("fixedRateString", 0.001),
    ("fixedDelayString", 0.001),
    ("fixedRate", 0.001),
    ("fixedDelay", 0.001),
    ("every", 1.0),
)


def annotated(unit: Unit, annotation: Annotation) -> str:
    """Return the schedule of ``@Scheduled``, ``@Schedule`` or ``@Recurring``."""
    given = annotation.arguments
    if "cron" in given or "cronExpression" in given:
        return text_or_name(unit, given.get("cron") or given.get("cronExpression") or "")
    unit_name = given.get("timeUnit", "").rpartition(".")[2]
    for key, size in _INTERVALS:
        if key in given:
            return span(unit, given[key], _SECONDS.get(unit_name, size))
    if annotation.name == "Schedule":
        names = ("minute", "hour", "dayOfMonth", "month", "dayOfWeek")
        values = [literal(given.get(name, "")) for name in names]
        defaults = ("0", "0", "*", "*", "*")
        return cron(" ".join(v or d for v, d in zip(values, defaults, strict=True)))
    return text_or_name(unit, given.get("value", "")) if "value" in given else ""


def text_or_name(unit: Unit, expression: str) -> str:
    """Return a cron expression that is written, or the property or constant it comes from."""
    text = literal(expression) or unit.constant(expression.strip())
    if text:
        found = cron(text)
        default = re.fullmatch(r"[\\$#{]*\{?([\w.-]+):([^}]+)\}+", text)
        return found or (cron(default[2]) if default else "") or _from(text)
    return _from(expression)


def span(unit: Unit, expression: str, size: float) -> str:
    """Return ``every 5m`` of a number or a duration; the name it comes from otherwise."""
    duration = _DURATION.search(expression) or None
    if duration:
        number = unit.number(duration[2])
        name = f"{duration[1].upper()}"
        seconds = _SECONDS["MILLISECONDS" if name == "MILLIS" else name]
        return every(number * seconds) if number else _from(duration[2])
    kotlin = _KOTLIN.search(expression)
    if kotlin:
        return every(int(kotlin[1].replace("_", "")) * _SECONDS[kotlin[2].upper()])
    text = literal(expression) or unit.constant(expression.strip())
    if text:
        default = re.fullmatch(r"[\\$#{]*\{?[\w.-]+:([^}]+)\}+", text)
        plain = default[1] if default else text
        short = re.fullmatch(r"(\d+)\s*(ms|s|m|h|d)", plain)
        if short:
            return every(int(short[1]) * _SHORT[short[2]])
        if plain.isdigit():
            return every(int(plain) * size)
        return _from(text)
    number = unit.number(expression)
    return every(number * size) if number else _from(expression)


def of_unit(unit: Unit, amount: str, unit_argument: str) -> str:
    """Return the period of ``scheduleAtFixedRate(task, 0, 30, SECONDS)``."""
    size = _SECONDS.get(unit_argument.rpartition(".")[2].strip(), 0.001)
    return span(unit, amount, size)


def _from(text: str) -> str:
    name = re.search(r"[A-Za-z_][\w.-]*\w", re.sub(r"[\\${}\"#]", " ", text))
    return f"from {name[0]}"[:CHARACTERS_MAX] if name else ""
