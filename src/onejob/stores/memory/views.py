"""The memory model of ``sql/base/views.sql``."""

from __future__ import annotations

import json

from onejob.stores.memory.tables import Ended, Event, Replica, Rows, Run, Schedule, Tables

#: How many ends, newest first, say which jobs ran lately.
RECENT = 10_000


def view_run(tables: Tables, now: int, *, id: int) -> Rows:
    """Read one run: live, or else its latest end."""
    if id in tables.runs:
        return [_live(tables.runs[id])]
    latest = max(tables.ends_of(id), key=lambda end: end.token, default=None)
    return [_over(latest)] if latest else []


def view_call(tables: Tables, now: int, *, id: int) -> Rows:
    """Read what a run was asked to do, live or ended."""
    latest = max(tables.ends_of(id), key=lambda end: end.token, default=None)
    run = tables.runs.get(id) or (latest.run if latest else None)
    return [(run.job, run.args, run.created)] if run else []


def view_runs(
    tables: Tables,
    now: int,
    *,
    job: str,
    state: str,
    key: str,
    schedule: str,
    queue: str,
    since: int,
    limit: int,
) -> Rows:
    """Read runs, newest first; "" means any."""

    def asked(run: Run) -> bool:
        names = ((job, run.job), (key, run.key), (schedule, run.schedule), (queue, run.queue))
        return all(wanted in ("", name) for wanted, name in names)

    live = [
        run
        for run in tables.runs.values()
        if asked(run) and state in ("", run.state) and max(run.created, run.started) >= since
    ]
    ended = [
        end
        for end in tables.history.values()
        if asked(end.run) and state in ("", "ended", end.outcome) and end.ended >= since
    ]
    placed = [((-run.id, -run.token, 0), _live(run)) for run in live]
    placed += [((-end.run.id, -end.token, end.ended), _over(end)) for end in ended]
    return [row for _, row in sorted(placed)[:limit]]


def view_replicas(tables: Tables, now: int) -> Rows:
    """Read the fleet, live ones first, newest first."""
    fleet = sorted(tables.replicas.values(), key=lambda r: (r.dead_at > 0, -r.started, r.id))
    return [
        (
            r.id,
            r.name,
            r.host,
            r.pid,
            r.version,
            r.jobs,
            r.schedules,
            r.started,
            r.lease_until,
            r.idle,
            r.dead_at,
            sum(run.replica == r.id and run.state == "running" for run in tables.runs.values()),
            now,
        )
        for r in fleet
    ]


def view_jobs(tables: Tables, now: int) -> Rows:
    """Count the live runs of each job by state, and find its last end."""
    newest = [end for _, end in sorted(tables.history.items(), reverse=True)][:RECENT]
    names = tables.known_jobs()
    names |= {run.job for run in tables.runs.values()} | {end.run.job for end in newest}
    rows: Rows = []
    for job in sorted(names):
        states = [run.state for run in tables.runs.values() if run.job == job]
        ends = [(end.ended, end.outcome) for end in newest if end.run.job == job]
        rows.append(
            (
                job,
                states.count("scheduled"),
                states.count("running"),
                states.count("parked"),
                states.count("unknown"),
                *max(ends, default=(0, None)),
                states.count("waiting"),
            )
        )
    return rows


def view_queues(tables: Tables, now: int) -> Rows:
    """Count the live runs of each queue by state."""
    rows: Rows = []
    for queue in sorted({run.queue for run in tables.runs.values()}):
        mine = [run for run in tables.runs.values() if run.queue == queue]
        states = [run.state for run in mine]
        due = [run.due for run in mine if run.state == "scheduled" and run.due <= now]
        rows.append(
            (
                queue,
                states.count("scheduled") - len(due),
                len(due),
                states.count("waiting"),
                states.count("running"),
                states.count("parked"),
                states.count("unknown"),
                now - min(due, default=now),
            )
        )
    return rows


def view_schedules(
    tables: Tables, now: int, *, name: str, prefix: str, job: str, after: str, limit: int
) -> Rows:
    """Read schedules by name, from behind another."""
    wanted = [
        s
        for _, s in sorted(tables.schedules.items())
        if name in ("", s.name)
        and s.name.startswith(prefix)
        and job in ("", s.job)
        and s.name > after
    ]
    return [
        (
            s.name,
            s.job,
            s.timing,
            s.policy,
            s.last,
            s.next_fire,
            s.paused,
            s.broken,
            s.dynamic,
            s.args,
            sum(_fires(replica, s) for replica in tables.live_replicas()),
            s.missed,
            s.lateness,
            sum(r.schedule == s.name and r.expect_by < 0 for r in tables.runs.values()),
            now,
        )
        for s in wanted[:limit]
    ]


