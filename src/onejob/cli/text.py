"""Text that came from elsewhere, made fit for a terminal; instants and spans as people read them.

A stored name may hold an escape sequence, or a mark that turns the writing direction around. A
terminal gets to see neither.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from onejob.core.time import Instant, Span, moment, show_span, text

#: Nothing longer than this is shown in one cell of a table.
CELL_CHARACTERS_MAX = 80


def clean(value: object) -> str:
    """Return text without control and direction characters; line ends and tabs become spaces."""
    spaced = str(value).translate({9: " ", 10: " ", 13: None})
    return "".join(
        c for c in spaced if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
    )


def cell(value: object) -> str:
    """Return clean text, short enough for a table."""
    shown = clean("" if value is None else value)
    return shown if len(shown) <= CELL_CHARACTERS_MAX else shown[: CELL_CHARACTERS_MAX - 1] + "…"


def when(at: int) -> str:
    """Return an instant in local time and UTC, "" for none: ``2026-03-29 03:00:00 (01:00:00Z)``."""
    if not at:
        return ""
    utc = moment(Instant(at))
    local = utc.astimezone()
    if not local.utcoffset():
        return f"{utc:%Y-%m-%d %H:%M:%S}Z"
    day = "" if local.date() == utc.date() else f"{utc:%Y-%m-%d} "
    return f"{local:%Y-%m-%d %H:%M:%S} ({day}{utc:%H:%M:%S}Z)"


def utc(at: int) -> str | None:
    """Return an instant as JSON has it: RFC 3339 in UTC, None for none."""
    return text(Instant(at)) if at else None


def span(microseconds: int) -> str:
    """Return a span to the precision that a person wants: ``340ms``, ``4.2s``, ``3h12m``."""
    size, sign = abs(microseconds), "-" if microseconds < 0 else ""
    units = ((60_000_000, 3_600_000_000), (1_000_000, 60_000_000), (100_000, 1_000_000), (1_000, 0))
    unit = next(unit for unit, least in units if size >= least)
    return "0s" if size < unit else sign + show_span(Span(size // unit * unit))


def counted(count: int, what: str) -> str:
    """Return how many there are of something: ``1 run``, ``2 runs``."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def decoded(stored: str | None) -> Any:
    """Return the value of a stored JSON text; the text itself where it is none."""
    if stored is None:
        return None
    try:
        return json.loads(stored)
    except ValueError:
        return stored
