"""The memory model of ``sql/base/enqueue.sql`` and ``sql/base/runs.sql``."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from onejob.core.codec_plain import canonical_json as _text
from onejob.stores.memory.overlap import release_waiting, tell_late
from onejob.stores.memory.tables import Ended, Entry, Rows, Run, Tables


def run_enqueue(tables: Tables, now: int, *, batch: str) -> Rows:
    """Make runs; whoever inserted a key first has it."""
    made: Rows = []
    for new in json.loads(batch):
        id = tables.next_run_id()
        name = (new["kind"], new["job"], new["key"])
        if new["keyed"]:
            if name in tables.ledger:
                continue
            tables.ledger[name] = Entry(
                *name, "claimed", "", now, run_id=id, fingerprint=new["fingerprint"]
            )
        wanted = (now if new["at"] is None else new["at"]) + new["delay"]
        tables.runs[id] = Run(
            id=id,
            job=new["job"],
            key=new["key"],
            kind=new["kind"],
            keyed=new["keyed"],
            queue=new["queue"],
            priority=new["priority"],
            due=max(wanted, now),
            wanted=wanted,
            created=now,
            on_loss=new["on_loss"],
            args=new["args"],
            expect_by=wanted + new["expect"] if new["expect"] else 0,
        )
        made.append((new["place"], id))
    if made:
        tables.hint()
    return made


def run_enqueue_one(tables: Tables, now: int, **columns: Any) -> Rows:
    """Make one run without a key of the caller's."""
    return run_enqueue(tables, now, batch=json.dumps([{"place": 0, "keyed": 0, **columns}]))


def run_enqueue_keyed(tables: Tables, now: int, **columns: Any) -> Rows:
    """Make one run that the caller named."""
    return run_enqueue(tables, now, batch=json.dumps([{"place": 0, "keyed": 1, **columns}]))


def run_enqueue_alike(tables: Tables, now: int, *, batch: str, stem: str, **columns: Any) -> Rows:
    """Make runs of one job that differ in their arguments alone."""
    given = [
        {"place": place, "keyed": 0, **columns, "key": f"{stem}{place:08x}", "args": _text(args)}
        for place, args in enumerate(json.loads(batch))
    ]
    return run_enqueue(tables, now, batch=json.dumps(given))


def run_by_key(tables: Tables, now: int, *, kind: str, job: str, key: str) -> Rows:
    """Read which run holds a key."""
    entry = tables.ledger.get((kind, job, key))
    return [(entry.run_id, entry.fingerprint)] if entry else []


def run_claim(
    tables: Tables, now: int, *, probes: str, jobs: str, replica: str, limit: int
) -> Rows:
    """Hand over due runs that lie behind their probe's mark, probe by probe, in order."""
    wanted = set(json.loads(jobs))
    rows: Rows = []
    for probe in json.loads(probes):
        mark = (probe["due"], probe["id"])
        for run in sorted(tables.runs.values(), key=_place):
            if (
                len(rows) < limit
                and tables.is_live(replica)
                and _claimable(run, wanted, now)
                and run.deaths == 0
                and (run.queue, run.priority) == (probe["queue"], probe["priority"])
                and _place(run) > mark
            ):
                rows.append(_hand_over(tables, run, replica, now))
    return rows


def run_claim_alone(tables: Tables, now: int, *, queues: str, jobs: str, replica: str) -> Rows:
    """Hand over the first due run that has outlived a replica, and only that one."""
    known, wanted = set(json.loads(queues)), set(json.loads(jobs))
    for run in sorted(tables.runs.values(), key=_place):
        if run.deaths and run.queue in known and _claimable(run, wanted, now):
            return [_hand_over(tables, run, replica, now)] if tables.is_live(replica) else []
    return []


def run_held(tables: Tables, now: int, *, replica: str) -> Rows:
    """Read what runs under a replica's id."""
    return [
        _as_claimed(run)
        for run in tables.runs.values()
        if run.replica == replica and run.state == "running"
    ]


def run_settle(tables: Tables, now: int, *, batch: str, keep: int) -> Rows:
    """Move exactly the runs that their claims still hold."""
    held = []
    for given in json.loads(batch):
        run = tables.held(given["id"], given["token"], given["replica"])
        if run is not None:
            held.append((run.id, run.token, run.replica))
            _settle(tables, now, run, given, keep)
    release_waiting(tables, now)
    return [*held]


def _settle(tables: Tables, now: int, run: Run, given: dict[str, Any], keep: int) -> None:
    to, outcome, error = given["to"], given["outcome"], given.get("error")
    if outcome != "succeeded":
        detail = {"attempt": run.attempt, "error": error, "to": to, "delay": given.get("delay")}
        tables.tell(
            now,
            f"attempt.{outcome}",
            run.job,
            run.key,
            run_id=run.id,
            token=run.token,
            replica=run.replica,
            schedule=run.schedule,
            detail=json.dumps(detail),
        )
    if to == "ended" and 0 < run.expect_by < now:
        tell_late(tables, now, run, to)
    run.attempt -= given.get("refund", 0)
    run.deaths += given.get("deaths", 0)
    run.interrupted += given.get("interrupted", 0)
    if to == "ended":
        _end(tables, now, run, run.token, outcome, error, given.get("result"), keep)
        return
    run.state = to
    run.due = max(run.due, now + given.get("delay", 0))
    run.replica = ""
    run.error = run.error if error is None else error


def run_standings(tables: Tables, now: int, *, ids: str) -> Rows:
    """Read how runs stand, each end of a run included."""
    asked = set(json.loads(ids))
    live = [(r.id, r.token, r.replica, r.state) for r in tables.runs.values() if r.id in asked]
    ended = [
        (end.run.id, end.token, end.run.replica, "ended")
        for end in tables.history.values()
        if end.run.id in asked
    ]
    return [*live, *ended]


