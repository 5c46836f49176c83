"""Replicas: one lease per process, and the sweep that gives back what dead ones held.

Heartbeats cost O(replicas), never O(runs). A replica that has been declared dead stays dead: it
can't renew, can't claim, and returns under a new id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onejob.commands.command import Command, Parameters, Row, as_json, count, found
from onejob.core.retry import OnLoss
from onejob.core.run import Claim, ReplicaId, RunId, Token


@dataclass(frozen=True, slots=True)
class NewReplica:
    """What a process says of itself when it joins.

    ``jobs`` are the names it can execute, ``schedules`` maps the schedules that it declares to
    their definition hashes, ``version`` is the App's version or "". ``ticks`` are the jobs whose
    dynamic schedules it fires.
    """

    id: ReplicaId
    name: str
    host: str
    pid: int
    version: str
    jobs: Sequence[str]
    schedules: Mapping[str, str]
    lease: int
    ticks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """A running run whose replica is no longer live."""

    claim: Claim
    job: str
    key: str
    attempt: int
    deaths: int
    on_loss: OnLoss


@dataclass(frozen=True, slots=True)
class View:
    """One look at the fleet by the store's clock.

    ``lapsed`` are replicas whose lease is over and that nobody has judged yet; ``next_lapse`` is
    when the first live lease ends (0: none); ``alone`` is when the first run that outlived a death
    is due (0: none); ``next_fire`` is the next fire time of the schedules asked about (0: none);
    ``unknown`` counts due runs near the head of the queues whose job no live replica knows, and
    ``parked`` the jobs asked about that have parked runs; ``next_due`` is when the first scheduled
    run of the queues asked about is due (0: none). ``cancels`` counts requests to cancel, ``freed``
    schedules whose waiting run has nothing in its way, ``late`` runs that nobody has told of yet.
    """

    now: int
    lapsed: int
    next_lapse: int
    lost: int
    alone: int
    next_fire: int
    unknown: int
    parked: int
    next_due: int
    cancels: int
    freed: int
    late: int


def join(replica: NewReplica, *, now: int | None = None) -> Command[bool]:
    """Enter the fleet under a new id, with a lease from the store's now."""
    parameters: Parameters = {
        "id": replica.id,
        "name": replica.name,
        "host": replica.host,
        "pid": replica.pid,
        "version": replica.version,
        "jobs": as_json(sorted(replica.jobs)),
        "schedules": as_json(dict(replica.schedules)),
        "ticks": as_json(sorted(replica.ticks)),
        "lease": replica.lease,
        "now": now,
    }
    return Command("replica_join", parameters, found, repeatable=True)


def renew(id: ReplicaId, *, lease: int, now: int | None = None) -> Command[bool]:
    """Extend the lease from the store's now. False: declared dead; come back as another."""
    return Command("replica_renew", {"id": id, "lease": lease, "now": now}, found, repeatable=True)


def idle(id: ReplicaId, *, idle: bool) -> Command[bool]:
    """Say whether this replica waits for work: only then do enqueuers notify."""
    return Command("replica_idle", {"id": id, "idle": int(idle)}, found, repeatable=True)


def leave(id: ReplicaId, *, now: int | None = None) -> Command[bool]:
    """Leave the fleet: nothing more is claimed or renewed under this id."""
    return Command("replica_leave", {"id": id, "now": now}, found, repeatable=True)


def look(
    *,
    jobs: Sequence[str] = (),
    queues: Sequence[str] = (),
    schedules: Sequence[str] = (),
    ticks: Sequence[str] = (),
    now: int | None = None,
) -> Command[View]:
    """Read whether there is anything to sweep, and when the next thing is due. Changes nothing."""
    parameters: Parameters = {
        "jobs": as_json(list(jobs)),
        "queues": as_json(list(queues)),
        "schedules": as_json(list(schedules)),
        "ticks": as_json(list(ticks)),
        "now": now,
    }
    return Command("replica_look", parameters, _view, writes=False, repeatable=True)


def judge(*, now: int | None = None) -> Command[tuple[ReplicaId, ...]]:
    """Declare replicas dead whose lease has lapsed by the store's clock. They stay dead."""
    return Command("replica_judge", {"now": now}, _ids)


def lost(*, limit: int) -> Command[tuple[Lost, ...]]:
    """Read running runs of every replica that is not live, not only of those judged just now.

    Rows that an earlier pass skipped because somebody had locked them must be found by a later one.
    """
    return Command("replica_lost", {"limit": limit}, _lost, writes=False, repeatable=True)


def forget(*, before: int, limit: int) -> Command[int]:
    """Delete replicas dead since before an instant and named by no live run."""
    return Command("replica_forget", {"before": before, "limit": limit}, count, repeatable=True)


def _view(rows: Sequence[Row]) -> View:
    return View(*(int(value) for value in rows[0]))


def _ids(rows: Sequence[Row]) -> tuple[ReplicaId, ...]:
    return tuple(ReplicaId(row[0]) for row in rows)


def _lost(rows: Sequence[Row]) -> tuple[Lost, ...]:
    return tuple(
        Lost(Claim(RunId(id), Token(token), ReplicaId(replica)), job, key, attempt, deaths, on_loss)
        for id, token, replica, job, key, attempt, deaths, on_loss in rows
    )
