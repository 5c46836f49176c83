"""What an App reaches its store through, in a project whose code has transactions open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections, reset_queries

from onejob.commands.command import Command
from onejob.django.inside import HoppingStore, InsideStore
from onejob.services import Services


@dataclass(frozen=True, slots=True)
class DjangoServices(Services):
    """Follows ``transaction.atomic`` on ``alias``; "" where the store is no database of Django's.

    Django's connections are of a thread: code in a loop has none of its own, and is led to the
    thread where its ORM calls go, as those are.
    """

    alias: str = ""

    def belong(self, alias: str) -> None:
        """Say once, when they are made, to which alias they belong; and hop where its store is."""
        if self.alias != alias:
            object.__setattr__(self, "alias", alias)
        if isinstance(self.store, InsideStore) and not isinstance(self.astore, HoppingStore):
            self.astore.close()
            object.__setattr__(self, "astore", HoppingStore(self.store, threads=1))

    def here(self, within: object = None) -> Callable[[Command[Any]], Any]:
        """Return what carries a command out in the open block, as a part of it; else by itself."""
        # Not ``super()``: a class with slots is made twice, and the closure has the first.
        return Services.here(self, self.alias if within is None and self._joins() else within)

    def ahere(self, within: object = None) -> Callable[[Command[Any]], Awaitable[Any]]:
        """Return the same for the running loop."""
        if within is not None or not self.alias:
            return Services.ahere(self, within)

        def there(command: Command[Any]) -> Any:
            return self.here()(command)

        hop: Callable[[Command[Any]], Awaitable[Any]] = sync_to_async(there, thread_sensitive=True)
        return hop

    @contextmanager
    def handling(self) -> Iterator[None]:
        """Treat Django's connections around a handler as Django does around a request."""
        reset_queries()
        _close_old()
        try:
            yield
        finally:
            _close_old()

    @asynccontextmanager
    async def ahandling(self) -> AsyncIterator[None]:
        """The same in a loop, in the thread where its ORM calls go."""
        await sync_to_async(_close_old)()
        try:
            yield
        finally:
            await sync_to_async(_close_old)()

    def _joins(self) -> bool:
        """Tell whether a transaction is open in this thread, on the database of our tables."""
        if not self.alias:
            return False
        connection = connections[self.alias]
        if connection.in_atomic_block:
            return True
        return connection.connection is not None and not connection.autocommit


def _close_old() -> None:
    """Close what is broken or past its time; not one in a block, where a test performs its runs."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