def _fires(replica: Replica, schedule: Schedule) -> bool:
    """Tell whether a replica fires a schedule."""
    if schedule.dynamic:
        return schedule.job in json.loads(replica.ticks)
    return bool(json.loads(replica.schedules).get(schedule.name) == schedule.definition)


def view_late_runs(tables: Tables, now: int, *, limit: int) -> Rows:
    """Read live runs that should have ended, and that this was told of."""
    late = sorted((r for r in tables.runs.values() if r.expect_by < 0), key=lambda r: r.id)
    late.sort(key=lambda run: -run.expect_by)
    return [(r.id, r.job, r.key, r.schedule, r.state, -r.expect_by) for r in late[:limit]]


def view_events(
    tables: Tables, now: int, *, run_id: int, schedule: str, since: int, until: int, limit: int
) -> Rows:
    """Read events of a run, or of a schedule between two instants."""
    told = [
        event
        for event in tables.events
        if run_id in (0, event.run_id)
        and schedule in ("", event.schedule)
        and event.at >= since
        and (until == 0 or event.at <= until)
    ]
    return [_told(event) for event in told[:limit]]


def view_breaks(tables: Tables, now: int, *, name: str, limit: int) -> Rows:
    """Read who took a lock of this name away from whom, the latest first."""
    told = [e for e in tables.events if (e.kind, e.key) == ("lock.broken", name)]
    return [_told(event) for event in reversed(told[-limit:])]


def view_ticks(tables: Tables, now: int, *, keys: str) -> Rows:
    """Read the runs that ticks made under these keys, and who lost each."""
    rows: Rows = []
    for fire in json.loads(keys):
        entry = tables.ledger.get(("schedule", fire["job"], fire["key"]))
        if entry is None or not entry.run_id:
            continue
        lost = [e.replica for e in tables.events if _lost(e, entry.run_id)]
        for run in view_run(tables, now, id=entry.run_id):
            rows.append((entry.owner, entry.claimed, json.dumps(lost), *run))
    return rows


def _lost(event: Event, run_id: int) -> bool:
    return event.run_id == run_id and event.kind == "tick.lost"


#: What is told of fire times and definitions, other than who lost.
_OF_TICKS = {
    "tick.missed",
    "tick.skipped",
    "tick.queued",
    "tick.known",
    "run.late",
    "schedule.defined",
}


def view_tick_events(tables: Tables, now: int, *, schedule: str, since: int, limit: int) -> Rows:
    """Read what was told of a schedule's fire times, the newest first."""
    told = [
        event
        for event in tables.events
        if event.schedule == schedule != "" and event.at >= since and event.kind in _OF_TICKS
    ]
    told.sort(key=lambda event: (-event.at, -event.id))
    return [_told(event) for event in told[:limit]]


def _told(event: Event) -> tuple[object, ...]:
    return (
        event.id,
        event.at,
        event.kind,
        event.job,
        event.key,
        event.run_id,
        event.token,
        event.replica,
        event.schedule,
        event.detail,
    )


def view_effects_of(tables: Tables, now: int, *, run_id: int, limit: int) -> Rows:
    """Read the effects that a run has claimed in its own scope."""
    runs = [end.run for end in tables.ends_of(run_id)]
    runs += [tables.runs[run_id]] if run_id in tables.runs else []
    scopes = {f"{run.job}/{run.key}" for run in runs}
    entries = [
        e
        for e in tables.ledger.values()
        if e.kind == "effect" and e.run_id == run_id and e.scope in scopes
    ]
    entries.sort(key=lambda e: (e.claimed, e.key))
    return [
        (e.scope, e.key, e.state, e.token, e.owner, e.attempt, e.claimed, e.error)
        for e in entries[:limit]
    ]


def view_clock(tables: Tables, now: int) -> Rows:
    """Read the clock."""
    return [(now,)]


def _live(run: Run) -> tuple[object, ...]:
    return _row(run, run.state, None, run.token, 0, run.error, None)


def _over(end: Ended) -> tuple[object, ...]:
    return _row(end.run, "ended", end.outcome, end.token, end.ended, end.error, end.result)


def _row(
    run: Run,
    state: str,
    outcome: str | None,
    token: int,
    ended: int,
    error: str | None,
    result: str | None,
) -> tuple[object, ...]:
    return (
        run.id,
        run.job,
        run.key,
        state,
        outcome,
        run.attempt,
        run.deaths,
        run.interrupted,
        token,
        run.replica,
        run.queue,
        run.priority,
        run.due,
        run.started,
        ended,
        error,
        result,
        run.progress,
        run.schedule,
        run.fire_time,
    )
