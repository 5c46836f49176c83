"""The table below a story: the last fire times of a schedule, or claims of a name.

Three reads whatever is asked for: runs by their keys (or claims), what was told, and the fleet.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onejob.cli.claim_ticks import of_claims
from onejob.cli.output import remark, table
from onejob.cli.text import cell, span, utc, when
from onejob.cli.ticks import Evidence, Tick, of_schedule
from onejob.commands import claims, ticks, views
from onejob.commands.views import ScheduleView
from onejob.core.keys import fire_key
from onejob.core.time import Instant
from onejob.core.timing import restored
from onejob.errors import UsageError

if TYPE_CHECKING:
    from onejob.cli.invocation import AnyStore

#: Most rows at once.
TICKS_MAX = 1_000
#: Rows where nobody says how many.
TICKS = 5
#: Events looked through for them, the newest.
EVENTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Asked:
    """How many rows at the most, and from which instant on (0: any)."""

    most: int
    since: int = 0


def read_schedule(store: AnyStore, schedule: ScheduleView, asked: Asked) -> tuple[Tick, ...]:
    """Read what became of the fire times of a schedule, the newest first."""
    expected = _expected(schedule, asked)
    since = asked.since
    if len(expected) >= asked.most:
        since = max(since, expected[0])
    fires = [(schedule.job, fire_key(schedule.name, at)) for at in expected]
    evidence = Evidence(
        schedule,
        expected,
        store.run(ticks.made(fires)),
        store.run(ticks.told(schedule.name, since=since, limit=EVENTS_MAX)),
        {replica.id: replica for replica in store.run(views.replicas())},
    )
    return of_schedule(evidence, since=since, most=asked.most)


def _expected(schedule: ScheduleView, asked: Asked) -> tuple[Instant, ...]:
    """Work out the newest fire times up to now, by the timing as it is stored."""
    after, now = Instant(max(0, asked.since - 1)), Instant(schedule.now)
    found: set[Instant] = set()
    # What can't be computed has fire times as far as they are stored.
    if not schedule.broken:
        try:
            timing = restored(json.loads(schedule.timing))
        except UsageError as error:
            remark(f"What {schedule.name} was to fire is not known here: {error}")
        else:
            found |= set(timing.due(after, now, keep=asked.most).newest)
    # The stored one counts, though the timing might not name it again.
    if after < schedule.next_fire <= now:
        found.add(Instant(schedule.next_fire))
    return tuple(sorted(found))


def read_claims(store: AnyStore, name: str, asked: Asked) -> tuple[Tick, ...]:
    """Read what became of the periods, keys or guarded ticks of a name, the newest first."""
    for kind in (claims.PERIOD, claims.TICK):
        rows = store.run(claims.listed(kind, scope=name, limit=asked.most + 1))
        if rows:
            # What was given back and claimed again began before, after the one before it.
            before = rows[asked.most].since if len(rows) > asked.most else 0
            events = store.run(views.events(schedule=name, since=before, limit=EVENTS_MAX))
            return of_claims([r for r in rows[: asked.most] if r.since >= asked.since], events)
    return ()


def show(found: Sequence[Tick]) -> None:
    """Print the rows."""
    table(
        ("FIRE TIME", "OUTCOME", "CLAIMED BY", "LOST BY", "STARTED", "TOOK", "NOTE"),
        [
            (
                when(tick.at) or tick.key,
                tick.outcome,
                tick.claimed_by,
                ", ".join(tick.lost_by),
                when(tick.started),
                span(tick.ended - tick.started) if tick.started and tick.ended else "",
                cell(tick.note),
            )
            for tick in found
        ],
        whole=True,
        spare=("TOOK", "STARTED", "LOST BY", "NOTE"),
        prose=("LOST BY", "NOTE"),
    )


def as_json(tick: Tick) -> dict[str, object]:
    """Return a row as ``--json`` shows it."""
    return {
        "fire_time": utc(tick.at),
        "key": tick.key,
        "outcome": tick.outcome,
        "claimed_by": tick.claimed_by or None,
        "lost_by": list(tick.lost_by),
        "ran_on": tick.ran_on or None,
        "started": utc(tick.started),
        "ended": utc(tick.ended),
        "run": tick.run or None,
        "note": tick.note or None,
    }
