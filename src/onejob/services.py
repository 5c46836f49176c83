"""What an App hands to the objects it makes: its store in both colours, and what it was told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from onejob.adapters import adapt, adapt_any
from onejob.commands.command import Command
from onejob.core.time import Span
from onejob.runtime.events import Events
from onejob.stores.protocol import Store
from onejob.stores.threaded import ThreadedStore


@dataclass(frozen=True, slots=True)
class Services:
    """One process's means. ``wake`` tells the replica in this process, if any, that work arrived."""

    store: Store
    astore: ThreadedStore
    app: str
    owner: str
    lease: Span
    keep: Span
    keep_effects: Span
    events: Events
    wake: Callable[[], None]

    def __repr__(self) -> str:
        return f"<Services of {self.app} at {self.store.where}>"

    @property
    def longest(self) -> Span:
        """Return how long a fenced transaction may last.

        On SQLite an open one stops every renewal, so it must leave room for them.
        """
        return Span(self.lease // 3) if self.store.dialect == "sqlite" else self.lease

    def adapted(self, within: object) -> Any:
        """Return what makes the caller's connection, sync or async, carry our commands."""
        return adapt_any(within, dialect=self.store.dialect)

    def run(self, within: object = None) -> Callable[[Command[Any]], Any]:
        """Return what carries a command out in this thread, or in the caller's transaction."""
        if within is None:
            return self.store.run
        adapter = adapt(within, dialect=self.store.dialect)
        return lambda command: self.store.run(command, adapter)

    def arun(self, within: object = None) -> Callable[[Command[Any]], Awaitable[Any]]:
        """Return the same for the running loop."""
        if within is None:
            return self.astore.run
        adapter = self.adapted(within)
        if hasattr(adapter, "aexecute"):
            return lambda command: self.astore.run(command, adapter)

        async def here(command: Command[Any]) -> Any:
            # The caller's sync connection stays in the thread where the caller uses it.
            return self.store.run(command, adapter)

        return here
