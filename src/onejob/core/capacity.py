"""How many runs a replica takes on: what it can work on now, and a little ahead if they are short.

A long run that waits in one replica's memory is a run that another replica could have started; so
runs are taken ahead only as far as they would be started within :data:`AHEAD`, judged by how long
they have been taking here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from onejob.core.time import Span

#: Runs are claimed this far ahead of being started.
AHEAD = Span(50_000)
#: … but never more than this many beyond the free slots: they share the fate of this process.
AHEAD_MOST = 980
#: The weight of the newest duration in the moving mean.
_WEIGHT = 8


@dataclass(slots=True)
class Capacity:
    """A replica's ``slots`` and what it has learnt about durations (microseconds)."""

    slots: int
    mean: int = field(default=-1)

    def ended(self, took: int) -> None:
        """Learn how long a run took."""
        self.mean = took if self.mean < 0 else (self.mean * (_WEIGHT - 1) + took) // _WEIGHT

    @property
    def total(self) -> int:
        """How many runs may be held here, running and waiting together."""
        if self.mean < 0 or self.mean > AHEAD:
            return self.slots
        return self.slots + min(AHEAD_MOST, self.slots * AHEAD // max(1, self.mean))

    def room(self, held: int) -> int:
        """Return how many to claim now: 0 while it is better to wait for a fuller batch.

        A free slot is always worth a claim; otherwise wait until half of what may be held is free.
        """
        free = self.total - held
        if held < self.slots or free * 2 >= self.total:
            return max(0, free)
        return 0
