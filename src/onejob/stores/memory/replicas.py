"""The memory model of ``sql/base/replicas.sql``."""

from __future__ import annotations

import json

from onejob.stores.memory.overlap import first_waiting
from onejob.stores.memory.tables import Replica, Rows, Tables

#: How many due runs are looked at for jobs that nobody knows.
HEAD = 100


def replica_join(
    tables: Tables,
    now: int,
    *,
    id: str,
    name: str,
    host: str,
    pid: int,
    version: str,
    jobs: str,
    schedules: str,
    ticks: str,
    lease: int,
) -> Rows:
    """Enter, or extend the lease of the same id joining again; a dead one stays dead."""
    if id in tables.replicas:
        return replica_renew(tables, now, id=id, lease=lease)
    tables.replicas[id] = Replica(
        id,
        name,
        host,
        pid,
        version,
        jobs,
        schedules,
        started=now,
        lease_until=now + lease,
        ticks=ticks,
    )
    return [(id,)]


def replica_renew(tables: Tables, now: int, *, id: str, lease: int) -> Rows:
    """Refused once declared dead, however late the renewal arrives."""
    if not tables.is_live(id):
        return []
    tables.replicas[id].lease_until = now + lease
    return [(id,)]


def replica_idle(tables: Tables, now: int, *, id: str, idle: int) -> Rows:
    """Say whether a live replica waits for work."""
    if not tables.is_live(id):
        return []
    tables.replicas[id].idle = idle
    return [(id,)]


def replica_leave(tables: Tables, now: int, *, id: str) -> Rows:
    """Leave for good."""
    if not tables.is_live(id):
        return []
    _bury(tables.replicas[id], now)
    return [(id,)]


def replica_look(
    tables: Tables, now: int, *, jobs: str, queues: str, schedules: str, ticks: str
) -> Rows:
    """Count what there is to sweep, and find when the next thing is due."""
    live, runs = tables.live_replicas(), list(tables.runs.values())
    names, known = set(json.loads(schedules)), tables.known_jobs()
    scheduled = [run for run in runs if run.state == "scheduled"]
    lapsed = sum(replica.lease_until < now for replica in live)
    next_lapse = min((r.lease_until for r in live if r.lease_until >= now), default=0)
    busy = {run.replica for run in runs if run.state == "running"}
    lost = sum(not tables.is_live(replica) for replica in busy)
    alone = min((run.due for run in scheduled if run.deaths), default=0)
    fired = set(json.loads(ticks))
    fires = [
        s.next_fire
        for s in tables.schedules.values()
        if s.fires and (s.job in fired if s.dynamic else s.name in names)
    ]
    due = [run for run in scheduled if run.due <= now]
    fresh, survivors = [r for r in due if not r.deaths], [r for r in due if r.deaths]
    unknown = sum(run.job not in known for run in (*fresh[:HEAD], *survivors[:HEAD]))
    parked_jobs = {run.job for run in runs if run.state == "parked"}
    parked = sum(job in parked_jobs for job in json.loads(jobs))
    asked = set(json.loads(queues))
    next_due = min((r.due for r in scheduled if not r.deaths and r.queue in asked), default=0)
    next_fire = min(fires, default=0)
    late = sum(0 < run.expect_by <= now for run in runs)
    sweep = (len(tables.cancels), len(first_waiting(tables)), late)
    return [(now, lapsed, next_lapse, lost, alone, next_fire, unknown, parked, next_due, *sweep)]


def replica_judge(tables: Tables, now: int) -> Rows:
    """Declare replicas dead whose lease has lapsed."""
    lapsed = [replica for replica in tables.live_replicas() if replica.lease_until < now]
    for replica in lapsed:
        _bury(replica, now)
    return [(replica.id,) for replica in lapsed]


def replica_lost(tables: Tables, now: int, *, limit: int) -> Rows:
    """Find running runs of every replica that is not live."""
    lost = [
        run
        for _, run in sorted(tables.runs.items())
        if run.state == "running" and not tables.is_live(run.replica)
    ]
    return [
        (run.id, run.token, run.replica, run.job, run.key, run.attempt, run.deaths, run.on_loss)
        for run in lost[:limit]
    ]


def replica_forget(tables: Tables, now: int, *, before: int, limit: int) -> Rows:
    """Delete the long dead that no live run names."""
    named = {run.replica for run in tables.runs.values()}
    gone = [
        id
        for id, replica in sorted(tables.replicas.items())
        if 0 < replica.dead_at < before and id not in named
    ][:limit]
    for id in gone:
        del tables.replicas[id]
    return [(id,) for id in gone]


def _bury(replica: Replica, now: int) -> None:
    replica.dead_at = now
    replica.idle = 0
