"""The promises P1 to P7 as pure checkers: a history in, a verdict out.

Each derives what must be true from what the store was asked and answered, never from the store's
own tables, so a store that breaks its guards is found out as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from onejob.core import lease as rules
from onejob.core.time import SECOND, Span
from onejob.prove.history import (
    Applied,
    Begun,
    Calm,
    Claimed,
    Defined,
    Down,
    EffectStood,
    Fact,
    Freed,
    History,
    Judged,
    Landed,
    Made,
    Missed,
    Recorded,
    Reserved,
    ScheduleStood,
    Settled,
    Stepped,
    Stood,
    Ticked,
)
from onejob.prove.verdict import Checker, Verdict, first, judged

Found = Iterator[tuple[str, int]]

#: The newest fire time may still be on its way when a play ends.
TICK_SLACK: Final = 15 * SECOND


def one_run_per_key(history: History) -> Verdict:
    """P1: one run exists for each (kind, job, key) that somebody named."""
    return first("P1", _doubled_keys(history))


def _doubled_keys(history: History) -> Found:
    runs: dict[tuple[str, str, str], int] = {}
    for made in history.of(Made):
        name = (made.kind, made.job, made.key)
        if made.keyed and runs.setdefault(name, made.run) != made.run:
            yield f"runs {runs[name]} and {made.run} are both {name}", made.at


def one_valid_attempt(history: History) -> Verdict:
    """P2: tokens rise, only the present holder's writes are accepted, and a run ends once."""
    return first("P2", _invalid_writes(history))


def _invalid_writes(history: History) -> Found:
    holders: dict[int, tuple[int, str] | None] = {}
    tokens: dict[int, int] = {}
    claims: dict[tuple[str, str], int] = {}
    begun: set[tuple[int, int]] = set()
    ended, dead = set[int](), set[str]()
    for fact in history.facts:
        match fact:
            case Claimed(at, run, token, replica):
                if token <= tokens.get(run, 0):
                    yield f"run {run}: token {token} after {tokens[run]}", at
                if holders.get(run) is not None:
                    yield f"run {run} was handed to {replica} while {holders[run]} held it", at
                if run in ended:
                    yield f"run {run} was claimed after its end", at
                if replica in dead:
                    yield f"run {run} was handed to {replica}, which was declared dead", at
                tokens[run], holders[run] = token, (token, replica)
            case Settled(at, run, token, replica, _, to):
                if holders.get(run) != (token, replica):
                    yield f"run {run}: {replica} settled under {token}, held {holders.get(run)}", at
                holders[run] = None
                if to == "ended":
                    ended.add(run)
            case Applied(at, run, token, replica):
                if holders.get(run) != (token, replica):
                    yield f"run {run}: {replica} wrote under {token}, held {holders.get(run)}", at
            case Begun(at, run, token):
                if (run, token) in begun:
                    yield f"run {run}: the handler was called twice under {token}", at
                begun.add((run, token))
            case Reserved(at, scope, key, run, token, effect_token):
                holder = holders.get(run)
                if holder is None or holder[0] != token:
                    yield f"run {run}: an effect was claimed under {token}, held {holder}", at
                claims[scope, key] = effect_token
            case Recorded(at, scope, key, token):
                if claims.get((scope, key)) != token:
                    yield f"{scope}: an outcome under {token}, claimed {claims[scope, key]}", at
            case Judged(replica=replica):
                dead.add(replica)
            case Freed(_, run):
                ended.discard(run)
            case _:
                pass


def no_lost_run(history: History) -> Verdict:
    """P3: once faults have ceased, whatever was due ends, or says why it waits."""
    return first("P3", _lost_runs(history))


def _lost_runs(history: History) -> Found:
    calm = next(history.of(Calm), None)
    if calm is None:
        return
    stood = {stood.run: stood for stood in history.of(Stood)}
    unsettled = {e.run for e in history.of(EffectStood) if e.state in ("claimed", "unknown")}
    settled = {e.run for e in history.of(EffectStood)} - unsettled
    in_the_way = {
        made.schedule
        for made in history.of(Made)
        if made.run in stood and stood[made.run].state in ("scheduled", "running")
    }
    for made in history.of(Made):
        end = stood.get(made.run)
        if end is None:
            yield f"run {made.run} ({made.job} {made.key}) is nowhere", made.at
            continue
        # Enqueued, or given back, in good time before the end.
        late = max(made.at, calm.at) + calm.bound <= end.at and made.due <= calm.now
        match end.state:
            case "ended":
                pass
            case "parked":
                if end.known and late:
                    yield f"run {made.run} is parked, and {end.job!r} is known", end.at
            case "unknown":
                if end.run in settled and made.on_loss != "unknown":
                    yield f"run {made.run} waits for an outcome that is recorded", end.at
            case "waiting":
                if late and made.schedule not in in_the_way:
                    yield f"run {made.run} of {made.schedule} waits behind nothing", end.at
            case _:
                if late:
                    why = f"{end.state} {calm.bound / SECOND:.0f} s after the last fault"
                    yield f"run {made.run} ({made.job} {made.key}) is still {why}", end.at


def effects_once(history: History) -> Verdict:
    """P4: a write under a fence is there once, however many attempts its run had."""
    return first("P4", _doubled_writes(history))


def _doubled_writes(history: History) -> Found:
    applied: dict[str, int] = {}
    for fact in history.of(Applied):
        if fact.key in applied:
            yield f"{fact.key} was written by runs {applied[fact.key]} and {fact.run}", fact.at
        applied[fact.key] = fact.run


def never_guessed(history: History) -> Verdict:
    """P5: nothing happens twice outside, and what may have happened is in the ledger, open."""
    return first("P5", _guessed(history))