def run_fence(
    tables: Tables, now: int, *, id: int, token: int, replica: str, idle_limit: int
) -> Rows:
    """Tell whether the claim holds. There is no transaction here for a lock to last in."""
    return [(id,)] if tables.held(id, token, replica) else []


def run_free(tables: Tables, now: int, *, id: int, token: int, replica: str) -> Rows:
    """Tell whether the claim holds; there are no transactions here that could lock the run."""
    return [(id,)] if tables.held(id, token, replica) else []


def run_progress(tables: Tables, now: int, *, id: int, token: int, replica: str, note: str) -> Rows:
    """Record how far an attempt has come."""
    run = tables.held(id, token, replica)
    if run is None:
        return []
    run.progress = note
    return [(id,)]


def run_wake(tables: Tables, now: int, *, id: int, token: int) -> Rows:
    """Schedule the run that this very attempt left unknown."""
    run = tables.runs.get(id)
    if run is None or run.state != "unknown" or run.token != token:
        return []
    run.state, run.due = "scheduled", max(run.due, now)
    return [(id,)]


def run_retry(tables: Tables, now: int, *, id: int) -> Rows:
    """Bring back a parked or unknown run, or the latest end of one whose key is still its own."""
    run = tables.runs.get(id)
    if run is not None:
        if run.state not in ("parked", "unknown"):
            return []
        run.due, run.deaths = max(run.due, now), 0
    else:
        latest = max(tables.ends_of(id), key=lambda end: end.token, default=None)
        if latest is None or not _owns_its_key(tables, latest.run):
            return []
        run = tables.runs[id] = replace(
            latest.run,
            token=latest.token,
            error=latest.error,
            due=now,
            deaths=0,
            interrupted=0,
            replica="",
            started=0,
            behind=0,
            expect_by=0,
        )
    run.state = "scheduled"
    tables.tell(
        now, "run.retried", run.job, run.key, run_id=id, token=run.token, schedule=run.schedule
    )
    return [(id,)]


def run_park(tables: Tables, now: int, *, limit: int) -> Rows:
    """Park runs near the head whose job no live replica knows."""
    due = [r for r in tables.runs.values() if r.state == "scheduled" and r.due <= now]
    fresh = sorted(
        (r for r in due if not r.deaths), key=lambda r: (r.queue, r.priority, *_place(r))
    )
    alone = sorted((r for r in due if r.deaths), key=lambda r: (r.queue, *_place(r)))
    known = tables.known_jobs()
    parked = [r for r in (*fresh[:limit], *alone[:limit]) if r.job not in known]
    for run in parked:
        run.state = "parked"
    release_waiting(tables, now)
    return [(run.id,) for run in parked]


def run_unpark(tables: Tables, now: int, *, jobs: str) -> Rows:
    """Bring back parked runs of these jobs."""
    wanted = set(json.loads(jobs))
    back = [r for r in tables.runs.values() if r.state == "parked" and r.job in wanted]
    for run in back:
        run.state, run.due = "scheduled", max(run.due, now)
    return [(run.id,) for run in back]


def run_discard(tables: Tables, now: int, *, id: int) -> Rows:
    """Let the time of every end of a run be over, while it does not live."""
    ends = [] if id in tables.runs else tables.ends_of(id)
    for end in ends:
        end.keep_until = 0
    return [(id,) for _ in ends]


def run_purge(tables: Tables, now: int, *, limit: int) -> Rows:
    """Forget ends past their time; a key goes with the last end, never while its run lives."""
    old = [end for _, end in sorted(tables.history.items()) if end.keep_until < now][:limit]
    for end in old:
        kept = any(other.keep_until >= now for other in tables.ends_of(end.run.id))
        if end.run.id not in tables.runs and not kept:
            _forget(tables, end.run)
    for end in old:
        del tables.history[end.run.id, end.token]
    return [(end.run.id,) for end in old]


def _forget(tables: Tables, run: Run) -> None:
    """Drop the events of a run and the key that is still its own."""
    tables.events = [event for event in tables.events if event.run_id != run.id]
    name = (run.kind, run.job, run.key)
    if run.keyed and name in tables.ledger and tables.ledger[name].run_id == run.id:
        del tables.ledger[name]


def _place(run: Run) -> tuple[int, int]:
    return run.due, run.id


def _claimable(run: Run, jobs: set[str], now: int) -> bool:
    return run.state == "scheduled" and run.due <= now and run.job in jobs


def _hand_over(tables: Tables, run: Run, replica: str, now: int) -> tuple[object, ...]:
    run.state, run.replica, run.started = "running", replica, now
    run.attempt += 1
    run.token = tables.next_token()
    return _as_claimed(run)


def _as_claimed(run: Run) -> tuple[object, ...]:
    return (
        run.id,
        run.token,
        run.replica,
        run.job,
        run.key,
        run.kind,
        run.queue,
        run.priority,
        run.due,
        run.wanted,
        run.attempt,
        run.deaths,
        run.interrupted,
        run.args,
        run.schedule,
        run.fire_time,
        run.started,
    )


def _end(
    tables: Tables,
    now: int,
    run: Run,
    token: int,
    outcome: str,
    error: str | None,
    result: str | None,
    keep: int,
) -> None:
    del tables.runs[run.id]
    tables.history[run.id, token] = Ended(run, token, now, now + keep, outcome, error, result)


def _owns_its_key(tables: Tables, run: Run) -> bool:
    """Tell whether a run's key is still its own (an unkeyed run's always is)."""
    entry = tables.ledger.get((run.kind, run.job, run.key))
    return not run.keyed or (entry is not None and entry.run_id == run.id)
