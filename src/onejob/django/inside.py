"""A store that has no connection of its own: everything goes through Django's, in this thread.

For SQLite in memory, which no other connection can see, and for tests, where all that happens is
in one transaction that is rolled back. It cannot serve a replica: that needs connections that
others do not hold. A lock that is taken here is not renewed, and lasts for its ttl.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from asgiref.sync import sync_to_async
from django.db import DatabaseError, connections, transaction

from onejob.adapters import adapt
from onejob.commands.command import Command
from onejob.core.time import Span
from onejob.errors import StoreUnavailable
from onejob.stores import migrate
from onejob.stores.catalogue import Catalogue
from onejob.stores.protocol import AsyncWithin, Lane, Statement, Style, Within
from onejob.stores.threaded import ThreadedStore

T = TypeVar("T")


class Outer(Protocol):
    """The store of the same database that knows its texts."""

    dialect: str
    where: str
    catalogue: Catalogue

    def run(self, command: Command[T], within: Within | None = None) -> T: ...

    def statements(self, command: Command[T], style: Style) -> Sequence[Statement]: ...

    def close(self) -> None: ...


class InsideStore:
    """Carries commands out over Django's connection ``alias``, each in an atomic block."""

    def __init__(self, outer: Outer, alias: str) -> None:
        self._outer, self._alias = outer, alias
        self.dialect, self.where = outer.dialect, outer.where
        self.catalogue = outer.catalogue

    def run(self, command: Command[T], within: Within | None = None) -> T:
        """Carry out one command, in the block that is open or in one of its own."""
        if within is not None:
            return self._outer.run(command, within)
        with transaction.atomic(using=self._alias):
            return self._outer.run(command, adapt(self._alias, dialect=self.dialect))

    def statements(self, command: Command[T], style: Style) -> Sequence[Statement]:
        """Return what ``run`` would send."""
        return self._outer.statements(command, style)

    @contextmanager
    def transaction(self, *, longest: Span) -> Iterator[Any]:
        """Open an atomic block, a savepoint in an open one; yields the driver's connection."""
        with transaction.atomic(using=self._alias):
            yield connections[self._alias].connection

    def lane(self, *, patience: Span) -> Lane:
        """Return a lane that has no store: what is held here lasts for its first term."""
        return _NoLane(self.where)

    def check(self) -> None:
        """Raise SchemaMismatch unless the tables are those that this release is written for."""
        migrate.check(self.catalogue, self.version(), self.where)

    def version(self) -> int | None:
        """Return the version of the tables; None where there are none."""
        return found_version(self._alias, self.catalogue)

    def reap(self) -> None:
        """Django's connection is Django's to close."""

    def close(self) -> None:
        """Close what the other store has open."""
        self._outer.close()


class _NoLane:
    """Renewals come from threads of their own, and those cannot see an open transaction."""

    def __init__(self, where: str) -> None:
        self._where = where

    def run(self, command: Command[T]) -> T:
        """Say that nothing can be sent."""
        raise StoreUnavailable(
            self._where,
            "here it is reached through the Django connection of one thread (in a test, or in "
            "memory), so nothing is renewed",
        )

    def listen(self) -> bool:
        """Nothing is heard of."""
        return False

    def fileno(self) -> int | None:
        """There is nothing to wait on."""
        return None

    def hinted(self) -> bool:
        """Nothing is heard of."""
        return False

    def close(self) -> None:
        """Nothing is open."""


def found_version(alias: str, catalogue: Catalogue) -> int | None:
    """Return the version of the tables on an alias, as Django's connection sees them."""
    newest = f"SELECT max(version) FROM {catalogue.prefix}migration"  # noqa: S608 - it was checked
    try:
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute(newest)
            found = cursor.fetchone()[0]
            return None if found is None else int(found)
    except DatabaseError:
        return None


class HoppingStore(ThreadedStore):
    """The same for a loop, in the thread where its ORM calls go."""

    async def run(self, command: Command[T], within: Within | AsyncWithin | None = None) -> T:
        """Carry out one command without blocking the loop."""
        if within is not None:
            return await super().run(command, within)
        answer: T = await sync_to_async(self.store.run, thread_sensitive=True)(command)
        return answer
