"""Schedules as text, the same for every language: ``*/5 * * * *``, ``every 5m``, or words.

Only names, numbers and cron fields get in. Where the code computes a schedule, the text names what
it is computed from; where that is no name either, it is empty.
"""

from __future__ import annotations

import re

from onejob.core.cron import Cron
from onejob.core.cron_fields import Fields, parse
from onejob.core.cron_words import words
from onejob.core.time import Instant
from onejob.errors import UsageError

_UNITS = ((604_800, "w"), (86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_FIELD = re.compile(r"[\d*/,\-?LW#]+|[A-Za-z]{3}(?:[-,][A-Za-z]{3})*|H(?:\(\d+-\d+\))?(?:/\d+)?")
_EVERY = re.compile(r"every (\d+)(ms|[smhdw])")
_WORDS = {
    "ms": "millisecond",
    "s": "second",
    "m": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
}
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
CHARACTERS_MAX = 80


def every(seconds: float) -> str:
    """Return ``every 5m``, ``every 90s``, ``every 500ms``; the largest unit that leaves no rest."""
    if seconds < 1:
        return f"every {round(seconds * 1000)}ms"
    for size, unit in _UNITS:
        if seconds % size == 0:
            return f"every {int(seconds // size)}{unit}"
    return f"every {seconds:g}s"


def cron(expression: str) -> str:
    """Return a cron expression with single spaces and its aliases written out; "" for none."""
    text = " ".join(expression.split())
    if text.lower() in _ALIASES:
        return _ALIASES[text.lower()]
    return text if is_cron(text) else ""


def is_cron(text: str) -> bool:
    """Decide whether a text is a cron expression, of five to seven fields, or an alias."""
    if len(text) > CHARACTERS_MAX:
        return False
    if text.strip().lower() in (*_ALIASES, "@reboot"):
        return True
    fields = text.split()
    return 5 <= len(fields) <= 7 and all(map(_FIELD.fullmatch, fields))


def explained(schedule: str) -> str:
    """Return a schedule in words, such as ``every day at 03:00``; "" where nothing can be said."""
    match = _EVERY.fullmatch(schedule)
    if match is not None:
        number, unit = match[1], _WORDS[match[2]]
        return f"every {unit}" if number == "1" else f"every {number} {unit}s"
    fields = _fields(schedule)
    return words(fields) if fields is not None else ""


def next_fires(schedule: str, now: Instant, count: int = 3) -> tuple[Instant, ...]:
    """Return the next fire times in UTC; none where the schedule is no plain cron expression."""
    if _fields(schedule) is None:
        return ()
    timing, found, at = Cron.parse(schedule, "UTC"), list[Instant](), now
    for _ in range(count):
        fire = timing.after(at)
        if fire is None:
            break
        found.append(fire)
        at = fire
    return tuple(found)


def _fields(schedule: str) -> Fields | None:
    if len(schedule.split()) not in (5, 6):
        return None
    try:
        return parse(schedule)
    except UsageError:
        return None


def never(expression: str) -> bool:
    """Decide whether a cron expression names no instant, as 31 February does not."""
    if _fields(expression) is None:
        return False
    return Cron.parse(expression, "UTC").after(Instant(0)) is None
