"""What of the exercise is to be played."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from onejob.core.lease import LEAST_LEASE
from onejob.core.time import SECOND, Span, show_span
from onejob.errors import UsageError
from onejob.url import parse

Stall: TypeAlias = Literal["freeze", "network"]

#: The ways to guard a write, in the order in which they are shown.
WAYS: Final = ("bare-lock", "token-at-write", "advisory-lock", "lease-fenced", "lease-ledger")

#: Longer than this nobody watches; the holder's own connections would have ended too.
PAUSE_MOST: Final = Span(600 * SECOND)


@dataclass(frozen=True, slots=True)
class PausePlan:
    """The store's URL, the lease, and how long its holder stands still."""

    url: str
    ttl: Span = Span(3 * SECOND)
    pause: Span = Span(4 * SECOND)
    stall: Stall = "freeze"

    @property
    def dialect(self) -> str:
        """Return which kind of store it is."""
        return parse(self.url).dialect

    @property
    def ways(self) -> Sequence[str]:
        """Return the ways that this store has: an advisory lock is PostgreSQL's."""
        return [way for way in WAYS if way != "advisory-lock" or self.dialect == "postgresql"]

    def check(self) -> None:
        """Raise UsageError for what can't be played. Opens nothing."""
        if self.dialect not in ("sqlite", "postgresql", "redis"):
            raise UsageError(
                f"the exercise is not written for {self.dialect}://. Use --store sqlite, postgres "
                "or redis."
            )
        if self.ttl < LEAST_LEASE:
            raise UsageError(
                f"--ttl {show_span(self.ttl)} is too short for a lease: {show_span(LEAST_LEASE)} "
                "at least."
            )
        if not self.ttl < self.pause <= PAUSE_MOST:
            raise UsageError(
                f"--pause {show_span(self.pause)} must be longer than --ttl {show_span(self.ttl)}, "
                f"or nothing happens, and {show_span(PAUSE_MOST)} at most."
            )
        if self.stall == "freeze" and not hasattr(signal, "SIGSTOP"):
            raise UsageError("this system cannot freeze a process (no SIGSTOP). Use a Unix.")
        if self.stall == "network" and self.dialect == "sqlite":
            raise UsageError("SQLite has no network to stall. Use --store postgres or redis.")
