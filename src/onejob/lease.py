"""What the body of a lock is given: its token, and whether it still holds the lock.

``Lease`` is for ``with`` and ``AsyncLease`` for ``async with``; both know and check the same. A
lease that is lost stays lost: its deadline ends before the store lets anybody else have the lock.
"""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Final

from onejob import fences
from onejob.commands import leases
from onejob.core.hold import Grip
from onejob.core.names import check_name
from onejob.core.time import SECOND, Span
from onejob.errors import LeaseLost, UsageError
from onejob.fences import Fence
from onejob.runtime.held import Held
from onejob.services import IDLE_MOST, Services, required
from onejob.steps import Steps, acarry, carry
from onejob.transaction import open_transaction

# References only: a context lives long, and would keep from being noticed what was dropped.
_holding: Final[ContextVar[tuple[weakref.ref[_Facts], ...]]] = ContextVar(
    "onejob_leases", default=()
)


def assert_locked(name: str) -> Lease | AsyncLease:
    """Return the lease of lock ``name`` that this code runs under; UsageError where there is none.

    For code that must never run without it: a test, or a run, in which nobody has taken the lock
    fails. Raises LeaseLost where it was lost. Tasks, and threads that are given the context
    (``asyncio.to_thread``), are under the locks of whoever began them.
    """
    check_name(name, what="lock name")
    for held in reversed(_holding.get()):
        lease = held()
        if isinstance(lease, Lease | AsyncLease) and lease.name == name:
            lease.check()
            return lease
    raise UsageError(
        f"this code needs lock {name!r}, and it was called without it. Take it around the call: "
        f"with app.lock({name!r}): ..."
    )


class _Facts:
    """What both colours know and check. Safe to use from the body's own threads."""

    def __init__(self, held: Held, services: Services) -> None:
        grip: Grip = held.grip
        self._held, self._grip, self._services = held, grip, services
        # The renewer keeps what is held and not this object: one that is dropped is noticed.
        self._dropped = weakref.finalize(self, _dropped, held)
        self._dropped.atexit = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._held.what}, token {self.token}>"

    @property
    def name(self) -> str:
        """Return the lock's name."""
        return self._grip.name

    @property
    def token(self) -> int:
        """Return the fencing token: higher than every earlier holder's."""
        return int(self._grip.token)

    @property
    def lost(self) -> bool:
        """Tell whether the lock is no longer ours."""
        return bool(self._held.over(self._services.clock.now()))

    def check(self) -> None:
        """Raise LeaseLost once the lock is no longer ours."""
        self._held.check(self._services.clock.now())

    def remaining(self) -> float:
        """Return how many seconds the lease lasts if it is not renewed; 0 once it is lost."""
        now = self._services.clock.now()
        return 0.0 if self._held.over(now) else (self._held.deadline - now) / SECOND

    @property
    def _longest(self) -> Span:
        """Return how long a fenced transaction may sit idle; on SQLite renewals wait for it."""
        ttl = self._held.ttl
        return Span(ttl // 3) if self._services.store.dialect == "sqlite" else min(ttl, IDLE_MOST)

    def _outside(self) -> None:
        self.check()
        if any(fence.holder == self._grip for fence in fences.around()):
            raise UsageError(
                f"a fenced transaction of {self._held.what} is open here, and another would not be "
                "part of it. Use its connection."
            )

    def _fenced(self, adapter: Any, *, ours: bool) -> Fence:
        store = self._services.store
        return Fence(self._grip, store.dialect, store.where, adapter, ours)

    def _keep(self) -> Steps[None]:
        """Keep the lock from changing hands to the end of a transaction."""
        self.check()
        if not (yield leases.fence(self._grip, idle_limit=self._longest)):
            raise LeaseLost(self._held.what, token=self.token, why=_NOT_OURS)

    def _entered(self) -> None:
        _holding.set((*_holding.get(), weakref.ref(self)))

    def _left(self) -> None:
        self._dropped.detach()
        _holding.set(tuple(held for held in _holding.get() if held() not in (self, None)))


class Lease(_Facts):
    """A lock held by sync code."""

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Open a transaction in the store, fenced: yields a connection of the store's driver.

        Until it ends nobody else gets the lock. Commits at the end. The store ends one that sits
        idle for longer than the lock's ttl; on SQLite it lasts a third of that at most. Raises
        LeaseLost, and then nothing was written.
        """
        self._outside()
        services = self._services
        with services.store.transaction(longest=self._longest) as connection:
            carry(self._keep(), services.run(connection))
            with fences.inside(self._fenced(services.adapted(connection), ours=True)):
                yield connection

    def fence(self, *, within: object) -> None:
        """Keep the lock from changing hands until the transaction that you opened ends.

        It then commits only while the lock is yours. Raises LeaseLost: roll back.
        """
        adapter = self._services.adapted(required(within))
        carry(self._keep(), self._services.through(adapter))
        fences.add(self._fenced(adapter, ours=False))


class AsyncLease(_Facts):
    """A lock held by a task; its body is cancelled when the lock is lost."""

    def __init__(self, held: Held, services: Services) -> None:
        super().__init__(held, services)
        task = asyncio.current_task()
        assert task is not None, "async code runs in a task"
        self._task, self._loop = task, asyncio.get_running_loop()
        self._asked_before = task.cancelling()
        self._in_body = self._cancelled = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Open a fenced transaction; see :meth:`Lease.transaction`.

        Yields a ``psycopg.AsyncConnection``; on SQLite, which has none, the sqlite3 connection.
        """
        self._outside()
        services = self._services
        async with open_transaction(services, longest=self._longest) as connection:
            await acarry(self._keep(), services.arun(connection))
            with fences.inside(self._fenced(services.aadapted(connection), ours=True)):
                yield connection

    async def fence(self, *, within: object) -> None:
        """Keep the lock from changing hands to a transaction's end; see :meth:`Lease.fence`."""
        adapter = self._services.aadapted(required(within))
        await acarry(self._keep(), self._services.athrough(adapter))
        fences.add(self._fenced(adapter, ours=False))

    def _entered(self) -> None:
        super()._entered()
        self._in_body = True

    def _lost(self) -> None:
        """Cancel the body. Called from the watch thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._in_body:
            self._cancelled = True
            self._task.cancel(f"{self._held.what} is lost")

    def _ended(self, kind: type[BaseException] | None) -> bool:
        """Note the body's end; tell whether its cancellation was ours, and nobody else's too."""
        self._in_body = False
        if not self._cancelled:
            return False
        alone = self._task.uncancel() <= self._asked_before
        return alone and kind is not None and issubclass(kind, asyncio.CancelledError)


def _dropped(held: Held) -> None:
    # Called wherever garbage is collected, perhaps inside the renewer: only a flag is set here.
    held.abandoned = True
    warnings.warn(
        f"{held.what} was dropped without being released: it is no longer renewed, and free when "
        "its lease ends. Use it in a `with` block.",
        ResourceWarning,
        stacklevel=2,
    )


_NOT_OURS = "the store has it no longer as ours"
