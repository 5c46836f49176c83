"""The store of a test: in memory, and asked in the caller's own thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from onejob.adapters import adapter_of
from onejob.commands.command import Command
from onejob.core.time import Span
from onejob.errors import UnsupportedByStore
from onejob.services import Services
from onejob.stores.memory.store import MemoryStore
from onejob.stores.protocol import AsyncWithin, Within
from onejob.stores.threaded import ThreadedStore

T = TypeVar("T")


class Place(MemoryStore):
    """A memory store that takes ``within=``: at once, since it is not in your database."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self.transactions: Callable[[], AbstractContextManager[Any]] | None = None

    def run(self, command: Command[T], within: Within | None = None) -> T:
        """Carry out one command, whoever's transaction it was meant for."""
        return super().run(command)

    @contextmanager
    def transaction(self, *, longest: Span) -> Iterator[Any]:
        """Open what the test has given for it."""
        if self.transactions is None:
            raise UnsupportedByStore(
                "open a transaction for your data",
                "the memory store of this test",
                instead="Give it one of your test's database: onejob.transactions = engine.begin, "
                "or any function that returns a context manager with a connection.",
            )
        with self.transactions() as connection:
            yield connection


class PlaceInLoop(ThreadedStore):
    """The same for code in a loop; it answers at once, so no thread is needed."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, threads=1)

    async def run(self, command: Command[T], within: Within | AsyncWithin | None = None) -> T:
        """Carry out one command here and now."""
        return self.store.run(command)


class PlaceServices(Services):
    """Means over a :class:`Place`. A connection of any database may be given as ``within=``."""

    __slots__ = ()

    def adapted(self, within: object) -> Any:
        """Return the adapter of the caller's connection, which must have a transaction open."""
        return _checked(within)

    def aadapted(self, within: object) -> Any:
        """Return the same for code in a loop."""
        return _checked(within)


def _checked(within: object) -> Any:
    adapter = adapter_of(within)
    adapter.check()
    return adapter
