"""The memory model of ``sql/base/overlap.sql``: runs in the way, and runs that are late."""

from __future__ import annotations

import json

from onejob.stores.memory.tables import Ended, Rows, Run, Tables


def run_cancel(tables: Tables, now: int, *, ids: str, keep: int, why: str) -> Rows:
    """End runs as cancelled, running ones under their own token; nobody has a row locked here."""
    asked = [tables.runs[id] for id in sorted(json.loads(ids)) if id in tables.runs]
    for run in asked:
        token = run.token if run.state == "running" else tables.next_token()
        detail = json.dumps({"state": run.state, "why": tables.cancels.get(run.id, why)})
        tables.tell(
            now,
            "run.cancelled",
            run.job,
            run.key,
            run_id=run.id,
            token=run.token,
            replica=run.replica,
            schedule=run.schedule,
            detail=detail,
        )
        del tables.runs[run.id]
        end = Ended(run, token, now, now + keep, "cancelled", run.error, None)
        tables.history[run.id, token] = end
    for id in json.loads(ids):
        tables.cancels.pop(id, None)
    release_waiting(tables, now)
    return [(run.id, "ended") for run in asked]


def run_cancels(tables: Tables, now: int, *, limit: int) -> Rows:
    """Read which runs somebody has asked to cancel."""
    return [(id,) for id in sorted(tables.cancels)[:limit]]


def run_recalled(tables: Tables, now: int, *, batch: str) -> Rows:
    """Read which attempts were cancelled."""
    ends = [tables.history.get((one["id"], one["token"])) for one in json.loads(batch)]
    return [
        (end.run.id, end.token, end.run.replica)
        for end in sorted((e for e in ends if e), key=lambda e: e.run.id)
        if end.outcome == "cancelled"
    ]


def run_release(tables: Tables, now: int) -> Rows:
    """Schedule what waits behind nothing any more."""
    return [(id,) for id in release_waiting(tables, now)]


def run_late(tables: Tables, now: int, *, limit: int) -> Rows:
    """Tell once of runs that have not ended by when they should."""
    late = [run for _, run in sorted(tables.runs.items()) if 0 < run.expect_by <= now][:limit]
    rows: Rows = []
    for run in late:
        rows.append((run.id, run.job, run.key, run.schedule, run.state, run.expect_by))
        tell_late(tables, now, run, run.state)
        run.expect_by = -run.expect_by
    return rows


def tell_late(tables: Tables, now: int, run: Run, state: str) -> None:
    """Record that a run has not ended by when it should."""
    tables.tell(
        now,
        "run.late",
        run.job,
        run.key,
        run_id=run.id,
        token=run.token,
        replica=run.replica,
        schedule=run.schedule,
        detail=json.dumps({"expected": run.expect_by, "state": state}),
    )


def first_waiting(tables: Tables) -> list[Run]:
    """Return, of each schedule, the first run that waits with nothing in its way."""
    in_the_way = {
        run.schedule
        for run in tables.runs.values()
        if not run.behind and run.state in ("scheduled", "running", "waiting")
    }
    first: dict[str, Run] = {}
    for _, run in sorted(tables.runs.items()):
        if run.state == "waiting" and run.behind and run.schedule not in in_the_way:
            first.setdefault(run.schedule, run)
    return list(first.values())


def release_waiting(tables: Tables, now: int) -> list[int]:
    """Schedule them."""
    free = first_waiting(tables)
    for run in free:
        run.state, run.behind, run.due = "scheduled", 0, max(run.due, now)
    if free:
        tables.hint()
    return [run.id for run in free]
