"""The memory model of ``sql/base/tick.sql``: what is due, and what becomes of it."""

from __future__ import annotations

import json
from typing import Any

from onejob.stores.memory.schedules import as_row, clock_row
from onejob.stores.memory.tables import Entry, Rows, Run, Tables


def schedule_due(tables: Tables, now: int, *, names: str, jobs: str, limit: int, skip: int) -> Rows:
    """Read what is due of these schedules and of what was put for these jobs, the earliest."""
    named, known = set(json.loads(names)), set(json.loads(jobs))
    mine = [
        s
        for s in tables.schedules.values()
        if s.fires and (s.job in known if s.dynamic else s.name in named)
    ]
    due = sorted((s for s in mine if s.next_fire <= now), key=lambda s: (s.next_fire, s.name))
    ahead = min((s.next_fire for s in mine if s.next_fire > now), default=0)
    chosen = sorted(due[skip : skip + limit], key=lambda s: s.name)
    return [clock_row(now, ahead), *(as_row(now, s) for s in chosen)]


def schedule_tick(tables: Tables, now: int, *, batch: str, replica: str) -> Rows:
    """Advance the schedules whose revision is the one that was read, and make their runs."""
    steps = [step for step in json.loads(batch) if _may_advance(tables, now, step)]
    steps.sort(key=lambda step: str(step["name"]))
    rows: Rows = []
    for step in steps:
        rows += _make(tables, now, step, replica)
    for step in steps:
        _advance(tables, now, step, replica)
    if any(answer in ("fired", "queued") for *_, answer in rows):
        tables.hint()
    return sorted(rows, key=lambda row: (str(row[0]), int(str(row[1]))))


def schedule_lost(tables: Tables, now: int, *, batch: str, replica: str) -> Rows:
    """Record, once for each, which fire times this replica lost to another."""
    lost = []
    for tick in json.loads(batch):
        entry = tables.ledger.get(("schedule", tick["job"], tick["key"]))
        if entry is None or not entry.run_id or entry.owner == replica:
            continue
        told = any(
            (e.kind, e.run_id, e.replica) == ("tick.lost", entry.run_id, replica)
            for e in tables.events
        )
        if not told:
            lost.append((entry.run_id, entry, tick))
    for run_id, entry, tick in sorted(lost, key=lambda one: one[0]):
        tables.tell(
            now,
            "tick.lost",
            entry.scope,
            entry.key,
            run_id=run_id,
            replica=replica,
            schedule=tick["name"],
            detail=json.dumps({"fire_time": tick["fire_time"], "by": entry.owner}),
        )
    return [(run_id,) for run_id, *_ in lost]


def _may_advance(tables: Tables, now: int, step: dict[str, Any]) -> bool:
    schedule = tables.schedules.get(step["name"])
    return (
        schedule is not None
        and schedule.revision == step["revision"]
        and not schedule.paused
        and not schedule.broken
        and all(fire["fire_time"] <= now for fire in step["fires"])
    )


def _advance(tables: Tables, now: int, step: dict[str, Any], replica: str) -> None:
    schedule = tables.schedules[step["name"]]
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
    if step["last"] > schedule.last:
        schedule.last, schedule.lateness = step["last"], now - step["last"]
    schedule.next_fire = step["next_fire"]
    schedule.missed += step["missed_count"]
    schedule.revision += 1


def _make(tables: Tables, now: int, step: dict[str, Any], replica: str) -> Rows:
    """Make the runs of one step, or say why not."""
    name, overlap = step["name"], step["overlap"]
    live = sorted(
        run.id
        for run in tables.runs.values()
        if run.schedule == name and run.state in ("scheduled", "running", "waiting")
    )
    in_the_way = live[0] if live and overlap != "allow" else 0
    rows: Rows = []
    first = in_the_way
    for fire in sorted(step["fires"], key=lambda fire: (fire["fire_time"], fire["key"])):
        id, entry = tables.next_run_id(), ("schedule", fire["job"], fire["key"])
        answer, by = "fired", 0
        if overlap == "skip" and in_the_way:
            answer, by = "skipped", in_the_way
        elif entry in tables.ledger:
            answer = "known"
        elif overlap in ("queue", "cancel") and first:
            answer, by = "queued", first
        if answer in ("fired", "queued"):
            tables.ledger[entry] = Entry(*entry, "claimed", replica, now, run_id=id)
            tables.runs[id] = _run(id, name, fire, now, behind=by)
            first = first or id
            if overlap == "cancel":
                tables.cancels |= {one: "overlap" for one in live if one not in tables.cancels}
        if answer != "fired":
            _tell(tables, now, name, fire, answer, id if answer == "queued" else by, by, replica)
        rows.append((name, fire["fire_time"], id if answer in ("fired", "queued") else by, answer))
    return rows


def _tell(
    tables: Tables,
    now: int,
    name: str,
    fire: dict[str, Any],
    answer: str,
    run_id: int,
    by: int,
    replica: str,
) -> None:
    tables.tell(
        now,
        f"tick.{answer}",
        fire["job"],
        fire["key"],
        run_id=run_id,
        replica=replica,
        schedule=name,
        detail=json.dumps({"fire_time": fire["fire_time"], "by": by}),
    )


def _run(id: int, schedule: str, fire: dict[str, Any], now: int, *, behind: int) -> Run:
    return Run(
        id=id,
        job=fire["job"],
        key=fire["key"],
        kind="schedule",
        keyed=1,
        queue=fire["queue"],
        priority=fire["priority"],
        state="waiting" if behind else "scheduled",
        due=max(fire["due"], now),
        wanted=fire["fire_time"],
        created=now,
        on_loss=fire["on_loss"],
        args=fire["args"],
        schedule=schedule,
        fire_time=fire["fire_time"],
        behind=behind,
        expect_by=fire["fire_time"] + fire["expect"] if fire["expect"] else 0,
    )
