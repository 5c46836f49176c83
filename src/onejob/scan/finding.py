"""What a scan reports: one finding for each place, in the words of the verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from onejob.scan.schedules import explained

Role = Literal["trigger", "launch", "ci", "consumer", "retry", "smell"]
Confidence = Literal["high", "medium", "low"]


class Verdict(StrEnum):
    """Does it run once per fleet? Worst first: this is also the order of a report."""

    UNGUARDED = "UNGUARDED"
    """Nothing stops N replicas from running it N times."""
    PER_PROCESS_SCHEDULE = "PER-PROCESS-SCHEDULE"
    """The schedule itself comes from clock or chance at load, so that replicas differ."""
    INERT_GUARD = "INERT-GUARD"
    """A guard is written where it has no effect."""
    AT_LEAST_ONCE = "AT-LEAST-ONCE"
    """A platform fires it, and may do so twice for one fire time."""
    WEAK_GUARD = "WEAK-GUARD"
    """A shared guard with a known hole."""
    OVERLAP_ON_DEPLOY = "OVERLAP-ON-DEPLOY"
    """One replica, and two of them during each rollout."""
    HOST_ONLY = "HOST-ONLY"
    """A guard that ends at the machine: several hosts multiply."""
    NO_OVERLAP = "NO-OVERLAP"
    """Never two at once; one fire time may still run twice, one after the other."""
    MULTIPLIER = "MULTIPLIER"
    """A launch that starts several of what fires, or may."""
    SMELL = "SMELL"
    """Code that looks like a guard, or like a key, and is none."""
    CONSUMER = "CONSUMER"
    """A loop that takes work from a queue: no schedule, and it may be handed work again."""
    CI = "CI"
    """A schedule of a build service."""
    PER_PROCESS_OK = "PER-PROCESS-OK"
    """Meant to run in each process."""
    SINGLE = "SINGLE"
    """One process by the way it is started."""
    GUARDED = "GUARDED"
    """A shared store decides, for each fire time or by a conditional write."""
    DORMANT = "DORMANT"
    """Present, and nothing registers it."""
    DISABLED = "DISABLED"
    """Switched off where it is declared."""
    NEVER = "NEVER"
    """Its schedule names no instant."""

    @property
    def rank(self) -> int:
        """Return its place in a report, 0 for the worst."""
        return _RANKS[self]


_RANKS = {verdict: rank for rank, verdict in enumerate(Verdict)}

#: What a summary counts as unguarded: in each of these, N replicas run it N times.
UNGUARDED = frozenset({Verdict.UNGUARDED, Verdict.PER_PROCESS_SCHEDULE, Verdict.INERT_GUARD})


@dataclass(frozen=True, slots=True, order=True)
class Related:
    """A second place that a finding rests on, and what stands there."""

    path: str
    line: int
    what: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One place, what is known about it, and what to do."""

    path: str
    line: int
    role: Role
    kind: str
    language: str
    name: str
    schedule: str
    guard: str | None
    verdict: Verdict
    runs_per_tick: str
    rule: str
    reason: str
    advice: str
    confidence: Confidence = "high"
    related: tuple[Related, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as ``onejob scan --format json`` prints it."""
        return {
            "path": self.path,
            "line": self.line,
            "role": self.role,
            "kind": self.kind,
            "language": self.language,
            "name": self.name,
            "schedule": self.schedule,
            "explained": explained(self.schedule),
            "guard": self.guard,
            "verdict": str(self.verdict),
            "runs_per_tick": self.runs_per_tick,
            "rule": self.rule,
            "reason": self.reason,
            "advice": self.advice,
            "confidence": self.confidence,
            "related": [
                {"path": each.path, "line": each.line, "what": each.what} for each in self.related
            ],
        }
