"""The story of a period, a key or a guarded tick: who claimed it, who lost, what became of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from onejob.cli.story import Story, Told
from onejob.cli.text import clean, span, when
from onejob.commands import claims, views
from onejob.commands.claims import ClaimView
from onejob.commands.views import EventView
from onejob.core.time import Instant, read_instant, text
from onejob.errors import UsageError
from onejob.turn import holder

if TYPE_CHECKING:
    from onejob.cli.invocation import AnyStore

#: How many claims, and events of one, are looked through.
LOOKED_AT_MAX = 1_000


def find(store: AnyStore, name: str, which: str | None) -> Story | None:
    """Find a claim by its key or instant, or the latest of its name; None where there is none."""
    for kind in (claims.PERIOD, claims.TICK):
        rows = store.run(claims.listed(kind, scope=name, limit=LOOKED_AT_MAX))
        for row, before in zip_longest(rows, rows[1:]):
            if which is None or _is(row, which):
                # What was given back and claimed again began before, after the one before it.
                since = before.since if before else 0
                events = store.run(views.events(schedule=name, since=since, limit=LOOKED_AT_MAX))
                return of_claim(row, [event for event in events if event.key == row.key])
    return None


def of_claim(row: ClaimView, events: Sequence[EventView]) -> Story:
    """Tell a claim from its events to where it stands now."""
    told = [_event(event) for event in events if event.kind.partition(".")[2] in _SENTENCES]
    claimed = f"Claimed by {clean(holder(row.owner))}, attempt {row.attempt}."
    told.append(Told(row.since, f"{_subject(row)}.claimed", claimed, int(row.token), row.owner))
    told.sort(key=lambda one: one.at)
    answer = f"{clean(row.scope)} {clean(row.key)}: {_standing(row)}"
    told.append(Told(row.until, f"{_subject(row)}.{row.state}", answer, int(row.token), row.owner))
    return Story(row.scope, row.key, row.since, tuple(told), answer)


def _is(row: ClaimView, which: str) -> bool:
    if which == row.key:
        return True
    try:
        at = text(read_instant(which, "TIME"))
    except UsageError:
        return False
    return row.key in (at, f"{row.scope}@{at}")


def _subject(row: ClaimView) -> str:
    return "tick" if row.kind == claims.TICK else row.kind


def _event(event: EventView) -> Told:
    detail = json.loads(event.detail)
    what = event.kind.partition(".")[2]
    if what == "abandoned" and event.key.endswith("@every"):
        what = "overtaken"
    sentence = _SENTENCES[what].format(
        by=clean(holder(event.replica)),
        other=clean(holder(detail.get("holder") or detail.get("taken_by") or "")),
        error=clean(detail.get("error") or "no reason given"),
    )
    return Told(event.at, event.kind, sentence, event.token, event.replica)


_SENTENCES = {
    "lost": "{by} came too: {other} had it, or had done it. Nothing was done there.",
    "abandoned": "{by} was not heard of again. {other} took over.",
    "overtaken": "{by} had not said how its tick ended when {other} took the next: it was still at "
    "work, or has died.",
    "released": "{by} gave it back: {error}.",
}


def _standing(row: ClaimView) -> str:
    by, took = clean(holder(row.owner)), span(row.until - row.since)
    match row.state:
        case "done":
            return f"done by {by}, {took} after it was claimed."
        case "failed":
            return f"failed at {by} ({clean(row.error or '?')}), and counts as done all the same."
        case "free":
            return f"given back by {by} ({clean(row.error or '?')}): whoever asks next does it."
        case "firing" if row.lapsed:
            return f"unknown: {by} had begun to fire it, and was not heard of again."
        case _ if row.lapsed:
            return f"abandoned: {by} was not heard of again. Whoever asks next does it."
        case _:
            until = when(Instant(row.until)) if row.until else "it ends"
            return f"in progress at {by}, which has it until {until} and renews that."
