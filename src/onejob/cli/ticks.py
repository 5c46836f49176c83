"""One row for each fire time of a schedule: who claimed it, who lost it, what became of it.

No I/O here: expected fire times, runs and events in, rows out.

1. What has a record is shown: its run, or the event that says why it became none.
2. What was expected and has none is still to be ticked, or was counted as missed without being
   listed, or nothing is kept of it any more.
3. Before its definition nothing was expected of a schedule, nor before the oldest record, where
   the definition is so old that its event has gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onejob.cli.story import MISSED, missed_in, read_detail, skipped_at
from onejob.cli.text import clean, span
from onejob.commands.ticks import TickView
from onejob.commands.views import EventView, ReplicaView, RunView, ScheduleView
from onejob.core.keys import fire_key
from onejob.core.schedule import PUNCTUAL
from onejob.core.time import Instant


@dataclass(frozen=True, slots=True)
class Tick:
    """One row. ``at`` is 0 for a key that names no instant; who, as host and pid."""

    at: int
    key: str
    outcome: str
    claimed_by: str = ""
    lost_by: tuple[str, ...] = ()
    ran_on: str = ""
    started: int = 0
    ended: int = 0
    note: str = ""
    run: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read of a schedule. ``expected`` ascends; ``replicas`` by id."""

    schedule: ScheduleView
    expected: tuple[Instant, ...] = ()
    made: tuple[TickView, ...] = ()
    events: tuple[EventView, ...] = ()
    replicas: Mapping[str, ReplicaView] = field(default_factory=dict)


def of_schedule(evidence: Evidence, *, since: int, most: int) -> tuple[Tick, ...]:
    """Return the newest ``most`` fire times from ``since`` on, the newest first."""
    known = {**_left_out(evidence), **_counted(evidence), **_listed(evidence), **_made(evidence)}
    expected = [at for at in evidence.expected if at not in known]
    pending = [at for at in expected if 0 < evidence.schedule.next_fire <= at]
    begin = max((e.at for e in evidence.events if e.kind == "schedule.defined"), default=-1)
    if begin < 0:
        begin = min(known, default=evidence.schedule.now)
    passed = [at for at in expected if at > begin and at not in pending]
    known |= {at: _pending(evidence.schedule, at) for at in pending}
    known |= {at: Tick(at, _key(evidence, at), "no record", note=_NO_RECORD) for at in passed}
    newest = sorted((at for at in known if at >= since), reverse=True)
    return tuple(known[at] for at in newest[:most])


def place(replica: str, replicas: Mapping[str, ReplicaView]) -> str:
    """Return where a replica is or was, as host and pid; its id where nobody knows it any more."""
    known = replicas.get(replica)
    return clean(f"{known.host}:{known.pid}" if known else replica)


_NO_RECORD = "nothing is kept of it: its run has been purged, or it was never ticked"


def _made(evidence: Evidence) -> dict[int, Tick]:
    """Return the rows of fire times that became runs."""
    told = _told_of_runs(evidence)
    found = {}
    for tick in evidence.made:
        run = tick.run
        claimed_by, ran_on = (place(id, evidence.replicas) for id in (tick.claimed_by, run.replica))
        notes = [
            *([f"claimed {span(late)} after it"] if (late := _late(tick)) else []),
            *told.get(run.id, ()),
            *_notes(run),
            *([f"ran on {ran_on}"] if ran_on and ran_on != claimed_by else []),
            *([clean(run.error)] if run.error and run.outcome != "succeeded" else []),
        ]
        found[run.fire_time] = Tick(
            run.fire_time,
            run.key,
            run.outcome or run.state,
            claimed_by,
            tuple(place(id, evidence.replicas) for id in tick.lost_by),
            ran_on,
            run.started,
            run.ended,
            "; ".join(notes),
            run.id,
        )
    return found


def _late(tick: TickView) -> int:
    late = tick.claimed - tick.run.fire_time
    return late if late >= PUNCTUAL else 0


def _notes(run: RunView) -> list[str]:
    tries = [f"{run.attempt} attempts"] if run.attempt > 1 else []
    return tries + ([f"{run.deaths} lost with a replica"] if run.deaths else [])


def _told_of_runs(evidence: Evidence) -> dict[int, list[str]]:
    """Return what events say of runs that were made: by their ids, in the order of telling."""
    known_again = {
        read_detail(event).get("fire_time")
        for event in evidence.events
        if event.kind == "tick.known"
    }
    found = {
        tick.run.id: ["fired again, and was known"]
        for tick in evidence.made
        if tick.run.fire_time in known_again
    }
    for event in reversed(evidence.events):
        if event.kind == "tick.queued":
            said = f"waited behind run {read_detail(event).get('by')}"
            found.setdefault(event.run_id, []).append(said)
        elif event.kind == "run.late":
            found.setdefault(event.run_id, []).append("late")
    return found


def _left_out(evidence: Evidence) -> dict[int, Tick]:
    """Return the rows of fire times that were skipped, a run being in their way."""
    return {
        at: Tick(
            at,
            _key(evidence, at),
            "skipped",
            place(event.replica, evidence.replicas),
            note=f"run {event.run_id} before it had not ended (overlap)",
        )
        for event in evidence.events
        if (at := skipped_at(event))
    }


def _listed(evidence: Evidence) -> dict[int, Tick]:
    """Return the rows of fire times that events list as missed."""
    return {
        at: Tick(at, _key(evidence, at), "missed", note=MISSED.get(reason, clean(reason)))
        for event in evidence.events
        for at, reason in missed_in(event).items()
    }


def _counted(evidence: Evidence) -> dict[int, Tick]:
    """Return the rows of those that an event counts as missed and does not list: before its others.

    They end where the count ends, or at one that did become something.
    """
    recorded = {tick.run.fire_time for tick in evidence.made} | _left_out(evidence).keys()
    found: dict[int, Tick] = {}
    for event in evidence.events:
        listed, told = missed_in(event), read_detail(event)
        rest = int(told.get("count", 0)) - len(listed)
        if not listed or rest <= 0:
            continue
        note = f"one of {told['count']} at once, of which the newest {len(listed)} have a reason"
        before = [at for at in evidence.expected if at < min(listed)]
        for at in reversed(before if told.get("at_least") else before[-rest:]):
            if at in recorded:
                break
            found[at] = Tick(at, _key(evidence, at), "missed", note=note)
    return found


def _pending(schedule: ScheduleView, at: int) -> Tick:
    """Return the row of a fire time that has come, and that nobody has claimed."""
    outcome, note = "due", "nobody has claimed it yet"
    if schedule.broken:
        outcome, note = "broken", clean(schedule.broken)
    elif schedule.paused:
        outcome, note = "paused", "it is missed when the schedule is resumed"
    elif not schedule.declared:
        lacks = f"knows job {clean(schedule.job)}" if schedule.dynamic else "declares it"
        outcome, note = "orphaned", f"no live replica {lacks}"
    return Tick(at, fire_key(schedule.name, Instant(at)), outcome, note=note)


def _key(evidence: Evidence, at: int) -> str:
    return fire_key(evidence.schedule.name, Instant(at))
