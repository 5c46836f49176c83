"""Where tests start from: instants of realistic size, and the first steps of a run's life."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from onejob.commands import replicas, runs, schedules, views
from onejob.commands.command import Command
from onejob.commands.replicas import NewReplica
from onejob.commands.runs import NewRun
from onejob.commands.schedules import Fire, NewSchedule, Schedule, Step
from onejob.core.keys import fire_key
from onejob.core.run import Again, Claim, ClaimedRun, End, Outcome, ReplicaId, RunId, Settlement
from onejob.core.time import DAY, SECOND, Instant
from onejob.core.watermark import full_probes

T = TypeVar("T")

#: The store's clock when a test begins: in May 2026, microseconds.
NOW = 1_780_000_000_000_000
LEASE = 12 * SECOND
KEEP = 30 * DAY

DONE = End(Outcome.SUCCEEDED)


class Run(Protocol):
    """Carry out a command and return its answer."""

    def __call__(self, command: Command[T]) -> T: ...


def joined(
    run: Run,
    id: str = "replica-a",
    *,
    jobs: Sequence[str] = ("mail",),
    declares: Mapping[str, str] | None = None,
    lease: int = LEASE,
    now: int = NOW,
) -> ReplicaId:
    """Let a replica join; return its id."""
    new = new_replica(id, jobs=jobs, declares=declares or {}, lease=lease)
    assert run(replicas.join(new, now=now))
    return new.id


def new_replica(
    id: str,
    *,
    jobs: Sequence[str] = ("mail",),
    declares: Mapping[str, str] = MappingProxyType({}),
    lease: int = LEASE,
) -> NewReplica:
    """Return what a process says of itself when it joins."""
    return NewReplica(ReplicaId(id), "web", "host-1", 4_242, "", jobs, declares, lease)


def made(run: Run, key: str = "k", *, now: int = NOW, **fields: Any) -> RunId:
    """Enqueue one run of job ``mail`` (unkeyed unless told otherwise); return its id."""
    [made] = run(
        runs.enqueue([NewRun(**{"job": "mail", "args": "{}", **fields}, key=key)], now=now)
    )
    return made.id


def claim(
    run: Run,
    replica: ReplicaId,
    *,
    jobs: Sequence[str] = ("mail",),
    queues: Sequence[str] = ("default",),
    limit: int = 100,
    now: int = NOW,
) -> tuple[ClaimedRun, ...]:
    """Claim from the beginning of every queue."""
    return run(runs.claim(full_probes(queues), jobs=jobs, replica=replica, limit=limit, now=now))


def claim_alone(run: Run, replica: ReplicaId, *, now: int = NOW) -> tuple[ClaimedRun, ...]:
    """Claim one run that has outlived a replica."""
    return run(runs.claim_alone(["default"], jobs=["mail"], replica=replica, now=now))


def running(run: Run, replica: str = "replica-a", *, now: int = NOW, **fields: Any) -> ClaimedRun:
    """Return a run that a replica of that id has just claimed."""
    id = made(run, now=now, **fields)
    [claimed] = [one for one in claim(run, joined(run, replica, now=now), now=now) if one.id == id]
    return claimed


def settle(run: Run, claim: Claim, settlement: Settlement, *, now: int = NOW) -> bool:
    """Settle one claim; tell whether it still held."""
    answer = run(runs.settle([(claim, settlement)], keep=KEEP, now=now))
    assert answer in ((), (claim,))
    return bool(answer)


def taken_over(run: Run, claimed: ClaimedRun, *, now: int = NOW) -> ClaimedRun:
    """Let another replica take a run over as after its holder's death; return the new claim."""
    assert settle(run, claimed.claim, Again(0, Outcome.ABANDONED), now=now)
    [again] = claim_alone(run, joined(run, "replica-b", now=now), now=now)
    assert again.id == claimed.id
    return again


def state(run: Run, id: RunId) -> str:
    """Return the state of a run, "ended" included; "gone" where nobody knows it."""
    view = run(views.run_get(id))
    return view.state if view else "gone"


def defined(run: Run, name: str = "nightly", *, next_fire: int = NOW, now: int = NOW) -> Schedule:
    """Define a schedule that fires job ``mail``; return it as the store has it."""
    new = NewSchedule(name, "mail", '{"cron":"0 2 * * *"}', "{}", f"{name}-1", "", "", next_fire)
    assert run(schedules.define(new, revision=0, now=now))
    return stored(run, name, now=now)


def stored(run: Run, name: str = "nightly", *, now: int = NOW) -> Schedule:
    """Read one schedule."""
    [schedule] = run(schedules.read([name], now=now)).schedules
    return schedule


def resumed(run: Run, name: str = "nightly", *, now: int = NOW) -> bool:
    """Let a paused schedule go on from the fire time that it has; tell whether it did."""
    paused = stored(run, name, now=now)
    return run(
        schedules.resume(
            name,
            revision=paused.revision,
            last=paused.last,
            next_fire=paused.next_fire,
            now=now,
        )
    )


def fire(schedule: str, at: int, **fields: Any) -> Fire:
    """Return the run that a fire time asks for."""
    usual = {"job": "mail", "args": "{}", "queue": "default", "priority": 0, "on_loss": "retry"}
    return Fire(fire_key(schedule, Instant(at)), at, **{**usual, **fields})


def step(
    schedule: Schedule, *fire_times: int, shift: int = 0, expect: int = 0, **fields: Any
) -> Step:
    """Return the step that fires these fire times of a schedule and moves it a day on."""
    last = max(fire_times, default=schedule.last)
    usual = {"last": last, "next_fire": schedule.next_fire + DAY}
    fires = tuple(fire(schedule.name, at, due=at + shift, expect=expect) for at in fire_times)
    return Step(schedule.name, schedule.revision, fires=fires, **{**usual, **fields})
