"""Schedules: who may define them, and the tick that turns due fire times into runs.

A schedule is declared in code, or put as data (``dynamic``): then any replica that knows its job
fires it. A tick is read, decided, then written with a guard: :func:`due` reads what is due by the
store's clock, ``core.schedule.advance`` decides, and :func:`tick` writes, advancing only schedules
whose revision is still the one that was read. Of any number of schedulers exactly one gets through,
and the run's key, *schedule @ fire time*, is unique in the ledger besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from onejob.commands.command import Command, Parameters, Row, as_json, count, found
from onejob.core.retry import OnLoss


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as the store has it. Instants in microseconds; ``last`` 0 means never fired.

    ``timing`` is its cron expression or interval as JSON, ``policy`` its catch-up and overlap
    rules as JSON. ``dynamic`` is 1 where it was put as data. What follows is what its runs are made
    of; the options of a dynamic one's job are its code's where that is at hand.
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
    dynamic: int = 0
    args: str = "{}"
    queue: str = "default"
    priority: int = 0
    on_loss: OnLoss = "retry"


@dataclass(frozen=True, slots=True)
class Due:
    """Schedules that are due, and the store's clock when that was read.

    ``ahead`` is the next fire time of those that are not due yet, 0 where there is none.
    """

    now: int
    schedules: tuple[Schedule, ...]
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Fire:
    """A run that a tick makes, unless its key is known or another is in the way.

    It is due at ``due``, later than its fire time by its schedule's jitter, and never before now.
    It should have ended ``expect`` microseconds after its fire time (0: nobody said).
    """

    key: str
    fire_time: int
    job: str
    args: str
    queue: str
    priority: int
    on_loss: OnLoss
    due: int = 0
    expect: int = 0


OverlapRule = Literal["skip", "queue", "allow", "cancel"]


@dataclass(frozen=True, slots=True)
class Step:
    """What one tick does to one schedule, valid only while its revision is ``revision``.

    ``next_fire`` 0 means never again. ``missed`` is JSON for the event about the ``missed_count``
    fire times that were not run ("" for none). ``overlap`` says what happens while another run of
    this schedule is scheduled, running or waiting: no run, and that is recorded; a run that waits
    behind it; a run beside it; or one that waits until the other has been cancelled, as is asked
    for in the same command.
    """

    name: str
    revision: int
    last: int
    next_fire: int
    fires: tuple[Fire, ...]
    missed: str = ""
    missed_count: int = 0
    overlap: OverlapRule = "allow"


@dataclass(frozen=True, slots=True)
class Ticked:
    """One fire time: ``fired``, ``queued`` behind another run, ``skipped``, or ``known`` before.

    ``run_id`` is the run that was made; for one that was skipped, the run in its way.
    """

    name: str
    fire_time: int
    run_id: int
    answer: str


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """A definition to be stored: the first one of its name, or one that replaces another.

    ``missed`` is JSON for the event about the fire times that were due under the old one, at least
    ``missed_count`` of them ("" for none).
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
    missed_count: int = 0
    args: str = "{}"
    queue: str = "default"
    priority: int = 0
    on_loss: OnLoss = "retry"


@dataclass(frozen=True, slots=True)
class PutSchedule:
    """A schedule put as data, in place of the one at ``revision`` (0: the first of its name)."""

    name: str
    job: str
    timing: str
    policy: str
    definition: str
    next_fire: int
    args: str
    queue: str
    priority: int
    on_loss: OnLoss
    revision: int
    missed: str = ""
    missed_count: int = 0


@dataclass(frozen=True, slots=True)
class LostTick:
    """A fire time that this replica went to fire and found gone."""

    name: str
    fire_time: int
    job: str
    key: str


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


def put(batch: Sequence[PutSchedule], *, now: int | None = None) -> Command[frozenset[str]]:
    """Store schedules as data; answer with the names that were stored.

    One that is absent was changed by somebody else since it was read, or is declared in code: read
    again and decide again. No name twice in a batch.
    """
    rows = [asdict(one) for one in sorted(batch, key=lambda one: one.name)]
    return Command("schedule_put", {"batch": as_json(rows), "now": now}, _names)


def due(
    names: Sequence[str],
    jobs: Sequence[str] = (),
    *,
    limit: int,
    skip: int = 0,
    now: int | None = None,
) -> Command[Due]:
    """Read what is due by the store's clock of these schedules and of what was put for these jobs.

    The earliest are taken, without the first ``skip`` of them; they come in name order.
    """
    parameters: Parameters = {
        "names": as_json(list(names)),
        "jobs": as_json(list(jobs)),
        "limit": limit,
        "skip": skip,
        "now": now,
    }
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
            "missed_count": step.missed_count,
            "overlap": step.overlap,
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


def lost(ticks: Sequence[LostTick], *, replica: str, now: int | None = None) -> Command[int]:
    """Record that this replica lost these fire times to another, once for each; count them."""
    parameters: Parameters = {
        "batch": as_json([asdict(one) for one in ticks]),
        "replica": replica,
        "now": now,
    }
    return Command("schedule_lost", parameters, count, repeatable=True)


def pause(name: str, *, now: int | None = None) -> Command[bool]:
    """Let no fire time become a run until it is resumed. False: no schedule of that name."""
    return Command("schedule_pause", {"name": name, "now": now}, found, repeatable=True)


def resume(
    name: str,
    *,
    revision: int,
    last: int,
    next_fire: int,
    missed: str = "",
    missed_count: int = 0,
    now: int | None = None,
) -> Command[bool]:
    """Let a paused schedule fire again, from ``next_fire``; tell what has passed meanwhile.

    False: it is not paused any more, or was changed since it was read: read again, decide again.
    """
    parameters: Parameters = {
        "name": name,
        "revision": revision,
        "last": last,
        "next_fire": next_fire,
        "missed": missed,
        "missed_count": missed_count,
        "now": now,
    }
    return Command("schedule_resume", parameters, found)


def delete(name: str, *, now: int | None = None) -> Command[bool]:
    """Delete a schedule. False: there is none, or live code declares it and would put it back."""
    return Command("schedule_delete", {"name": name, "now": now}, found, repeatable=True)


def _due(rows: Sequence[Row]) -> Due:
    # A row of its own with an empty name, the first, carries the store's clock and what is ahead.
    return Due(rows[0][0], tuple(Schedule(*row[1:]) for row in rows if row[1]), rows[0][9])


def _names(rows: Sequence[Row]) -> frozenset[str]:
    return frozenset(row[0] for row in rows)


def _pairs(rows: Sequence[Row]) -> frozenset[tuple[str, str]]:
    return frozenset((name, definition) for name, definition in rows)


def _ticked(rows: Sequence[Row]) -> tuple[Ticked, ...]:
    return tuple(Ticked(*row) for row in rows)
