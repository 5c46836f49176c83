"""Schedules: who may define them, and the tick that turns due fire times into runs.

A tick is read, decided, then written with a guard: :func:`due` reads what is due by the store's
clock, ``core.schedule.advance`` decides, and :func:`tick` writes — advancing only schedules whose
revision is still the one that was read. Of any number of schedulers exactly one gets through, and
the run's key, *schedule @ fire time*, is unique in the ledger besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from onejob.commands.command import Command, Parameters, Row, as_json, found
from onejob.core.retry import OnLoss


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as the store has it. Instants in microseconds; ``last`` 0 means never fired.

    ``timing`` is its cron expression or interval as JSON, ``policy`` its catch-up and overlap
    rules as JSON; both are read by the code that declared ``definition``.
    """

    name: str
    job: str
    timing: str
    policy: str
    definition: str
    version: str
    superseded: str
    last: int
    next_fire: int
    paused: int
    broken: str
    revision: int


@dataclass(frozen=True, slots=True)
class Due:
    """Schedules that are due, and the store's clock when that was read."""

    now: int
    schedules: tuple[Schedule, ...]


@dataclass(frozen=True, slots=True)
class Fire:
    """A run that a tick makes, unless its key is known or ``unless_live`` finds one in the way."""

    key: str
    fire_time: int
    job: str
    args: str
    queue: str
    priority: int
    on_loss: OnLoss


@dataclass(frozen=True, slots=True)
class Step:
    """What one tick does to one schedule, valid only while its revision is ``revision``.

    ``next_fire`` 0 means never again. ``missed`` is JSON for the event about fire times that were
    not run ("" for none). ``unless_live`` (1 or 0): skip, and record it, while another run of this
    schedule is scheduled or running.
    """

    name: str
    revision: int
    last: int
    next_fire: int
    fires: tuple[Fire, ...]
    missed: str = ""
    unless_live: int = 0


@dataclass(frozen=True, slots=True)
class Ticked:
    """One fire time that became a run, was skipped for an overlap, or was known already."""

    name: str
    fire_time: int
    run_id: int
    answer: str


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """A definition to be stored: the first one of its name, or one that replaces another.

    ``missed`` is JSON for the event about fire times that were due under the old one ("" for none).
    """

    name: str
    job: str
    timing: str
    policy: str
    definition: str
    version: str
    superseded: str
    next_fire: int
    missed: str = ""


def read(names: Sequence[str], *, now: int | None = None) -> Command[Due]:
    """Read schedules by name, and the store's clock."""
    parameters: Parameters = {"names": as_json(list(names)), "now": now}
    return Command("schedule_read", parameters, _due, writes=False, repeatable=True)


def live_definitions(names: Sequence[str]) -> Command[frozenset[tuple[str, str]]]:
    """Read which definitions of these schedules are declared by live replicas: (name, hash)."""
    parameters: Parameters = {"names": as_json(list(names))}
    return Command("schedule_live_definitions", parameters, _pairs, writes=False, repeatable=True)


def define(schedule: NewSchedule, *, revision: int, now: int | None = None) -> Command[bool]:
    """Store a definition: the first (``revision`` 0), or in place of the one at ``revision``.

    False: somebody else was faster; read again and decide again.
    """
    parameters: Parameters = {**asdict(schedule), "revision": revision, "now": now}
    return Command("schedule_define", parameters, found)


def due(names: Sequence[str], *, limit: int, now: int | None = None) -> Command[Due]:
    """Read which of these schedules are due by the store's clock, in name order."""
    parameters: Parameters = {"names": as_json(list(names)), "limit": limit, "now": now}
    return Command("schedule_due", parameters, _due, writes=False, repeatable=True)


def tick(
    steps: Iterable[Step], *, replica: str, now: int | None = None
) -> Command[tuple[Ticked, ...]]:
    """Advance schedules and make their runs, all or none.

    Rows are taken in name order (two schedulers in other orders would deadlock) and skipped when
    locked (somebody's open ``pause`` must not block every other schedule). A step whose revision
    is no longer the stored one changes nothing and has no row in the answer: another scheduler
    has done it. So does a step with a fire time later than the store's now: its clock was set back
    since, and the step has to be decided again.
    """
    batch = [
        {
            "name": step.name,
            "revision": step.revision,
            "last": step.last,
            "next_fire": step.next_fire,
            "missed": step.missed,
            "unless_live": step.unless_live,
            "fires": [asdict(fire) for fire in step.fires],
        }
        for step in sorted(steps, key=lambda step: step.name)
    ]
    return Command(
        "schedule_tick", {"batch": as_json(batch), "replica": replica, "now": now}, _ticked
    )


def mark_broken(name: str, *, revision: int, why: str, now: int | None = None) -> Command[bool]:
    """Record that a schedule's next fire time can't be computed; it stops, the others go on."""
    parameters: Parameters = {"name": name, "revision": revision, "why": why, "now": now}
    return Command("schedule_broken", parameters, found, repeatable=True)


def pause(name: str, *, paused: bool, now: int | None = None) -> Command[bool]:
    """Pause or resume a schedule. False: no schedule of that name."""
    parameters: Parameters = {"name": name, "paused": int(paused), "now": now}
    return Command("schedule_pause", parameters, found, repeatable=True)


def _due(rows: Sequence[Row]) -> Due:
    # The first column is the store's clock; a row of its own with an empty name carries it when
    # nothing is due.
    return Due(int(rows[0][0]), tuple(Schedule(*row[1:]) for row in rows if row[1]))


def _pairs(rows: Sequence[Row]) -> frozenset[tuple[str, str]]:
    return frozenset((name, definition) for name, definition in rows)


def _ticked(rows: Sequence[Row]) -> tuple[Ticked, ...]:
    return tuple(Ticked(*row) for row in rows)
