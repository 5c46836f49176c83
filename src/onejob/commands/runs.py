"""The life of a run: enqueue, claim, settle, fence.

Every command that touches a running run carries its claim (id, token, replica) and is refused
when one of the three no longer matches. Commands that write many runs skip rows that somebody has
locked (a fenced transaction is open); the caller asks :func:`standings` which is which and tries
those again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from onejob.commands.command import Command, Parameters, Row, as_json, count, found
from onejob.core.retry import OnLoss
from onejob.core.run import (
    Again,
    Claim,
    ClaimedRun,
    End,
    Kind,
    LeaveUnknown,
    Outcome,
    Park,
    ReplicaId,
    RunId,
    Settlement,
    Standing,
    State,
    Token,
)
from onejob.core.watermark import Probe


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be made.

    ``keyed`` says that the caller named it: then (kind, job, key) is unique in the ledger, else
    the key is fresh and random, no ledger row is written and ``fingerprint`` is not kept. ``at`` is
    an instant, or None for now; ``delay`` is added to either. ``on_loss`` is what happens when its
    replica dies. It should have ended ``expect`` microseconds after it was wanted (0: nobody said).
    """

    job: str
    key: str
    args: str
    keyed: bool = False
    kind: Kind = Kind.RUN
    queue: str = "default"
    priority: int = 0
    at: int | None = None
    delay: int = 0
    on_loss: OnLoss = "retry"
    fingerprint: str = ""
    expect: int = 0


@dataclass(frozen=True, slots=True)
class Made:
    """A run that this command created. ``place`` is its position in the batch, from 0."""

    place: int
    id: RunId


@dataclass(frozen=True, slots=True)
class Known:
    """The run that holds a key already, and the fingerprint of its arguments."""

    id: RunId
    fingerprint: str


def enqueue(runs: Sequence[NewRun], *, now: int | None = None) -> Command[tuple[Made, ...]]:
    """Make runs. A run whose key is known is not made and has no row in the answer.

    Never updates what is there: that would hold the row until the caller's commit. One run travels
    by itself: unpacking a batch of one takes the server longer than inserting it.
    """
    if len(runs) == 1:
        return _enqueue_one(runs[0], now)
    batch = [
        {
            "place": place,
            "keyed": int(run.keyed),
            "fingerprint": run.fingerprint,
            **_columns(run),
        }
        for place, run in enumerate(runs)
    ]
    return Command("run_enqueue", {"batch": as_json(batch), "now": now}, _made)


def enqueue_alike(
    like: NewRun, batch: str, *, stem: str, now: int | None = None
) -> Command[tuple[Made, ...]]:
    """Make runs that differ from ``like``, which has no key of the caller's, in arguments alone.

    ``batch`` is a JSON list of arguments, each as canonical JSON. Their keys are a fresh and random
    ``stem`` and their place: :func:`alike_key`.
    """
    columns = _columns(like)
    del columns["key"], columns["args"]
    return Command(
        "run_enqueue_alike", {**columns, "stem": stem, "batch": batch, "now": now}, _made_in_order
    )


def alike_key(stem: str, place: int) -> str:
    """Return the key of the run at this place of a batch of runs that are alike."""
    return f"{stem}{place:08x}"


def _enqueue_one(run: NewRun, now: int | None) -> Command[tuple[Made, ...]]:
    columns = _columns(run)
    columns["now"] = now
    if not run.keyed:
        return Command("run_enqueue_one", columns, _made)
    columns["fingerprint"] = run.fingerprint
    return Command("run_enqueue_keyed", columns, _made)


def _columns(run: NewRun) -> Parameters:
    return {
        "job": run.job,
        "key": run.key,
        "args": run.args,
        "kind": run.kind.value,
        "queue": run.queue,
        "priority": run.priority,
        "at": run.at,
        "delay": run.delay,
        "on_loss": run.on_loss,
        "expect": run.expect,
    }


def by_key(kind: Kind, job: str, key: str) -> Command[Known | None]:
    """Read which run holds a key. None where nobody (or nobody yet visible) holds it."""
    parameters: Parameters = {"kind": kind.value, "job": job, "key": key}
    return Command("run_by_key", parameters, _known, writes=False, repeatable=True)


