"""What people look at: runs, replicas, schedules, effects and events, as values for CLI and API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onejob.commands.command import Command, Parameters, Row
from onejob.commands.overlap import Late


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as ``runs`` shows it. Instants in microseconds, 0 or None where not yet."""

    id: int
    job: str
    key: str
    state: str
    outcome: str | None
    attempt: int
    deaths: int
    interrupted: int
    token: int
    replica: str
    queue: str
    priority: int
    due: int
    started: int
    ended: int
    error: str | None
    result: str | None
    progress: str | None
    schedule: str
    fire_time: int


@dataclass(frozen=True, slots=True)
class CallView:
    """What a run was asked to do: its arguments as JSON text, and when it was made."""

    job: str
    args: str
    created: int


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One process of the fleet. ``jobs`` and ``schedules`` are JSON."""

    id: str
    name: str
    host: str
    pid: int
    version: str
    jobs: str
    schedules: str
    started: int
    lease_until: int
    idle: int
    dead_at: int
    running: int
    now: int


@dataclass(frozen=True, slots=True)
class JobView:
    """One job by name: how many live runs in each state, and when one last ended."""

    job: str
    scheduled: int
    running: int
    parked: int
    unknown: int
    last_ended: int
    last_outcome: str | None
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue that has live runs: how many in each state, ``due`` ones apart from ``scheduled``.

    ``oldest`` is how long the first of those that are due has been so, in microseconds.
    """

    queue: str
    scheduled: int
    due: int
    waiting: int
    running: int
    parked: int
    unknown: int
    oldest: int


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """One schedule.

    ``declared`` counts the live replicas that fire it: those that declare its present definition,
    or, where it was put as data (``dynamic``), that know its job. ``missed`` counts fire times,
    ``lateness`` is how late the newest was ticked, ``late`` counts runs that should have ended.
    """

    name: str
    job: str
    timing: str
    policy: str
    last: int
    next_fire: int
    paused: int
    broken: str
    dynamic: int
    args: str
    declared: int
    missed: int
    lateness: int
    late: int
    now: int

    @property
    def behind(self) -> int:
        """How long the next fire time is overdue, or else how late the newest was ticked."""
        if 0 < self.next_fire < self.now and not self.paused and not self.broken:
            return self.now - self.next_fire
        return self.lateness


@dataclass(frozen=True, slots=True)
class EventView:
    """Something worth telling: missed, skipped, retried, abandoned, unknown."""

    id: int
    at: int
    kind: str
    job: str
    key: str
    run_id: int
    token: int
    replica: str
    schedule: str
    detail: str


@dataclass(frozen=True, slots=True)
class EffectView:
    """One effect of a run, or of a scope."""

    scope: str
    key: str
    state: str
    token: int
    owner: str
    attempt: int
    claimed: int
    error: str | None


def run_get(id: int) -> Command[RunView | None]:
    """Read one run: live, or else its latest end."""
    return Command("view_run", {"id": id}, _run, writes=False, repeatable=True)


def call(id: int) -> Command[CallView | None]:
    """Read what a run was asked to do, live or ended."""
    return Command("view_call", {"id": id}, _call, writes=False, repeatable=True)


def _call(rows: Sequence[Row]) -> CallView | None:
    return CallView(*rows[0]) if rows else None


def runs(
    *,
    job: str = "",
    state: str = "",
    key: str = "",
    schedule: str = "",
    queue: str = "",
    since: int = 0,
    limit: int = 50,
) -> Command[tuple[RunView, ...]]:
    """Read runs, newest first; "" means any. ``state`` may also be an outcome.

    ``since`` is an instant: those that were made, began or ended before it are left out.
    """
    parameters: Parameters = {
        "job": job,
        "state": state,
        "key": key,
        "schedule": schedule,
        "queue": queue,
        "since": since,
        "limit": limit,
    }
    return Command("view_runs", parameters, _runs, writes=False, repeatable=True)


