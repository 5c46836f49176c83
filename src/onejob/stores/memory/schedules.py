"""The memory model of ``sql/base/schedules.sql``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from onejob.stores.memory.tables import Rows, Schedule, Tables


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


def schedule_define(tables: Tables, now: int, *, revision: int, **definition: Any) -> Rows:
    """Store the first definition of a name, or replace exactly the revision that was read."""
    return _store(tables, now, revision, definition, dynamic=0)


def schedule_put(tables: Tables, now: int, *, batch: str) -> Rows:
    """Store schedules as data; data is replaced by data alone."""
    given = sorted(json.loads(batch), key=lambda one: str(one["name"]))
    rows: Rows = []
    for one in given:
        plain = {**one, "version": "", "superseded": "[]"}
        rows += _store(tables, now, plain.pop("revision"), plain, dynamic=1)
    return rows


def _store(
    tables: Tables, now: int, revision: int, definition: dict[str, Any], *, dynamic: int
) -> Rows:
    name, missed = definition["name"], definition.pop("missed")
    count = definition.pop("missed_count")
    stored = tables.schedules.get(name)
    if (stored.revision if stored else 0) != revision or (stored and stored.dynamic != dynamic):
        return []
    new = Schedule(changed=now, dynamic=dynamic, missed=count, **definition)
    if stored:
        new.last, new.paused, new.revision = stored.last, stored.paused, revision + 1
        if count:
            new.last = max(stored.last, stored.next_fire)
        new.missed += stored.missed
        new.lateness = stored.lateness
    tables.schedules[name] = new
    tables.tell(now, "schedule.defined", new.job, "", schedule=name, detail=new.definition)
    if missed:
        tables.tell(now, "tick.missed", new.job, "", schedule=name, detail=missed)
    return [(name,)]


def schedule_broken(tables: Tables, now: int, *, name: str, revision: int, why: str) -> Rows:
    """Stop a schedule whose next fire time can't be computed."""
    schedule = tables.schedules.get(name)
    if schedule is None or schedule.revision != revision:
        return []
    schedule.broken = why
    schedule.revision += 1
    tables.tell(now, "schedule.broken", schedule.job, "", schedule=name, detail=why)
    return [(name,)]


def schedule_pause(tables: Tables, now: int, *, name: str) -> Rows:
    """Pause; one that is paused stays so."""
    schedule = tables.schedules.get(name)
    if schedule is None:
        return []
    if not schedule.paused:
        schedule.paused, schedule.changed = 1, now
        schedule.revision += 1
        tables.tell(now, "schedule.paused", schedule.job, "", schedule=name)
    return [(name,)]


def schedule_resume(
    tables: Tables,
    now: int,
    *,
    name: str,
    revision: int,
    last: int,
    next_fire: int,
    missed: str,
    missed_count: int,
) -> Rows:
    """Resume exactly the revision that was read, from a fire time that is still to come."""
    schedule = tables.schedules.get(name)
    if schedule is None or not schedule.paused or schedule.revision != revision:
        return []
    schedule.paused, schedule.changed, schedule.next_fire = 0, now, next_fire
    schedule.last = max(schedule.last, last)
    schedule.missed += missed_count
    schedule.revision += 1
    tables.tell(now, "schedule.resumed", schedule.job, "", schedule=name)
    if missed:
        tables.tell(now, "tick.missed", schedule.job, "", schedule=name, detail=missed)
    return [(name,)]


def schedule_delete(tables: Tables, now: int, *, name: str) -> Rows:
    """Delete what was put as data, or what no live code declares."""
    schedule = tables.schedules.get(name)
    if schedule is None:
        return []
    declared = any(name in json.loads(r.schedules) for r in tables.live_replicas())
    if declared and not schedule.dynamic:
        return []
    del tables.schedules[name]
    tables.tell(now, "schedule.deleted", schedule.job, "", schedule=name)
    return [(name,)]


def _listed(now: int, schedules: Iterable[Schedule]) -> Rows:
    """Return schedules in name order, after a row of its own that carries the clock."""
    return [clock_row(now), *(as_row(now, s) for s in sorted(schedules, key=lambda s: s.name))]


def clock_row(now: int, ahead: int = 0) -> tuple[object, ...]:
    """Return the row without a name: the clock, and when the next schedule fires."""
    return (now, "", "", "", "", "", "", "", 0, ahead, 0, "", 0, 0, "", "", 0, "")


def as_row(now: int, s: Schedule) -> tuple[object, ...]:
    """Return a schedule as the texts do."""
    return (
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
        s.dynamic,
        s.args,
        s.queue,
        s.priority,
        s.on_loss,
    )
