"""What became of fire times, for people: the runs that were made of them, and what was told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onejob.commands.command import Command, Parameters, Row, as_json
from onejob.commands.views import EventView, RunView


@dataclass(frozen=True, slots=True)
class TickView:
    """A fire time that became a run, live or else its latest end.

    ``claimed_by`` is the replica whose tick made the run at ``claimed``; ``lost_by`` those that
    went to fire it too, and found it gone.
    """

    claimed_by: str
    claimed: int
    lost_by: tuple[str, ...]
    run: RunView


def made(fires: Iterable[tuple[str, str]]) -> Command[tuple[TickView, ...]]:
    """Read the runs that ticks made: of these jobs, under these keys (*schedule @ fire time*).

    In the order of their keys. What it costs depends on how many are asked for.
    """
    keys = [{"job": job, "key": key} for job, key in sorted(set(fires))]
    return Command("view_ticks", {"keys": as_json(keys)}, _ticks, writes=False, repeatable=True)


def told(schedule: str, *, since: int, limit: int) -> Command[tuple[EventView, ...]]:
    """Read what was told of a schedule's fire times and definitions, the newest first.

    Neither attempts nor who lost: a schedule has any number of those.
    """
    parameters: Parameters = {"schedule": schedule, "since": since, "limit": limit}
    return Command("view_tick_events", parameters, _events, writes=False, repeatable=True)


def _ticks(rows: Sequence[Row]) -> tuple[TickView, ...]:
    found = [
        TickView(by, at, tuple(json.loads(lost or "[]")), RunView(*run))
        for by, at, lost, *run in rows
    ]
    # Here, not there: servers differ in how they sort text.
    return tuple(sorted(found, key=lambda tick: (tick.run.key, tick.run.job)))


def _events(rows: Sequence[Row]) -> tuple[EventView, ...]:
    return tuple(EventView(*row) for row in rows)
