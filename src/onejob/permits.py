"""What a guard answers about a tick, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import TypeAlias

from onejob.commands.claims import LedgerClaim
from onejob.core.guarding import Tick
from onejob.core.time import Span


@dataclass(frozen=True, slots=True)
class Permit:
    """This process may fire the tick. Without a claim: the store is down, and its user said so."""

    tick: Tick
    claim: LedgerClaim | None


@dataclass(frozen=True, slots=True)
class Later:
    """Somebody else is about to fire it, or fires it now: ask again after ``wait``."""

    tick: Tick
    wait: Span


@dataclass(frozen=True, slots=True)
class Leave:
    """It is not to be fired here, and ``why``."""

    tick: Tick
    why: str


Answer: TypeAlias = Permit | Later | Leave


@dataclass(slots=True)
class Counts:
    """What became of the ticks that this process saw. ``unknown``: see :meth:`Guard.unknown`."""

    fired: int = 0
    refused: int = 0
    waited: int = 0
    taken_over: int = 0
    failed: int = 0
    unknown: int = 0
    skipped_store_down: int = 0
    fired_store_down: int = 0
    disabled: int = 0

    def __str__(self) -> str:
        shown = [f"{f.name}={n}" for f in fields(self) if (n := getattr(self, f.name))]
        return " ".join(shown) or "without a tick so far"

    def add(self, name: str) -> None:
        """Count one more."""
        setattr(self, name, getattr(self, name) + 1)


@dataclass(frozen=True, slots=True)
class LeftTick:
    """A tick that a process claimed, and then was not heard of again."""

    schedule: str
    key: str
    owner: str
    claimed_at: datetime
