"""Which fire times become runs, and which were missed and why.

Everything follows from the *stored* last and next fire time and the store's ``now``: a replica that
wakes early, late, twice, or with a wrong clock of its own reaches the same answer. Due means fire
time <= now, never equality, so waking a few seconds late loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, TypeAlias

from onejob.core.adoption import (
    Adoption,
    Create,
    Declaration,
    Leave,
    Replace,
    Same,
    Stored,
    adopt,
)
from onejob.core.cron import Cron, Skipped
from onejob.core.due import Due
from onejob.core.every import Every, Once
from onejob.core.policy import CatchUp, Overlap, Policy
from onejob.core.time import SECOND, Instant, Span
from onejob.core.timing import Timing

__all__ = [
    "MISSED_KEPT",
    "PUNCTUAL",
    "Adoption",
    "Advance",
    "CatchUp",
    "Create",
    "Declaration",
    "Every",
    "Leave",
    "Missed",
    "Overlap",
    "Policy",
    "Reason",
    "Replace",
    "Same",
    "Stored",
    "Timing",
    "adopt",
    "advance",
    "first_fire",
    "pass_over",
    "stable_jitter",
]

PUNCTUAL: Final = Span(60 * SECOND)
"""With catch_up="none", the oldest that a fire time may be and still become a run."""

MISSED_KEPT: Final = 20
"""Missed fire times listed one by one, the newest; all are counted."""


Reason: TypeAlias = Literal["late", "catch_up", "cap", "paused", "gap"]
"""Why it was missed: older than max_lateness, passed over by catch_up, beyond the cap, passed while
paused, or a wall time that the clocks skipped and ``on_gap="skip"`` leaves out."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A fire time that became no run."""

    at: Instant
    reason: Reason


@dataclass(frozen=True, slots=True)
class Advance:
    """One tick's answer. ``fire`` and ``missed`` ascend.

    ``missed`` holds the newest 20, ``missed_count`` counts all; with ``missed_at_least`` the outage
    was too long to count (ten years of a cron expression) and the count is a lower bound. ``last``
    and ``next_fire`` are what to store; without a next fire time the schedule never fires again.
    """

    fire: tuple[Instant, ...]
    missed: tuple[Missed, ...]
    missed_count: int
    last: Instant | None
    next_fire: Instant | None
    missed_at_least: bool = False


def first_fire(timing: Timing, now: Instant) -> Instant | None:
    """Return the first fire time of a new schedule: after now, so a deploy never back-fills.

    One instant that has passed already is still the one that was asked for: it is due at once, and
    the catch-up rule decides.
    """
    return timing.at if isinstance(timing, Once) else timing.after(now)


def advance(
    timing: Timing, policy: Policy, *, last: Instant | None, next_fire: Instant, now: Instant
) -> Advance:
    """Decide what became due by ``now`` (the store's clock) and what becomes of it.

    ``last`` and ``next_fire`` are the stored ones. A stored ``next_fire`` that is not after
    ``last`` has fired already and is passed over, so that no fire time can come twice; one instant
    was put anew then, and its key says whether it has come.
    """
    start = _start(timing, last, next_fire)
    if start is None or start > now:
        return Advance((), (), 0, last, start)
    due = _due_from(start, timing, now, keep=_runs_max(policy) + MISSED_KEPT)
    fire = _chosen(policy, due.newest, now)
    fired = frozenset(fire)
    missed = [Missed(at, _reason(policy, at, now)) for at in due.newest if at not in fired]
    newest = due.newest[-1]
    gaps = _gaps(timing, Instant(start - 1) if last is None else last, newest)
    missed += [Missed(gap.at, "gap") for gap in gaps]
    missed.sort(key=lambda one: one.at)
    return Advance(
        fire=fire,
        missed=tuple(missed[-MISSED_KEPT:]),
        missed_count=due.count - len(fire) + sum(gap.count for gap in gaps),
        last=newest,
        next_fire=timing.after(newest),
        missed_at_least=due.at_least,
    )


def _gaps(timing: Timing, after: Instant, until: Instant) -> list[Skipped]:
    """Return the wall times that the clocks skipped meanwhile and that on_gap leaves out."""
    return timing.skipped(after, until) if isinstance(timing, Cron) else []


def pass_over(timing: Timing, *, last: Instant | None, next_fire: Instant, now: Instant) -> Advance:
    """Decide what became of a schedule that was paused until ``now``: what was due is missed.

    It goes on with the first fire time after now. Nobody is surprised by the runs of a pause.
    """
    start = _start(timing, last, next_fire)
    if start is None or start > now:
        return Advance((), (), 0, last, start)
    due = _due_from(start, timing, now, keep=MISSED_KEPT)
    return Advance(
        fire=(),
        missed=tuple(Missed(at, "paused") for at in due.newest[-MISSED_KEPT:]),
        missed_count=due.count,
        last=due.newest[-1],
        next_fire=timing.after(now),
        missed_at_least=due.at_least,
    )


def _start(timing: Timing, last: Instant | None, next_fire: Instant) -> Instant | None:
    if last is None or next_fire > last or isinstance(timing, Once):
        return next_fire
    return timing.after(last)


def _due_from(start: Instant, timing: Timing, now: Instant, *, keep: int) -> Due:
    # The stored fire time itself counts even if the timing would not name it again.
    rest = timing.due(start, now, keep=keep)
    newest = rest.newest if len(rest.newest) >= keep else (start, *rest.newest)
    return Due(newest, rest.count + 1, rest.at_least)


def _runs_max(policy: Policy) -> int:
    return policy.catch_up_cap if policy.catch_up is CatchUp.ALL else 1


def _chosen(policy: Policy, due: tuple[Instant, ...], now: Instant) -> tuple[Instant, ...]:
    oldest = now - policy.max_lateness if policy.max_lateness is not None else due[0]
    if policy.catch_up is CatchUp.NONE:
        oldest = max(oldest, now - PUNCTUAL)
    return tuple(at for at in due[-_runs_max(policy) :] if at >= oldest)


def _reason(policy: Policy, at: Instant, now: Instant) -> Reason:
    if policy.max_lateness is not None and now - at > policy.max_lateness:
        return "late"
    return "cap" if policy.catch_up is CatchUp.ALL else "catch_up"


def stable_jitter(name: str, window: Span) -> Span:
    """Return this name's own share of ``window``, in [0, window): the same in every process.

    Drawn from the name and not from chance or start-up, so replicas agree on it and a restart does
    not line all schedules up on one second.
    """
    if window <= 0:
        return Span(0)
    return Span(int.from_bytes(sha256(name.encode()).digest()[:16], "big") % window)
