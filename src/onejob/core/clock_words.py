"""What a schedule does, in words, with what happens to it where the clocks change next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from onejob.core.cron import Cron
from onejob.core.cron_calendar import Walls
from onejob.core.cron_words import words
from onejob.core.every import Every, Once
from onejob.core.local_clock import YEAR, Change
from onejob.core.time import SECOND, Instant, Span, in_zone, moment, show_span, text
from onejob.core.timing import Timing

CHANGES: Final = 2
_YEARS_AHEAD: Final = 10


@dataclass(frozen=True, slots=True)
class ClockChange:
    """The clocks of a zone change, and what that does to a schedule."""

    at: Instant
    moved: Span
    """How far forward; negative for back."""
    says: str


def explain(timing: Timing, after: Instant) -> str:
    """Describe a schedule, and what the next two clock changes after an instant do to it."""
    match timing:
        case Every(interval, anchor):
            return (
                f"every {show_span(interval)}, on a grid through {text(anchor)}; "
                "in real elapsed time, whatever the clocks do"
            )
        case Once(at):
            return f"once, at {text(at)}"
        case Cron():
            said = f"{words(timing.calendar().fields)} in {timing.tz}"
            if timing.after(after) is None:
                return f"never fires: {said}"
            changes = clock_changes(timing, after)
            if not changes:
                return said if timing.tz == "UTC" else f"{said}, where the clocks do not change"
            return "; ".join((said, *(change.says for change in changes)))


def clock_changes(cron: Cron, after: Instant) -> list[ClockChange]:
    """Return the next two changes of a zone's clocks, within ten years, as a schedule sees them."""
    start = after // SECOND
    found: list[Change] = []
    for year in range(_YEARS_AHEAD):
        found += cron.calendar().clock.changes(start + year * YEAR, start + (year + 1) * YEAR)
        if len(found) >= CHANGES:
            break
    return [
        ClockChange(
            Instant(change.at * SECOND),
            Span((change.after - change.before) * SECOND),
            _gap(cron, change) if change.after > change.before else _fold(cron, change),
        )
        for change in found[:CHANGES]
    ]


def _gap(cron: Cron, change: Change) -> str:
    calendar = cron.calendar()
    first, end = change.at + change.before, change.at + change.after
    on = f"on {_date(first)}"
    taken = calendar.within(first, end)
    shown = _shown(cron, change.at, first)
    if taken is None or not calendar.named:
        result = "it goes on in real elapsed time" if taken else "no fire time is in between"
        return f"{on} the clocks go from {_time(first)} to {shown}: {result}"
    exists = f"{on} {_times(taken)} {'does' if taken.count == 1 else 'do'} not exist"
    if cron.on_gap == "skip":
        return f"{exists}: skipped, and recorded as missed"
    once = "runs" if taken.count == 1 else "runs once,"
    together = f", together with that of {_time(end)}" if calendar.within(end, end + 1) else ""
    return f"{exists}: {once} at {shown}{together}"


def _fold(cron: Cron, change: Change) -> str:
    calendar = cron.calendar()
    first, end = change.at + change.after, change.at + change.before
    on = f"on {_date(first)}"
    twice = calendar.within(first, end)
    if twice is None:
        shown = _shown(cron, change.at, first)
        return f"{on} the clocks go back from {_time(end)} to {shown}: no fire time comes twice"
    comes = f"{on} {_times(twice)} {'comes' if twice.count == 1 else 'come'} twice"
    if not calendar.fields.fixed:
        return f"{comes}: it goes on in real elapsed time"
    passes = {
        "first": _shown(cron, change.at - 1, first),
        "second": _shown(cron, change.at, first),
    }
    if cron.on_fold == "both":
        return f"{comes}: runs at both"
    zone = passes[cron.on_fold].rpartition(" ")[2]
    return f"{comes}: runs at the {cron.on_fold} ({zone})"


def _times(walls: Walls) -> str:
    if walls.count == 1:
        return _time(walls.first)
    if walls.count == 2:
        return f"{_time(walls.first)} and {_time(walls.last)}"
    return f"{_time(walls.first)} to {_time(walls.last)} ({walls.count} times)"


def _shown(cron: Cron, at: int, near: int) -> str:
    """Return what the wall shows at an instant, with its date where that is another."""
    local = in_zone(Instant(at * SECOND), ZoneInfo(cron.tz))
    day = "" if f"{local:%Y-%m-%d}" == _date(near) else f"{local:%Y-%m-%d} "
    return f"{day}{_clock(local)} {local.tzname()}"


def _date(wall: int) -> str:
    return f"{moment(Instant(wall * SECOND)):%Y-%m-%d}"


def _time(wall: int) -> str:
    return _clock(moment(Instant(wall * SECOND)))


def _clock(when: datetime) -> str:
    return f"{when:%H:%M:%S}" if when.second else f"{when:%H:%M}"