def _guessed(history: History) -> Found:
    harmful: dict[tuple[str, str], int] = {}
    stood = {(e.scope, e.key): e for e in history.of(EffectStood)}
    for landed in history.of(Landed):
        name = (landed.scope, landed.key)
        if not landed.harmless and name in harmful:
            yield f"{name} happened twice outside", landed.at
        harmful.setdefault(name, landed.at)
        if name not in stood:
            yield f"{name} happened outside, and the ledger does not know it", landed.at
    for recorded in history.of(Recorded):
        name = (recorded.scope, recorded.key)
        if recorded.state == "done" and harmful.get(name, recorded.at + 1) > recorded.at:
            yield f"{name} was recorded as done before it happened", recorded.at


def holder_knows(history: History) -> Verdict:
    """P6: nobody is let in while the holder still believes in its lease.

    Except after the store's clock has been set forward by more than the margin, within a lease.
    """
    return first("P6", _believers(history))


def _believers(history: History) -> Found:
    stepped: list[Stepped] = []
    lease = max((judged.lease for judged in history.of(Judged)), default=0)
    for fact in history.facts:
        match fact:
            case Stepped():
                stepped.append(fact)
            case Judged(at, replica, by, own_lease, True) if not _excused(stepped, at, own_lease):
                yield f"{by} judged {replica}, which still believed in its lease", at
            case Settled(at, run, _, replica, by, _, outcome, True) if (
                outcome == "abandoned" and not _excused(stepped, at, lease)
            ):
                yield f"{by} took run {run} back from {replica}, which still believed", at
            case _:
                pass


def _excused(stepped: list[Stepped], at: int, lease: int) -> bool:
    # Drift and forward steps draw on the same margin; half of it is left to the drift.
    recent = sum(step.by for step in stepped if step.by > 0 and step.at >= at - lease)
    return recent > rules.margin(Span(lease)) // 2


def outage_kills_nobody(history: History) -> Verdict:
    """P3: replicas that could not renew because the store was away get a lease to do so."""
    return first("an outage kills nobody", _killed(history))


def _killed(history: History) -> Found:
    outage = Down(0, 0)
    for fact in history.facts:
        match fact:
            case Down():
                outage = fact
            case Judged(at, replica, by, lease) if (
                outage.span > lease and at - outage.at < lease - rules.margin(Span(lease))
            ):
                after = (at - outage.at) / SECOND
                yield f"{by} judged {replica} {after:.3f} s after the store was back", at
            case _:
                pass


def nothing_silent(history: History) -> Verdict:
    """P7: each fire time fired, queued, was skipped, known or told as missed: exactly one."""
    return first("P7", _unaccounted(history))


def _unaccounted(history: History) -> Found:
    names = {defined.schedule for defined in history.of(Defined)}
    for name in sorted(names):
        mine = [f for f in history.facts if getattr(f, "schedule", None) == name]
        end = next((f for f in mine if isinstance(f, ScheduleStood)), None)
        starts = [at for at, fact in enumerate(mine) if isinstance(fact, Defined)]
        newest = -1
        for start, stop in zip(starts, [*starts[1:], None], strict=True):
            answered = mine[start:stop]
            yield from _segment(answered, newest, end if stop is None else None)
            newest = max([newest, *_fire_times(answered)])
        told = sum(1 for fact in mine if isinstance(fact, Missed))
        if end is not None and end.told_missed != told:
            yield f"{name}: {told} ticks missed something and {end.told_missed} said so", end.at


def _segment(facts: list[Fact], newest: int, end: ScheduleStood | None) -> Found:
    """Account for the fire times of one definition while it stood.

    What an earlier one has answered, up to ``newest``, does not come again, even where the store's
    clock was set back. What was overdue when a definition was replaced is not judged here.
    """
    defined = facts[0]
    assert isinstance(defined, Defined)
    name, seen, unlisted = defined.schedule, set[int](), 0
    for fact in facts:
        match fact:
            case Ticked(at, _, fire_time):
                if fire_time in seen:
                    yield f"{name}: {fire_time} was answered twice", at
                seen.add(fire_time)
            case Missed(at, _, count, listed):
                for fire_time in listed:
                    if fire_time in seen:
                        yield f"{name}: {fire_time} was answered and is missed", at
                    seen.add(fire_time)
                unlisted += count - len(listed)
            case _:
                pass
    if seen:
        passed = max(0, (newest - defined.first) // defined.interval + 1)
        due = (max(seen) - defined.first) // defined.interval + 1 - passed
        if due != len(seen) + unlisted:
            why = f"{name}: of {due} fire times {len(seen) + unlisted} are accounted for"
            yield why, facts[-1].at
    if end is not None and end.owed and end.next_fire < end.now - TICK_SLACK:
        yield f"{name}: {end.next_fire} is due since {(end.now - end.next_fire) / SECOND} s", end.at


def _fire_times(facts: list[Fact]) -> Iterator[int]:
    for fact in facts:
        match fact:
            case Ticked(fire_time=fire_time):
                yield fire_time
            case Missed(listed=listed):
                yield from listed
            case _:
                pass


PROMISES: Final[tuple[tuple[str, Checker], ...]] = (
    ("P1", one_run_per_key),
    ("P2", one_valid_attempt),
    ("P3", no_lost_run),
    ("P4", effects_once),
    ("P5", never_guessed),
    ("P6", holder_knows),
    ("P7", nothing_silent),
    ("an outage kills nobody", outage_kills_nobody),
)


def check(history: History) -> tuple[Verdict, ...]:
    """Ask every checker."""
    return judged(PROMISES, history)
