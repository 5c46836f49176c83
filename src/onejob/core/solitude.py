"""Runs that have outlived a replica are claimed alone, in case it was they that killed it.

*Alone* means: nothing else is claimed beside it until it has ended, or has run for one lease
without harm. A replica that is never without work stops claiming for it after one lease, and after
a second one takes it beside whatever is still running.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Next(Enum):
    """What a worker claims next."""

    ANYTHING = "anything"
    ALONE = "alone"
    NOTHING = "nothing"


@dataclass(slots=True)
class Solitude:
    """What one worker remembers about such runs. Local times; 0 means never."""

    lease: int
    due: int = 0
    running_until: int = 0

    def announce(self, due: int) -> None:
        """Hear that such a run is due at ``due`` (local clock); 0 that there is none."""
        if due == 0 or self.due == 0 or due < self.due:
            self.due = due

    def started(self, now: int) -> None:
        """Remember that one has been claimed."""
        self.due, self.running_until = 0, now + self.lease

    def ended(self) -> None:
        """Remember that it is over."""
        self.running_until = 0

    def next(self, now: int, *, held: int) -> Next:
        """Decide what to claim while ``held`` runs are here."""
        if self.running_until > now and held > 0:
            return Next.NOTHING
        if self.due == 0 or self.due > now:
            return Next.ANYTHING
        if held == 0 or now >= self.due + 2 * self.lease:
            return Next.ALONE
        return Next.NOTHING if now >= self.due + self.lease else Next.ANYTHING
