"""The memory model of ``sql/base/schedules.sql``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from onejob.stores.memory.tables import Entry, Rows, Run, Schedule, Tables


def schedule_read(tables: Tables, now: int, *, names: str) -> Rows:
    """Read schedules by name, and the clock."""
    wanted = set(json.loads(names))
    return _listed(now, (s for s in tables.schedules.values() if s.name in wanted))


def schedule_live_definitions(tables: Tables, now: int, *, names: str) -> Rows:
    """Read which definitions live replicas declare."""
    wanted = set(json.loads(names))
    return [
        (name, definition)
        for replica in tables.live_replicas()
        for name, definition in json.loads(replica.schedules).items()
        if name in wanted
    ]


def schedule_define(
    tables: Tables, now: int, *, name: str, revision: int, missed: str, **definition: Any
) -> Rows:
    """Store the first definition of a name, or replace exactly the revision that was read."""
    stored = tables.schedules.get(name)
    if (stored.revision if stored else 0) != revision:
        return []
    new = Schedule(name=name, changed=now, **definition)
    if stored:
        new.last, new.paused, new.revision = stored.last, stored.paused, revision + 1
    tables.schedules[name] = new
    tables.tell(now, "schedule.defined", new.job, "", schedule=name, detail=new.definition)
    if missed:
        tables.tell(now, "tick.missed", new.job, "", schedule=name, detail=missed)
    return [(name,)]


def schedule_due(tables: Tables, now: int, *, names: str, limit: int) -> Rows:
    """Read which of these schedules are due, in name order."""
    wanted = set(json.loads(names))
    due = [
        s
        for _, s in sorted(tables.schedules.items())
        if s.fires and s.next_fire <= now and s.name in wanted
    ]
    return _listed(now, due[:limit])


def schedule_tick(tables: Tables, now: int, *, batch: str, replica: str) -> Rows:
    """Advance the schedules whose revision is the one that was read, and make their runs."""
    steps = [step for step in json.loads(batch) if _may_advance(tables, now, step)]
    steps.sort(key=lambda step: str(step["name"]))
    rows: Rows = []
    for step in steps:
        schedule = tables.schedules[step["name"]]
        in_the_way = _in_the_way(tables, schedule.name) if step["unless_live"] else 0
        for fire in step["fires"]:
            rows.append(_fire(tables, now, schedule.name, fire, in_the_way, replica))
        if step["missed"]:
            tables.tell(
                now,
                "tick.missed",
                schedule.job,
                "",
                replica=replica,
                schedule=schedule.name,
                detail=step["missed"],
            )
        schedule.last = max(schedule.last, step["last"])
        schedule.next_fire = step["next_fire"]
        schedule.revision += 1
    if any(answer == "fired" for *_, answer in rows):
        tables.hint()
    return sorted(rows, key=lambda row: (str(row[0]), int(str(row[1]))))


def schedule_broken(tables: Tables, now: int, *, name: str, revision: int, why: str) -> Rows:
    """Stop a schedule whose next fire time can't be computed."""
    schedule = tables.schedules.get(name)
    if schedule is None or schedule.revision != revision:
        return []
    schedule.broken = why
    schedule.revision += 1
    tables.tell(now, "schedule.broken", schedule.job, "", schedule=name, detail=why)
    return [(name,)]


def schedule_pause(tables: Tables, now: int, *, name: str, paused: int) -> Rows:
    """Pause or resume."""
    schedule = tables.schedules.get(name)
    if schedule is None:
        return []
    schedule.paused, schedule.changed = paused, now
    schedule.revision += 1
    kind = "schedule.paused" if paused else "schedule.resumed"
    tables.tell(now, kind, schedule.job, "", schedule=name)
    return [(name,)]


def _listed(now: int, schedules: Iterable[Schedule]) -> Rows:
    """Return schedules in name order, after a row of its own that carries the clock."""
    return [
        (now, "", "", "", "", "", "", "", 0, 0, 0, "", 0),
        *(
            (
                now,
                s.name,
                s.job,
                s.timing,
                s.policy,
                s.definition,
                s.version,
                s.superseded,
                s.last,
                s.next_fire,
                s.paused,
                s.broken,
                s.revision,
            )
            for s in sorted(schedules, key=lambda s: s.name)
        ),
    ]


def _may_advance(tables: Tables, now: int, step: dict[str, Any]) -> bool:
    schedule = tables.schedules.get(step["name"])
    return (
        schedule is not None
        and schedule.revision == step["revision"]
        and not schedule.paused
        and not schedule.broken
        and all(fire["fire_time"] <= now for fire in step["fires"])
    )


def _in_the_way(tables: Tables, schedule: str) -> int:
    live = [
        run.id
        for run in tables.runs.values()
        if run.schedule == schedule and run.state in ("scheduled", "running")
    ]
    return min(live, default=0)


def _fire(
    tables: Tables, now: int, schedule: str, fire: dict[str, Any], in_the_way: int, replica: str
) -> tuple[object, ...]:
    """Make the run of one fire time; tell why if there is none to make."""
    id, job, key = tables.next_run_id(), fire["job"], fire["key"]
    name = ("schedule", job, key)
    if in_the_way or name in tables.ledger:
        answer = "skipped" if in_the_way else "known"
        detail = json.dumps({"fire_time": fire["fire_time"], "by": in_the_way})
        tables.tell(
            now,
            f"tick.{answer}",
            job,
            key,
            run_id=in_the_way,
            replica=replica,
            schedule=schedule,
            detail=detail,
        )
        return schedule, fire["fire_time"], in_the_way, answer
    tables.ledger[name] = Entry(*name, "claimed", replica, now, run_id=id)
    tables.runs[id] = Run(
        id=id,
        job=job,
        key=key,
        kind="schedule",
        keyed=1,
        queue=fire["queue"],
        priority=fire["priority"],
        due=now,
        wanted=fire["fire_time"],
        created=now,
        on_loss=fire["on_loss"],
        args=fire["args"],
        schedule=schedule,
        fire_time=fire["fire_time"],
    )
    return schedule, fire["fire_time"], id, "fired"
