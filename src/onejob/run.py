"""What a handler is given: which run this is, how long it has, and how to write once.

``Run`` is for functions and ``AsyncRun`` for coroutines; both check and decide in :mod:`.facts`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
)
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, TypeVar

from onejob import fences
from onejob.core.each import EachResult
from onejob.core.time import Duration
from onejob.crews import adrive, drive
from onejob.each import OnError
from onejob.effect import FinalErrors, IfUnknownOption, Options
from onejob.errors import UsageError
from onejob.facts import Facts
from onejob.procedure import perform
from onejob.services import required
from onejob.steps import acarry, carry
from onejob.transaction import open_transaction
from onejob.tries import Tries

T = TypeVar("T")
Item = TypeVar("Item")

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


class Entered:
    """Make ``run`` the current one for the code inside.

    No generator: this stands around every handler, and takes a third of the time so.
    """

    __slots__ = ("_before", "_fences", "_run")

    def __init__(self, run: Run | AsyncRun) -> None:
        self._run = run

    def __enter__(self) -> None:
        self._before = _current.set(self._run)
        self._fences = fences.leave()

    def __exit__(self, *_: object) -> None:
        fences.back(self._fences)
        _current.reset(self._before)


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

    def each(
        self,
        items: Iterable[Item],
        call: Callable[..., Any],
        *,
        key: Callable[[Item], str],
        concurrency: int = 10,
        on_error: OnError = "set-aside",
        transaction: bool = False,
        if_unknown: IfUnknownOption = "raise",
        pass_key_as: str | None = None,
        fingerprint: Callable[[Item], object] | None = None,
        provider_keeps: Duration | None = None,
        final: FinalErrors = (),
    ) -> EachResult:
        """Call ``call(item)`` for each item that is not done yet, each an effect of this run.

        As :meth:`effect` for every item, under the key ``key(item)``, with up to ``concurrency``
        calls at once, each in a thread, and with claims and records of many in one command. Of
        ``items``, any iterable, a page of 500 is held at once; it is taken from in this thread.
        What is done is skipped in a later attempt, and progress is recorded once a second.

        An item whose call fails stands in nobody's way. ``on_error="set-aside"``: the result says
        what was left, and the run ends as failed, or waits in state unknown where nobody knows
        whether an item happened. ``"retry"`` raises ItemsSetAside at the end, for the run's retry
        policy; ``"raise"`` raises the first error, as soon as the calls under way have ended.

        With ``transaction=True`` it is ``call(item, tx)``, one item after the other, in a fenced
        transaction that records it too: exactly once, and never unknown.

        A death leaves at most twice ``concurrency`` items unknown. Raises UsageError, LeaseLost.
        """
        options = Options(
            if_unknown=if_unknown,
            pass_key_as=pass_key_as,
            fingerprint=fingerprint,
            provider_keeps=provider_keeps,
            final=final,
        )
        run = self._services.run()
        carry(self._outside("each"), run)
        looping = self._looping(items, call, key, concurrency, on_error, transaction, options)
        looping.loop.refuse_async()

        def unit(item: Item, key: str) -> bool:
            def once(tx: Any) -> bool:
                if first := self.first(key, within=tx):
                    call(item, tx)
                return first

            return self.transact(once)

        return self._passed(drive(looping, items, run, unit if transaction else None))


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

    async def each(
        self,
        items: Iterable[Item] | AsyncIterable[Item],
        call: Callable[..., Any],
        *,
        key: Callable[[Item], str],
        concurrency: int = 10,
        on_error: OnError = "set-aside",
        transaction: bool = False,
        if_unknown: IfUnknownOption = "raise",
        pass_key_as: str | None = None,
        fingerprint: Callable[[Item], object] | None = None,
        provider_keeps: Duration | None = None,
        final: FinalErrors = (),
    ) -> EachResult:
        """Call ``call(item)`` for each item that is not done yet; see :meth:`Run.each`.

        An async call is awaited, a sync one gets a thread. ``items`` may be an async iterable; a
        plain one is taken from in the loop.
        """
        options = Options(
            if_unknown=if_unknown,
            pass_key_as=pass_key_as,
            fingerprint=fingerprint,
            provider_keeps=provider_keeps,
            final=final,
        )
        services = self._services
        await acarry(self._outside("each"), services.arun())
        looping = self._looping(items, call, key, concurrency, on_error, transaction, options)

        async def unit(item: Item, key: str) -> bool:
            async def once(tx: Any) -> bool:
                if first := await self.first(key, within=tx):
                    answer = call(item, tx)
                    if isawaitable(answer):
                        await answer
                return first

            return await self.transact(once)

        each = unit if transaction else None
        return self._passed(await adrive(looping, items, services.arun(), services.run(), each))
