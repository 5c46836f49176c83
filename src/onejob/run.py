"""What a handler is given: which run this is, how long it has, and how to write once.

``Run`` is for functions and ``AsyncRun`` for coroutines; both check and decide in :mod:`.facts`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from onejob import fences
from onejob.core.time import Duration
from onejob.effect import FinalErrors, IfUnknownOption, Options
from onejob.errors import UsageError
from onejob.facts import Facts
from onejob.procedure import perform
from onejob.services import required
from onejob.steps import acarry, carry
from onejob.transaction import open_transaction
from onejob.tries import Tries

T = TypeVar("T")

_current: ContextVar[Run | AsyncRun] = ContextVar("onejob_run")


def current_run() -> Run | AsyncRun:
    """Return the run that this code is called from, at any depth below its handler.

    Threads see it where they are given the handler's context (``asyncio.to_thread``,
    ``contextvars.copy_context``). Raises UsageError outside a run.
    """
    try:
        return _current.get()
    except LookupError:
        raise UsageError(
            "there is no run here: this code was not called from a job's handler. Pass the run as "
            "an argument, or enqueue the job."
        ) from None


@contextmanager
def entered(run: Run | AsyncRun) -> Iterator[None]:
    """Make ``run`` the current one for the code inside."""
    before = _current.set(run)
    try:
        with fences.none():
            yield
    finally:
        _current.reset(before)


class Run(Facts):
    """The run that a sync handler executes."""

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Record how far this attempt has come, for people who look. Raises LeaseLost."""
        self._check_progress(done, total, note)
        carry(self._progress(done, total, note), self._services.run())

    @contextmanager
    def transaction(self, complete: bool = False) -> Iterator[Any]:
        """Open a transaction in the store, fenced: yields a connection of the store's driver.

        Commits at the end, and only while this attempt is the valid one; with ``complete`` the run
        ends as succeeded in the same commit (what the handler returns is then not kept). On SQLite
        it lasts a third of the lease at most. Raises LeaseLost, and then nothing was written.
        """
        services = self._services
        carry(self._outside("transaction"), services.run())
        with services.store.transaction(longest=services.longest) as connection:
            run = services.run(connection)
            carry(self._hold(), run)
            with fences.inside(self._fenced(services.adapted(connection), ours=True)):
                yield connection
            if complete:
                carry(self._complete(), run)
        self._attempt.settled = self._attempt.settled or complete

    def transact(self, unit: Callable[[Any], T], complete: bool = False) -> T:
        """Call ``unit`` with a fenced transaction's connection, and commit; return its answer.

        Called again, in a new transaction, where the store has rolled this one back: a deadlock, a
        serialisation failure, a busy SQLite file; eight times at the most. So it should do nothing
        but use that connection, and let the driver's errors through. Otherwise as
        :meth:`transaction`.
        """
        tries = Tries()
        while True:
            try:
                with self.transaction(complete) as connection, tries.on(connection):
                    return unit(connection)
            except Exception as error:
                pause = tries.pause_after(error)
                if pause is None:
                    raise
            time.sleep(pause)

    def fence(self, *, within: object, complete: bool = False) -> None:
        """Lock this run in a transaction that you opened, to its end.

        Your transaction then commits only while this attempt is the valid one. With ``complete``
        the run ends in it as succeeded. Raises LeaseLost: roll back. Call it outside savepoints:
        rolling one back gives up the lock that was taken in it.
        """
        adapter = self._services.adapted(within)
        carry(self._fence(complete), self._services.through(adapter))
        fences.add(self._fenced(adapter, ours=False))

    def first(self, key: str, *, within: object) -> bool:
        """Tell whether this is the first time for ``key`` in this run, in your transaction.

        True: go on, and commit. False: it has been done. Known for as long as effects are kept.
        """
        return carry(self._first(key), self._services.run(required(within)))

    def effect(
        self,
        key: str,
        call: Callable[..., T],
        /,
        *args: Any,
        if_unknown: IfUnknownOption = "raise",
        pass_key_as: str | None = None,
        fingerprint: object = None,
        provider_keeps: Duration | None = None,
        final: FinalErrors = (),
        **kwargs: Any,
    ) -> T:
        """Call something outside once: claimed before the call, recorded after it.

        A repeat returns the recorded result. An error of the call leaves the outcome unknown unless
        it says that nothing was sent (``NotSent``) or is among ``final``; ``if_unknown`` is how an
        unknown outcome is settled. Raises EffectUnknown, EffectFailed, KeyReused, InProgress,
        LeaseLost, and what the call raised.
        """
        options = Options(
            if_unknown=if_unknown,
            pass_key_as=pass_key_as,
            fingerprint=fingerprint,
            provider_keeps=provider_keeps,
            final=final,
        )
        carry(self._outside("effect"), self._services.run())
        asked = self._request(key, call, args, kwargs, options)
        asked.refuse_async()
        with self._alone(key):
            result: T = carry(perform(asked, self._services.events), self._services.run())
        return result


