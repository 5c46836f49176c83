"""A named lock as its holder and as everybody else sees it, and how patiently to wait for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onejob.core.run import Token
from onejob.core.time import SECOND, Span

#: The longest pause between two looks of somebody who waits for a lock.
LOOK_MOST: Final = Span(SECOND // 4)

#: How long the row of a lock that nobody uses any more is kept, for people who look.
KEEP_UNUSED: Final = Span(24 * 3_600 * SECOND)


@dataclass(frozen=True, slots=True)
class Grip:
    """What a holder shows with every later command: the lock, and (token, owner).

    ``owner`` is fresh for each acquisition: the same thread asking again is somebody else.
    """

    scope: str
    name: str
    token: Token
    owner: str


@dataclass(frozen=True, slots=True)
class Standing:
    """A lock as the store has it, at the store's ``now``.

    Held while ``owner`` is set and ``expires`` is to come; without an owner, and expiring later, it
    was released and is kept for its minimum. ``resources`` is a JSON list.
    """

    scope: str
    name: str
    token: Token
    owner: str
    holder: str
    resources: str
    acquired: int
    expires: int
    changed: int
    now: int

    @property
    def free(self) -> bool:
        """Tell whether whoever asks now gets it."""
        return self.expires <= self.now

    @property
    def state(self) -> str:
        """Return held, kept (for its minimum), lapsed or free."""
        if self.owner:
            return "lapsed" if self.free else "held"
        return "free" if self.free else "kept"


@dataclass(frozen=True, slots=True)
class Listed:
    """A lock as people look at it: how it stands, and how many wait for it."""

    standing: Standing
    waiting: int


def look_again(ttl: Span, *, chance: float) -> Span:
    """Return how long to wait before looking again at a lock that somebody holds.

    A tenth of the lease, a quarter of a second at most, and less by chance: many who wait then
    don't come at the same moment.
    """
    return Span(int(min(ttl // 10, LOOK_MOST) * (0.5 + 0.5 * chance)))