def claim(
    probes: Sequence[Probe],
    *,
    jobs: Sequence[str],
    replica: ReplicaId,
    limit: int,
    now: int | None = None,
) -> Command[tuple[ClaimedRun, ...]]:
    """Take up to ``limit`` due runs of ``jobs``, probe by probe, each from its mark.

    Skips rows that others hold, draws a fresh token for each row as it changes hands, and takes
    nothing for a replica that has been declared dead. Not repeatable: after a lost reply ask
    :func:`held` what is ours. Runs that outlived a replica's death are left to :func:`claim_alone`.
    """
    parameters: Parameters = {
        "probes": as_json(
            [
                {
                    "queue": probe.queue,
                    "priority": probe.priority,
                    "due": probe.due,
                    "id": probe.id,
                }
                for probe in probes
            ]
        ),
        "jobs": as_json(list(jobs)),
        "replica": replica,
        "limit": limit,
        "now": now,
    }
    return Command("run_claim", parameters, _claimed)


def claim_alone(
    queues: Sequence[str], *, jobs: Sequence[str], replica: ReplicaId, now: int | None = None
) -> Command[tuple[ClaimedRun, ...]]:
    """Take the first due run that has outlived a replica's death: one, and nothing beside it.

    It may be what killed that replica, and must not take a batch of neighbours down with it.
    """
    parameters: Parameters = {
        "queues": as_json(list(queues)),
        "jobs": as_json(list(jobs)),
        "replica": replica,
        "now": now,
    }
    return Command("run_claim_alone", parameters, _claimed)


def held(replica: ReplicaId) -> Command[tuple[ClaimedRun, ...]]:
    """Read what runs under this id: after a claim whose reply was lost, and now and then."""
    return Command("run_held", {"replica": replica}, _claimed, writes=False, repeatable=True)


def settle(
    settlements: Iterable[tuple[Claim, Settlement]], *, keep: int, now: int | None = None
) -> Command[tuple[Claim, ...]]:
    """End, give back, park or leave unknown many running runs; answer with the claims that held.

    ``keep`` is how long (microseconds, from now) history and keys of ended runs are kept. A claim
    that is not in the answer was stale, or its row was locked: :func:`standings` tells.
    """
    batch = [
        {"id": claim.id, "token": claim.token, "replica": claim.replica, **_movement(settlement)}
        for claim, settlement in sorted(settlements, key=lambda pair: pair[0].id)
    ]
    return Command("run_settle", {"batch": as_json(batch), "keep": keep, "now": now}, _claims)


def standings(ids: Iterable[RunId]) -> Command[dict[RunId, Standing]]:
    """Read how runs stand, ended ones included; ids that nobody knows are absent."""
    parameters: Parameters = {"ids": as_json(sorted(ids))}
    return Command("run_standings", parameters, _standings, writes=False, repeatable=True)


def fence(claim: Claim, *, idle_limit: int, now: int | None = None) -> Command[bool]:
    """Lock the run to the end of the caller's transaction if this claim still holds it.

    A read alone would not do: a takeover could commit beside it. ``idle_limit`` (microseconds)
    bounds how long the store lets that transaction sit idle, so that a frozen holder cannot keep
    the run from the others. False means superseded: roll back.
    """
    parameters: Parameters = {**claim._asdict(), "idle_limit": idle_limit, "now": now}
    return Command("run_fence", parameters, found)


def free(claim: Claim) -> Command[bool]:
    """Tell whether this claim holds its run and no open transaction has the run locked."""
    return Command("run_free", claim._asdict(), found, writes=False, repeatable=True)


def progress(claim: Claim, note: str) -> Command[bool]:
    """Record how far an attempt has come. False: superseded (or locked by its own transaction)."""
    return Command("run_progress", {**claim._asdict(), "note": note}, found, repeatable=True)


def cancel(id: RunId, *, keep: int, now: int | None = None) -> Command[bool]:
    """End a run as cancelled, a running one under its own token: its holder's writes are refused.

    Where somebody has its row locked (its fenced transaction is open), the request is kept and a
    sweeper carries it out. False: no such run is live.
    """
    parameters: Parameters = {"ids": as_json([id]), "keep": keep, "why": "asked", "now": now}
    return Command("run_cancel", parameters, found, repeatable=True)