class AsyncRun(Facts):
    """The run that an async handler executes: the same, awaited."""

    async def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Record how far this attempt has come; see :meth:`Run.progress`."""
        self._check_progress(done, total, note)
        await acarry(self._progress(done, total, note), self._services.arun())

    @asynccontextmanager
    async def transaction(self, complete: bool = False) -> AsyncIterator[Any]:
        """Open a fenced transaction; see :meth:`Run.transaction`.

        Yields a ``psycopg.AsyncConnection``; on SQLite, which has none, the sqlite3 connection.
        """
        services = self._services
        await acarry(self._outside("transaction"), services.arun())
        async with open_transaction(services) as connection:
            run = services.arun(connection)
            await acarry(self._hold(), run)
            with fences.inside(self._fenced(services.aadapted(connection), ours=True)):
                yield connection
            if complete:
                await acarry(self._complete(), run)
        self._attempt.settled = self._attempt.settled or complete

    async def transact(self, unit: Callable[[Any], Awaitable[T]], complete: bool = False) -> T:
        """Await ``unit`` with a fenced transaction's connection; see :meth:`Run.transact`."""
        tries = Tries()
        while True:
            try:
                async with self.transaction(complete) as connection:
                    with tries.on(connection):
                        return await unit(connection)
            except Exception as error:
                pause = tries.pause_after(error)
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    async def fence(self, *, within: object, complete: bool = False) -> None:
        """Lock this run in a transaction that you opened; see :meth:`Run.fence`."""
        adapter = self._services.aadapted(within)
        await acarry(self._fence(complete), self._services.athrough(adapter))
        fences.add(self._fenced(adapter, ours=False))

    async def first(self, key: str, *, within: object) -> bool:
        """Tell whether this is the first time for ``key``; see :meth:`Run.first`."""
        return await acarry(self._first(key), self._services.arun(required(within)))

    async def effect(
        self,
        key: str,
        call: Callable[..., Any],
        /,
        *args: Any,
        if_unknown: IfUnknownOption = "raise",
        pass_key_as: str | None = None,
        fingerprint: object = None,
        provider_keeps: Duration | None = None,
        final: FinalErrors = (),
        **kwargs: Any,
    ) -> Any:
        """Call something outside once; see :meth:`Run.effect`.

        An async function is awaited, a sync one called in a thread. One that is in its thread when
        the attempt is cancelled goes on, and is recorded when it ends.
        """
        options = Options(
            if_unknown=if_unknown,
            pass_key_as=pass_key_as,
            fingerprint=fingerprint,
            provider_keeps=provider_keeps,
            final=final,
        )
        services = self._services
        await acarry(self._outside("effect"), services.arun())
        asked = self._request(key, call, args, kwargs, options)
        with self._alone(key):
            steps = perform(asked, services.events)
            return await acarry(steps, services.arun(), late=services.run())
