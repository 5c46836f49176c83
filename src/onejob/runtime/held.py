"""One thing that this process holds under a lease, and whether it still does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from onejob.commands.command import Command
from onejob.core import lease as rules
from onejob.core.time import Span
from onejob.errors import LeaseLost

Renew: TypeAlias = Callable[[Iterable[tuple[Any, Span]]], Command[frozenset[str]]]
"""The batch command of a kind: given ``(grip, ttl)`` of many, answers who still holds."""


class Held:
    """A lease in this process's hands, given to the renewer (``runtime.renewer``).

    ``deadline`` is on the clock that also runs during suspend; ``lost`` says why it is over, ""
    before. Reading both from any thread is safe; the renewer writes them. Set ``abandoned`` where
    nobody can release it any more: the renewer lets go of it. In a forked child it is lost: it is
    the parent's.
    """

    __slots__ = (
        "abandoned", "deadline", "grip", "lost", "on_lost", "owner", "pid", "renew", "renew_at",
        "token", "ttl", "what",
    )  # fmt: skip

    def __init__(
        self,
        grip: Any,
        *,
        owner: str,
        token: int,
        ttl: Span,
        asked_at: int,
        renew: Renew,
        what: str,
        on_lost: Callable[[Held], None] | None = None,
    ) -> None:
        self.grip, self.owner, self.token, self.ttl = grip, owner, token, ttl
        self.renew, self.what, self.on_lost = renew, what, on_lost
        self.lost = ""
        self.abandoned = False
        self.pid = os.getpid()
        self.extend(asked_at)

    def extend(self, asked_at: int) -> None:
        """Count from a request that was granted, from before it was sent."""
        self.deadline = rules.deadline(asked_at=asked_at, lease=self.ttl)
        self.renew_at = asked_at + rules.renew_every(self.ttl)

    @property
    def is_inherited(self) -> bool:
        """Tell whether this is a child of the process that holds it."""
        return self.pid != os.getpid()

    def over(self, now: int) -> str:
        """Say why it is no longer held; "" while it is."""
        if self.lost:
            return self.lost
        if self.is_inherited:
            return f"it is held by the process that forked this one (pid {self.pid})"
        return LATE if now >= self.deadline else ""

    def check(self, now: int) -> None:
        """Raise LeaseLost once it is no longer held."""
        if why := self.over(now):
            raise LeaseLost(self.what, token=self.token, why=why)


LATE = "its lease could not be renewed in time"
