"""Who forgets what is past its time where no replica runs: whoever takes something, now and then.

Elsewhere a replica's sweeper purges. Here nobody is a replica, so a process that takes a lock or a
claim purges a bounded number of rows after it, once a minute at the most.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from onejob.commands import events, fences, leases, ledger
from onejob.commands.command import Command
from onejob.core.hold import KEEP_UNUSED
from onejob.core.time import DAY, Span
from onejob.errors import StoreError

#: Most rows that one round forgets, of each kind.
BATCH = 200
EVERY_SECONDS = 60.0

#: How long fences are known after their last token, and what was told.
KEEP_FENCES = Span(400 * DAY)
KEEP_EVENTS = Span(30 * DAY)

_TAKING = frozenset({"lease_acquire", "lease_take", "claim_take"})

Carry = Callable[[Command[Any], Any], Any]


class Tidying:
    """Purges after something was taken, when it is time."""

    def __init__(self) -> None:
        self._next = 0.0

    def after(self, command: Command[Any], carry: Carry, connections: Any) -> None:
        """Purge if it is time. What cannot be purged now is purged in a minute, or by others."""
        # An instant that is given is not the store's: what is past its time is not known then.
        by_the_clock = command.parameters.get("now") is None
        if command.name not in _TAKING or not by_the_clock or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_SECONDS
        before = time.time_ns() // 1_000 - KEEP_EVENTS
        try:
            for purge in (
                ledger.purge(limit=BATCH),
                events.purge(before=before, limit=BATCH),
                leases.purge(unused=KEEP_UNUSED, limit=BATCH),
                fences.purge(unused=KEEP_FENCES, limit=BATCH),
            ):
                carry(purge, connections)
        except StoreError:
            return
