"""What an App hands to the objects it makes: its store in both colours, and what it was told."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Self

from onejob import fences
from onejob.adapters import adapt, adapt_any
from onejob.commands import runs
from onejob.commands.command import Command
from onejob.core.run import Claim
from onejob.core.time import Span
from onejob.errors import UsageError
from onejob.fences import Fence
from onejob.lent import explained
from onejob.runtime.clock import Clock
from onejob.runtime.events import Events
from onejob.runtime.listener import Listener
from onejob.runtime.renewer import Renewer
from onejob.runtime.settings import Settings
from onejob.steps import Steps, acarry, carry
from onejob.stores.protocol import Store, TellsOfReleases
from onejob.stores.threaded import ThreadedStore

#: The longest that a server can be told to let a transaction sit idle: milliseconds in 31 bits.
IDLE_MOST: Final = Span((2**31 - 1) * 1_000)


@dataclass(frozen=True, slots=True)
class Services:
    """One process's means. ``wake`` tells the replica in this process, if any, of new work."""

    store: Store
    astore: ThreadedStore
    app: str
    owner: str
    lease: Span
    keep: Span
    keep_effects: Span
    events: Events
    wake: Callable[[], None]
    clock: Clock
    renewer: Renewer
    listener: Listener | None

    @classmethod
    def made(
        cls,
        astore: ThreadedStore,
        settings: Settings,
        events: Events,
        wake: Callable[[], None],
        clock: Clock,
    ) -> Self:
        """Make them for this process, over a store as a loop sees it; starts nothing."""
        store = astore.store
        renewer = Renewer(
            lambda patience: store.lane(patience=patience), clock=clock, events=events
        )
        listener = None
        if isinstance(store, TellsOfReleases):
            listener = Listener(
                lambda patience: store.release_lane(patience=patience), events=events
            )
        return cls(
            store=store,
            astore=astore,
            app=settings.name,
            owner=f"{socket.gethostname()}:{os.getpid()}",
            lease=settings.lease,
            keep=settings.keep,
            keep_effects=settings.keep_effects,
            events=events,
            wake=wake,
            clock=clock,
            renewer=renewer,
            listener=listener,
        )

    def __repr__(self) -> str:
        return f"<Services of {self.app} at {self.store.where}>"

    @property
    def longest(self) -> Span:
        """Return how long a fenced transaction may last.

        On SQLite an open one stops every renewal, so it must leave room for them.
        """
        if self.store.dialect == "sqlite":
            return Span(self.lease // 3)
        return min(self.lease, IDLE_MOST)

    def adapted(self, within: object) -> Any:
        """Return what makes the caller's sync connection carry our commands."""
        return adapt(within, dialect=self.store.dialect)

    def aadapted(self, within: object) -> Any:
        """Return the same for a connection that code in a loop may use."""
        return adapt_any(within, dialect=self.store.dialect)

    def run(self, within: object = None) -> Callable[[Command[Any]], Any]:
        """Return what carries a command out in this thread, or in the caller's transaction."""
        return self._run_alone if within is None else self.through(self.adapted(within))

    def arun(self, within: object = None) -> Callable[[Command[Any]], Awaitable[Any]]:
        """Return the same for the running loop."""
        return self._arun_alone if within is None else self.athrough(self.aadapted(within))

    def here(self, within: object = None) -> Callable[[Command[Any]], Any]:
        """Return what carries a command out where the caller is.

        That is the transaction given; else one that a framework knows to be open around its users'
        code; else none. For what may well be part of it: runs and schedules, never a claim.
        """
        return self.run(within)

    def ahere(self, within: object = None) -> Callable[[Command[Any]], Awaitable[Any]]:
        """Return the same for the running loop."""
        return self.arun(within)

    def handling(self) -> AbstractContextManager[None] | None:
        """Return what stands around each sync handler, in its thread; None: nothing."""
        return None

    def ahandling(self) -> AbstractAsyncContextManager[None] | None:
        """Return what stands around each async handler."""
        return None

    def through(self, adapter: Any) -> Callable[[Command[Any]], Any]:
        """Return what carries a command out over a connection that has been adapted."""

        def here(command: Command[Any]) -> Any:
            with explained(self.store):
                return self.store.run(command, adapter)

        return here

    def athrough(self, adapter: Any) -> Callable[[Command[Any]], Awaitable[Any]]:
        """Return the same for the running loop."""

        async def here(command: Command[Any]) -> Any:
            with explained(self.store):
                if hasattr(adapter, "aexecute"):
                    return await self.astore.run(command, adapter)
                # sqlite3's connection stays in the thread where the caller uses it.
                return self.store.run(command, adapter)

        return here

    def close(self) -> None:
        """Close every connection and end every thread that has nothing in its hands."""
        self.renewer.close()
        if self.listener is not None:
            self.listener.close()
        self.astore.close()
        self.store.close()

    def _run_alone(self, command: Command[Any]) -> Any:
        if command.writes and fences.around():
            carry(self._outside(command), self.store.run)
        return self.store.run(command)

    async def _arun_alone(self, command: Command[Any]) -> Any:
        if command.writes and fences.around():
            await acarry(self._outside(command), self.astore.run)
        return await self.astore.run(command)

    def _outside(self, command: Command[Any]) -> Steps[None]:
        """Refuse a write that would not be part of the fenced transaction open around it."""
        here = (self.store.dialect, self.store.where)
        around = [f for f in fences.around() if (f.dialect, f.where) == here]
        if command.writes and (yield from any_holds(around)):
            raise UsageError(
                "a fenced transaction is open here, and this write would not be part of it: it "
                "would commit by itself, or wait for that transaction to end. Pass within=tx with "
                "its connection, or move the call before or after it."
            )


def any_holds(around: Iterable[Fence]) -> Steps[bool]:
    """Tell whether one of these fences holds its run, or lock; asks the store where unsure."""
    for fence in around:
        ended = isinstance(fence.holder, Claim) and fence.unsure and (yield runs.free(fence.holder))
        if not ended:
            return True
        fence.ended = True
    return False


def required(within: object) -> object:
    """Return ``within``, or raise UsageError for None where a transaction is the whole point."""
    if within is None:
        raise UsageError(
            "within=None: this is known only together with what your transaction writes. Give its "
            "connection: within=tx."
        )
    return within
