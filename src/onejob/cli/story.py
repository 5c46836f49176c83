"""The story of one run or fire time, told in sentences. No I/O here: values in, sentences out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onejob.cli.text import clean, span, when
from onejob.commands.views import EffectView, EventView, ReplicaView, RunView
from onejob.core.time import Instant, read_instant, text

#: How many effects are named one by one.
EFFECTS_NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that happened, at an instant (0: at no particular one)."""

    at: int
    kind: str
    sentence: str
    token: int = 0
    replica: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    """What ``onejob why`` tells. ``expected`` is the fire time, or when the run was due.

    ``run`` is the run's id, 0 where the fire time became none.
    """

    job: str
    key: str
    expected: int
    events: tuple[Told, ...]
    answer: str
    run: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read about one run. ``replicas`` by id; those long gone are absent."""

    run: RunView
    events: tuple[EventView, ...] = ()
    effects: tuple[EffectView, ...] = ()
    replicas: Mapping[str, ReplicaView] = field(default_factory=dict)
    now: int = 0


def of_run(evidence: Evidence) -> Story:
    """Tell a run from when it was expected to where it stands now."""
    run = evidence.run
    told = [_expected(run)]
    told += [_event(event, evidence) for event in evidence.events]
    told.append(_standing(evidence))
    told += _effects(evidence.effects)
    return Story(run.job, run.key, run.fire_time or run.due, tuple(told), _answer(evidence), run.id)


def of_tick(schedule: str, job: str, at: int, events: tuple[EventView, ...]) -> Story | None:
    """Tell of a fire time that became no run; None where nothing is known of it."""
    for event in reversed(events):
        detail = read_detail(event)
        if event.kind == "tick.skipped" and detail.get("fire_time") == at:
            told = Told(event.at, event.kind, _skipped(event), replica=event.replica)
            return Story(job, f"{schedule}@{text(Instant(at))}", at, (told,), told.sentence)
        if reason := missed_in(event).get(at):
            sentence = f"{when(at)} was missed: {MISSED.get(reason, reason)}."
            told = Told(event.at, event.kind, sentence, replica=event.replica)
            return Story(job, f"{schedule}@{text(Instant(at))}", at, (told,), sentence)
    return None


def of_nothing(schedule: str, job: str, at: int, why: str) -> Story:
    """Tell of a fire time that has passed, and that nobody has ticked."""
    sentence = f"{when(at)} has not fired: {why}."
    key = f"{schedule}@{text(Instant(at))}"
    return Story(job, key, at, (Told(at, "tick.held_up", sentence),), sentence)


def skipped_at(event: EventView) -> int:
    """Return the fire time of a skipped tick, 0 where the event is another."""
    found = read_detail(event).get("fire_time") if event.kind == "tick.skipped" else 0
    return found if isinstance(found, int) else 0


def missed_at(event: EventView) -> int:
    """Return the newest fire time that an event reports as missed, 0 where it reports none."""
    return max(missed_in(event), default=0)


def missed_in(event: EventView) -> dict[int, str]:
    """Return the fire times that an event lists as missed, each with its reason."""
    newest = read_detail(event).get("newest") if event.kind == "tick.missed" else None
    return {_instant(one.get("at")): str(one.get("reason")) for one in newest or ()}


def _expected(run: RunView) -> Told:
    if run.schedule:
        sentence = f"Expected {when(run.fire_time)} by schedule {clean(run.schedule)}."
        return Told(run.fire_time, "run.expected", sentence)
    # Every retry moves the time at which a run is due: after the first it is not what was asked.
    due = "" if run.attempt else f", due {when(run.due)}"
    return Told(0, "run.expected", f"Asked for under key {clean(run.key)}{due}.")


def _event(event: EventView, evidence: Evidence) -> Told:
    detail = read_detail(event)
    attempt = f"Attempt {detail.get('attempt')}{_who(event.replica, event.token, evidence)}"
    error = clean(detail.get("error") or "no reason given")
    match event.kind:
        case "attempt.abandoned":
            sentence = f"{attempt} was abandoned: its replica died or lost its lease."
        case "attempt.interrupted":
            sentence = f"{attempt} was interrupted: its replica was asked to stop."
        case "attempt.parked":
            sentence = "Parked: the replica that took it has no code for this job."
        case "attempt.unknown":
            sentence = f"{attempt} stopped, an effect's outcome being unknown: {error}"
        case kind if kind.startswith("attempt."):
            sentence = f"{attempt} {kind.removeprefix('attempt.')}: {error}"
        case "run.retried":
            sentence = "Somebody asked to retry it: scheduled again under the same id and key."
        case "tick.skipped":
            sentence = _skipped(event)
        case "tick.queued":
            sentence = f"Queued: run {detail.get('by')} was in its way, and it waits behind that."
        case "tick.lost":
            loser = _replica(event.replica, evidence)
            winner = _replica(str(detail.get("by")), evidence)
            sentence = f"{loser} went to fire it and lost: {winner} had made this run already."
        case "run.cancelled":
            reason = _CANCELLED.get(str(detail.get("why")), "somebody asked for it")
            sentence = f"Cancelled while it was {detail.get('state')}: {reason}."
        case "run.late":
            expected = when(int(detail.get("expected") or 0))
            sentence = f"Late: it should have ended {expected}, and was {detail.get('state')}."
        case other:
            sentence = f"{other} {clean(event.detail)}".strip()
    sentence = sentence if sentence.endswith(".") else f"{sentence}."
    return Told(event.at, event.kind, sentence + _then(detail), event.token, event.replica)


def _then(detail: Mapping[str, Any]) -> str:
    """Say what came after an attempt that ended badly."""
    delay = detail.get("delay")
    if detail.get("to") != "scheduled":
        return ""
    return f" Scheduled again after {span(int(delay))}." if delay else " Scheduled again at once."


def _standing(evidence: Evidence) -> Told:
    run = evidence.run
    kind = f"run.{run.outcome or run.state}"
    at = run.ended or evidence.now
    return Told(at, kind, _where_it_stands(evidence), run.token, run.replica)


def _where_it_stands(evidence: Evidence) -> str:
    run, now = evidence.run, evidence.now
    attempt = f"Attempt {run.attempt}{_who(run.replica, run.token, evidence)}"
    match run.state:
        case "ended" if run.started:
            why = f": {clean(run.error)}" if run.error and run.outcome != "succeeded" else ""
            return f"{attempt} {run.outcome}, {span(run.ended - run.started)} after its start{why}."
        case "ended":
            return f"Ended as {run.outcome} before any attempt."
        case "running":
            came = f"; progress {clean(run.progress)}" if run.progress else ""
            return f"{attempt} has been running for {span(now - run.started)}{came}."
        case "scheduled" if run.due <= now:
            return f"Due {when(run.due)}, not claimed yet: every replica is busy, or none is live."
        case "scheduled":
            return f"Waits until {when(run.due)}."
        case "waiting":
            return "Waits until the run in its way has ended."
        case "parked":
            return f"Parked: no live replica knows job {clean(run.job)}. Start a worker that does."
        case _:
            return "Waits until somebody settles what is unknown. See: onejob effects unknown"


def _effects(effects: Sequence[EffectView]) -> list[Told]:
    """Count effects by state, and name those that are not simply done."""
    if not effects:
        return []
    states = Counter(effect.state for effect in effects)
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    told = [Told(0, "effects", f"Effects: {counts}.")]
    again = [effect for effect in effects if effect.attempt > 1]
    if again:
        keys = ", ".join(clean(effect.key) for effect in again[:EFFECTS_NAMED_MAX])
        sentence = f"Called again under the same provider key, its outcome being unknown: {keys}."
        told.append(Told(0, "effects.repeated", sentence))
    for effect in [e for e in effects if e.state != "done"][:EFFECTS_NAMED_MAX]:
        why = f": {clean(effect.error)}" if effect.error else ""
        told.append(
            Told(
                effect.claimed,
                f"effect.{effect.state}",
                f"Effect {clean(effect.key)} is {effect.state}{why}.",
            )
        )
    return told


def _answer(evidence: Evidence) -> str:
    run = evidence.run
    name = clean(run.schedule or run.job)
    # Only a fire time stays what it was; when a run is due moves with every attempt.
    which = f"of {when(run.fire_time)} (run {run.id})" if run.fire_time else _called(run)
    tries = "1 attempt" if run.attempt == 1 else f"{run.attempt} attempts"
    lost = f", {run.deaths} of them lost with a replica" if run.deaths else ""
    if run.state == "ended":
        return f"{name} {which} {run.outcome} after {tries}{lost}."
    return f"{name} {which} is {run.state}, {tries} so far{lost}."


def _called(run: RunView) -> str:
    return f"run {run.id} (key {clean(run.key)})"


def _skipped(event: EventView) -> str:
    at = skipped_at(event)
    return f'{when(at)} was skipped: run {event.run_id} before it had not ended (overlap="skip").'


#: Why a fire time was missed, by the reason that its event gives.
MISSED = {
    "late": "it came up later than max_lateness allows",
    "catch_up": "nobody ticked then, and a newer fire time took its place (catch_up)",
    "cap": "nobody ticked then, and catch_up_cap was reached",
    "gap": 'the clocks skipped it, and its schedule leaves that out (on_gap="skip")',
    "paused": "its schedule was paused then",
    "redefined": "it was due when another definition took the place of its own",
}

_CANCELLED = {
    "overlap": 'a newer fire time had come (overlap="cancel")',
    "asked": "somebody asked for it",
}


def _instant(stored: object) -> int:
    return read_instant(stored, "a missed fire time") if isinstance(stored, str) else 0


def _who(replica: str, token: int, evidence: Evidence) -> str:
    if not replica:
        return ""
    known = evidence.replicas.get(replica)
    place = f" ({clean(known.host)}, pid {known.pid})" if known else ""
    return f" on replica {clean(replica)}{place}, token {token},"


def _replica(id: str, evidence: Evidence) -> str:
    known = evidence.replicas.get(id)
    place = f" ({clean(known.host)}, pid {known.pid})" if known else ""
    return f"Replica {clean(id)}{place}"


def read_detail(event: EventView) -> Mapping[str, Any]:
    """Return what an event says beside its kind."""
    try:
        found = json.loads(event.detail)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
