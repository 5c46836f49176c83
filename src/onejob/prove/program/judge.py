"""Whether a play held: each effect of the fault-free run exactly once. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a play, or all of them, stand. Never "proved"."""

    HELD = "held"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Found:
    """What a play left behind, beside what the fault-free run leaves."""

    doubled: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    strange: tuple[str, ...] = ()
    """Effects that the fault-free run does not have."""
    finished: bool = True
    """Whether a copy ended well, at last."""

    @property
    def verdict(self) -> Verdict:
        """A lost effect that the program itself calls unfinished is unknown, and flagged."""
        if self.doubled or self.strange or (self.lost and self.finished):
            return Verdict.VIOLATED
        return Verdict.UNKNOWN if self.lost else Verdict.HELD


def judge(expected: Counter[str], seen: Counter[str], *, finished: bool) -> Found:
    """Compare the effects that were seen with those of the fault-free run, each once."""
    return Found(
        doubled=tuple(key for key in sorted(expected) if seen[key] > expected[key]),
        lost=tuple(key for key in sorted(expected) if seen[key] < expected[key]),
        strange=tuple(key for key in sorted(seen) if key not in expected),
        finished=finished,
    )


def overall(founds: list[Found]) -> Verdict:
    """Return how all plays stand together: the worst of them."""
    verdicts = {found.verdict for found in founds}
    for worst in (Verdict.VIOLATED, Verdict.UNKNOWN):
        if worst in verdicts:
            return worst
    return Verdict.HELD