def replicas(*, now: int | None = None) -> Command[tuple[ReplicaView, ...]]:
    """Read the fleet, live ones first, newest first."""
    return Command("view_replicas", {"now": now}, _replicas, writes=False, repeatable=True)


def jobs() -> Command[tuple[JobView, ...]]:
    """Read every job that a live replica declares or that has live or recent runs."""
    return Command("view_jobs", {}, _jobs, writes=False, repeatable=True)


def queues(*, now: int | None = None) -> Command[tuple[QueueView, ...]]:
    """Read every queue that has live runs. Counts them: a million take a second."""
    return Command("view_queues", {"now": now}, _queues, writes=False, repeatable=True)


def schedules(
    *,
    name: str = "",
    prefix: str = "",
    job: str = "",
    after: str = "",
    limit: int = 1_000,
    now: int | None = None,
) -> Command[tuple[ScheduleView, ...]]:
    """Read schedules in the order of their names, from behind ``after``; "" means any."""
    parameters: Parameters = {
        "name": name,
        "prefix": prefix,
        "job": job,
        "after": after,
        "limit": limit,
        "now": now,
    }
    return Command("view_schedules", parameters, _schedules, writes=False, repeatable=True)


def late_runs(*, limit: int = 1_000) -> Command[tuple[Late, ...]]:
    """Read live runs that should have ended by now, the longest overdue first."""
    return Command("view_late_runs", {"limit": limit}, _late, writes=False, repeatable=True)


def events(
    *, run_id: int = 0, schedule: str = "", since: int = 0, until: int = 0, limit: int = 200
) -> Command[tuple[EventView, ...]]:
    """Read events of a run, or of a schedule between two instants (``until`` 0: no end)."""
    parameters: Parameters = {
        "run_id": run_id,
        "schedule": schedule,
        "since": since,
        "until": until,
        "limit": limit,
    }
    return Command("view_events", parameters, _events, writes=False, repeatable=True)


def breaks(name: str, *, limit: int = 10) -> Command[tuple[EventView, ...]]:
    """Read who took a lock of this name away from whom, the latest first."""
    parameters: Parameters = {"name": name, "limit": limit}
    return Command("view_breaks", parameters, _events, writes=False, repeatable=True)


def effects_of(run_id: int, *, limit: int = 1_000) -> Command[tuple[EffectView, ...]]:
    """Read the effects that a run has claimed."""
    parameters: Parameters = {"run_id": run_id, "limit": limit}
    return Command("view_effects_of", parameters, _effects, writes=False, repeatable=True)


def clock() -> Command[int]:
    """Read the store's clock, in microseconds."""
    return Command("view_clock", {"now": None}, _clock, writes=False, repeatable=True)


def _run(rows: Sequence[Row]) -> RunView | None:
    return RunView(*rows[0]) if rows else None


def _runs(rows: Sequence[Row]) -> tuple[RunView, ...]:
    return tuple(RunView(*row) for row in rows)


def _replicas(rows: Sequence[Row]) -> tuple[ReplicaView, ...]:
    return tuple(ReplicaView(*row) for row in rows)


def _jobs(rows: Sequence[Row]) -> tuple[JobView, ...]:
    return tuple(JobView(*row) for row in rows)


def _queues(rows: Sequence[Row]) -> tuple[QueueView, ...]:
    return tuple(QueueView(*row) for row in rows)


def _schedules(rows: Sequence[Row]) -> tuple[ScheduleView, ...]:
    return tuple(ScheduleView(*row) for row in rows)


def _late(rows: Sequence[Row]) -> tuple[Late, ...]:
    return tuple(Late(*row) for row in rows)


def _events(rows: Sequence[Row]) -> tuple[EventView, ...]:
    return tuple(EventView(*row) for row in rows)


def _effects(rows: Sequence[Row]) -> tuple[EffectView, ...]:
    return tuple(EffectView(*row) for row in rows)


def _clock(rows: Sequence[Row]) -> int:
    return int(rows[0][0])