def retry(id: RunId, *, now: int | None = None) -> Command[bool]:
    """Bring an ended, parked or unknown run back to scheduled under its old id, key and history.

    Refused where the run is live already, where this is not its latest end, or where its key has
    meanwhile gone to another run.
    """
    return Command("run_retry", {"id": id, "now": now}, found)


def discard(id: RunId) -> Command[bool]:
    """Let the time of an ended run be over: the next :func:`purge` forgets it, and its key.

    False: it lives, or nobody knows it.
    """
    return Command("run_discard", {"id": id}, found, repeatable=True)


def wake(claim: Claim, *, now: int | None = None) -> Command[bool]:
    """Schedule a run that this claim left unknown, because the effect's outcome is known after all.

    False: it is not unknown any more, or another attempt has left it so since.
    """
    parameters: Parameters = {"id": claim.id, "token": claim.token, "now": now}
    return Command("run_wake", parameters, found, repeatable=True)


def park_unknown(*, now: int | None = None, limit: int = 1_000) -> Command[int]:
    """Park due runs of jobs that no live replica knows, so that claims need not walk past them."""
    return Command("run_park", {"limit": limit, "now": now}, count, repeatable=True)


def unpark(jobs: Sequence[str], *, now: int | None = None) -> Command[int]:
    """Bring parked runs of these jobs back to scheduled; no attempt was spent."""
    return Command("run_unpark", {"jobs": as_json(list(jobs)), "now": now}, count, repeatable=True)


def purge(*, limit: int, now: int | None = None) -> Command[int]:
    """Forget ended runs past their keep-until time, with their keys; live runs keep theirs."""
    return Command("run_purge", {"limit": limit, "now": now}, count, repeatable=True)


def _movement(settlement: Settlement) -> Mapping[str, object]:
    """Return a settlement as the columns that a store needs; absent means unchanged."""
    match settlement:
        case End(Outcome.SUCCEEDED, None, None):
            return _PLAIN
        case End(outcome, error, result):
            return {
                "to": "ended",
                "outcome": outcome.value,
                "error": error,
                "result": result,
                "deaths": int(outcome is Outcome.ABANDONED),
            }
        case Again(delay, why, error):
            return {
                "to": "scheduled",
                "delay": delay,
                "outcome": why.value,
                "error": error,
                "refund": int(why is Outcome.INTERRUPTED),
                "deaths": int(why is Outcome.ABANDONED),
                "interrupted": int(why is Outcome.INTERRUPTED),
            }
        case Park():
            return {"to": "parked", "outcome": "parked", "refund": 1}
        case LeaveUnknown(reason, _, _, lost):
            return {"to": "unknown", "outcome": "unknown", "error": reason, "deaths": int(lost)}


#: What nearly every run comes to.
_PLAIN: Mapping[str, object] = {"to": "ended", "outcome": "succeeded"}


def _made(rows: Sequence[Row]) -> tuple[Made, ...]:
    return tuple([Made(place, id) for place, id in rows])


def _made_in_order(rows: Sequence[Row]) -> tuple[Made, ...]:
    return tuple([Made(place, id) for place, id in enumerate(sorted([id for _, id in rows]))])


def _known(rows: Sequence[Row]) -> Known | None:
    return Known(RunId(rows[0][0]), rows[0][1]) if rows else None


def _claimed(rows: Sequence[Row]) -> tuple[ClaimedRun, ...]:
    return tuple(sorted(map(ClaimedRun._make, rows), key=_in_turn))


#: In the order of priority, due time and id.
_in_turn = attrgetter("priority", "due", "id")


def _claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    return tuple(map(Claim._make, rows))


def _standings(rows: Sequence[Row]) -> dict[RunId, Standing]:
    # A retried run has history under earlier tokens; its live row, or else its latest end, counts.
    standings: dict[RunId, Standing] = {}
    for id, token, replica, state in rows:
        known = standings.get(id)
        live = State(state) is not State.ENDED
        if known is None or live or (known.state is State.ENDED and token >= known.token):
            standings[id] = Standing(RunId(id), Token(token), ReplicaId(replica), State(state))
    return standings
