"""One attempt in this process: what its handler may ask, and how it is told to stop."""

from __future__ import annotations

from typing import Any, Protocol

from onejob.core.each import EachResult
from onejob.core.retry import Retry
from onejob.core.run import ClaimedRun
from onejob.core.time import Span
from onejob.errors import LeaseLost
from onejob.runtime.clock import Clock
from onejob.runtime.membership import Membership


class Attempt:
    """A claimed run under this replica's lease. Safe to ask from the handler's thread."""

    __slots__ = (
        "_clock",
        "_revoked",
        "_timeout_at",
        "claim",
        "left",
        "membership",
        "run",
        "settled",
    )

    def __init__(self, run: ClaimedRun, membership: Membership, clock: Clock) -> None:
        self.run, self.membership, self._clock = run, membership, clock
        #: The guard of every write about this attempt.
        self.claim = run.claim
        self._revoked = ""
        #: True once the handler has completed the run itself, in a transaction of its own.
        self.settled = False
        #: What loops over many items have set aside.
        self.left: list[EachResult] = []
        self._timeout_at: int | None = None

    def begin(self, timeout: Span | None) -> None:
        """Start the handler's time: waiting for a slot does not count."""
        self._timeout_at = None if timeout is None else self._clock.now() + timeout

    @property
    def lost(self) -> str:
        """Why this attempt is over, "" while it is not."""
        if self._revoked:
            return self._revoked
        if self.membership.lost:
            return self.membership.lost
        if self._clock.now() >= self.membership.deadline:
            return "its replica could not renew its lease in time"
        return ""

    def revoke(self, why: str) -> None:
        """Tell the handler, at its next check, that it is no longer wanted."""
        self._revoked = self._revoked or why

    def check(self) -> None:
        """Raise LeaseLost once this attempt is superseded or cancelled, TimeoutError once late."""
        if why := self.lost:
            raise LeaseLost(f"run {self.run.scope}", token=self.run.token, why=why)
        if (left := self.remaining()) is not None and left <= 0:
            raise TimeoutError(f"run {self.run.scope} has taken longer than its job's timeout")

    def remaining(self) -> Span | None:
        """Return how long until the handler's timeout; None where it has none."""
        return None if self._timeout_at is None else Span(self._timeout_at - self._clock.now())


class Executable(Protocol):
    """A job as the runtime needs it. Made by the public ``Job``."""

    name: str
    is_async: bool
    retry: Retry
    timeout: Span | None
    log_fields: tuple[str, ...]

    def invoke(self, attempt: Attempt) -> Any:
        """Call the handler with its decoded arguments; an async one returns its awaitable."""
        ...

    def result(self, value: object) -> str | None:
        """Encode what the handler returned. UsageError: it can't be stored."""
        ...
