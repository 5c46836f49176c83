"""Schedules as text, the same for every language: ``*/5 * * * *``, ``every 5m``, or words.

Only names, numbers and cron fields get in. Where the code computes a schedule, the text names what
it is computed from; where that is no name either, it is empty.
"""

from __future__ import annotations

import re

_UNITS = ((604_800, "w"), (86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_FIELD = re.compile(r"[\d*/,\-?LW#]+|[A-Za-z]{3}(?:[-,][A-Za-z]{3})*|H(?:\(\d+-\d+\))?(?:/\d+)?")
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


def never(expression: str) -> bool:
    """Decide whether a cron expression names no instant, as 31 February does not."""
    from onejob.core.cron import Cron
    from onejob.core.time import Instant
    from onejob.errors import UsageError

    if len(expression.split()) != 5:
        return False
    try:
        return Cron.parse(expression, "UTC").after(Instant(0)) is None
    except UsageError:
        return False
