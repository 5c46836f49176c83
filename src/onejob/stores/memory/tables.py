"""The tables of the memory model: plain values in dicts and lists.

The names are those of the PostgreSQL tables; an entry that ``0`` or ``""`` means nothing for means
nothing here too. Numbers are drawn from counters that only ever rise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, TypeAlias

#: What an operation answers with: columns in the order that the SQL text states.
Rows: TypeAlias = list[tuple[object, ...]]


@dataclass(slots=True)
class Replica:
    """One process of the fleet. ``jobs`` and ``schedules`` stay the JSON texts they came as."""

    id: str
    name: str
    host: str
    pid: int
    version: str
    jobs: str
    schedules: str
    started: int
    lease_until: int
    idle: int = 0
    dead_at: int = 0
    ticks: str = "[]"


@dataclass(slots=True)
class Run:
    """A live run."""

    id: int
    job: str
    key: str
    kind: str
    keyed: int
    queue: str
    priority: int
    due: int
    wanted: int
    created: int
    on_loss: str
    args: str
    schedule: str = ""
    fire_time: int = 0
    state: str = "scheduled"
    attempt: int = 0
    deaths: int = 0
    interrupted: int = 0
    token: int = 0
    replica: str = ""
    started: int = 0
    error: str | None = None
    progress: str | None = None
    behind: int = 0
    expect_by: int = 0


@dataclass(slots=True)
class Ended:
    """One end of a run: the run as it was then, and how it ended. Never changed afterwards."""

    run: Run
    token: int
    ended: int
    keep_until: int
    outcome: str
    error: str | None
    result: str | None


@dataclass(slots=True)
class Entry:
    """A row of the ledger. ``kept_until`` is 0 until it ends, and for the keys of runs."""

    kind: str
    scope: str
    key: str
    state: str
    owner: str
    claimed: int
    token: int = 0
    run_id: int = 0
    claim_until: int = 0
    attempt: int = 1
    fingerprint: str = ""
    kept_until: int = 0
    result: str | None = None
    error: str | None = None


@dataclass(slots=True)
class Schedule:
    """What fires when. ``next_fire`` 0 means never again."""

    name: str
    job: str
    timing: str
    policy: str
    definition: str
    version: str
    superseded: str
    next_fire: int
    changed: int
    last: int = 0
    paused: int = 0
    broken: str = ""
    revision: int = 1
    dynamic: int = 0
    args: str = "{}"
    queue: str = "default"
    priority: int = 0
    on_loss: str = "retry"
    missed: int = 0
    lateness: int = 0

    @property
    def fires(self) -> bool:
        """Tell whether it fires by itself as it stands."""
        return self.next_fire > 0 and not self.paused and not self.broken


@dataclass(slots=True)
class Lease:
    """A named lock. ``owner`` is "" while nobody holds it."""

    scope: str
    name: str
    token: int = 0
    owner: str = ""
    holder: str = ""
    resources: str = "[]"
    acquired: int = 0
    hold_until: int = 0
    expires: int = 0
    changed: int = 0


@dataclass(slots=True)
class Event:
    """Something worth telling."""

    id: int
    at: int
    kind: str
    job: str
    key: str
    run_id: int = 0
    token: int = 0
    replica: str = ""
    schedule: str = ""
    detail: str = ""


@dataclass(slots=True)
class Tables:
    """Everything the store holds."""

    replicas: dict[str, Replica] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    history: dict[tuple[int, int], Ended] = field(default_factory=dict)
    ledger: dict[tuple[str, str, str], Entry] = field(default_factory=dict)
    schedules: dict[str, Schedule] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    cancels: dict[int, str] = field(default_factory=dict)
    """Requests to cancel: the run's id, and why."""
    leases: dict[tuple[str, str], Lease] = field(default_factory=dict)
    waiters: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """Who waits for a lock (scope, name, owner), and until when at the most."""
    fences: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """The highest token known at a resource, and when one was seen there last."""
    token: int = 0
    run_id: int = 0
    event_id: int = 0
    hints: int = 0
    """How often runs were made while some replica was idle."""

    def next_token(self) -> int:
        """Draw a fencing token: higher than every one before, never used again."""
        self.token += 1
        return self.token

    def next_run_id(self) -> int:
        """Draw the id of a run."""
        self.run_id += 1
        return self.run_id

    def is_live(self, replica: str) -> bool:
        """Tell whether a replica has joined and was not declared dead."""
        return replica in self.replicas and self.replicas[replica].dead_at == 0

    def live_replicas(self) -> list[Replica]:
        """Return every replica that was not declared dead."""
        return [replica for replica in self.replicas.values() if replica.dead_at == 0]

    def known_jobs(self) -> set[str]:
        """Return the jobs that some live replica can execute."""
        return {job for replica in self.live_replicas() for job in json.loads(replica.jobs)}

    def held(self, id: int, token: int, replica: str) -> Run | None:
        """Return the run while exactly this claim holds it: the guard of every later write."""
        run = self.runs.get(id)
        if run is None or run.state != "running":
            return None
        return run if (run.token, run.replica) == (token, replica) else None

    def ends_of(self, id: int) -> list[Ended]:
        """Return every end of a run that is still kept."""
        return [end for end in self.history.values() if end.run.id == id]

    def tell(self, at: int, kind: str, job: str, key: str, **more: Any) -> None:
        """Record an event."""
        self.event_id += 1
        self.events.append(Event(self.event_id, at, kind, job, key, **more))

    def hint(self) -> None:
        """Raise the counter of hints if some replica waits for work."""
        if any(replica.idle for replica in self.live_replicas()):
            self.hints += 1
