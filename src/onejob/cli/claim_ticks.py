"""The same rows for periods, keys and guarded ticks: one for each claim in the ledger.

What was expected is not known here: another scheduler decides it, or who calls. What nobody
claimed has no row. No I/O: claims and events in, rows out.
"""

from __future__ import annotations

from collections.abc import Sequence

from onejob.cli.story import read_detail
from onejob.cli.text import clean
from onejob.cli.ticks import Tick
from onejob.commands.claims import TICK, ClaimView
from onejob.commands.views import EventView
from onejob.core.time import read_instant
from onejob.errors import UsageError
from onejob.turn import holder


def of_claims(rows: Sequence[ClaimView], events: Sequence[EventView]) -> tuple[Tick, ...]:
    """Return a row for each claim, in their order."""
    return tuple(_of_claim(row, [e for e in events if e.key == row.key]) for row in rows)


def _of_claim(row: ClaimView, events: Sequence[EventView]) -> Tick:
    losers = [holder(e.replica) for e in events if _what(e) == "lost" and _of_this_turn(row, e)]
    has_begun = row.kind != TICK or row.state != "claimed"
    over = row.state in ("done", "failed", "free")
    return Tick(
        _fire_time(row),
        row.key,
        _outcome(row),
        clean(holder(row.owner)),
        tuple(clean(loser) for loser in dict.fromkeys(losers)),
        clean(holder(row.owner)) if has_begun else "",
        row.since if has_begun else 0,
        row.until if over else 0,
        "; ".join(_notes(row, events)),
    )


def _outcome(row: ClaimView) -> str:
    match row.state:
        case "done":
            return "fired" if row.kind == TICK else "done"
        case "free":
            return "given back"
        case "firing" if row.lapsed:
            return "unknown"
        case "claimed" if row.lapsed:
            return "missed" if row.kind == TICK else "abandoned"
        case state:
            return state


def _notes(row: ClaimView, events: Sequence[EventView]) -> list[str]:
    notes = []
    for event in events:
        who = clean(holder(event.replica))
        if _what(event) == "released":
            notes.append(f"given back by {who}: {clean(read_detail(event).get('error') or '?')}")
        elif _what(event) == "abandoned" and _is_interval(row) and event.at == row.since:
            notes.append(f"the tick before had not ended at {who}")
        elif _what(event) == "abandoned":
            notes.append(f"taken over from {who}")
    if row.lapsed:
        notes.append("its process was not heard of again")
    if row.error and row.state == "failed":
        notes.append(clean(row.error))
    return notes


def _what(event: EventView) -> str:
    return event.kind.partition(".")[2]


def _of_this_turn(row: ClaimView, event: EventView) -> bool:
    """Tell whether an event is about the tick that the row stands for now: an interval has one row
    for all its ticks, and each begins anew."""
    return not _is_interval(row) or event.at >= row.since


def _is_interval(row: ClaimView) -> bool:
    return row.kind == TICK and row.key == f"{row.scope}@every"


def _fire_time(row: ClaimView) -> int:
    """Return the instant that a key names, 0 where it names none."""
    if _is_interval(row):
        return row.since
    try:
        return read_instant(row.key.removeprefix(f"{row.scope}@"), "a fire time")
    except UsageError:
        return 0
