"""``app.lock``: one holder at a time over all processes, by a lease in the store.

One object serves both colours: ``with`` gives a :class:`Lease`, ``async with`` an
:class:`AsyncLease`, and as a decorator it does what the function is. Each use takes the lock anew,
under an owner of its own: a second one is refused, from the same thread too.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import weakref
from collections.abc import Callable
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, TypeVar

from onejob import fences
from onejob.commands import leases
from onejob.commands.command import Command
from onejob.core.hold import Grip
from onejob.errors import LeaseLost, OnejobError, StoreError, UsageError
from onejob.lease import AsyncLease, Lease
from onejob.runtime.events import log
from onejob.runtime.held import Held
from onejob.services import Services
from onejob.uses import Uses
from onejob.waiting import Asking, Waiters, Wanted, atake, take

F = TypeVar("F", bound=Callable[..., Any])
AnyLease = TypeVar("AnyLease", Lease, AsyncLease)
OnLost = Callable[[Any], object]


class Lock:
    """A named lock. Made by ``app.lock``; opens nothing before it is used."""

    def __init__(
        self,
        wanted: Wanted,
        services: Callable[[], Services],
        waiters: Waiters,
        random: Random,
        on_lost: OnLost | None,
    ) -> None:
        self._wanted, self._open, self._waiters, self._random = wanted, services, waiters, random
        self._on_lost = on_lost
        self._uses: Uses[Lease | AsyncLease] = Uses()

    def __repr__(self) -> str:
        return f"<Lock {self._wanted.name!r}>"

    def __enter__(self) -> Lease:
        self._refuse_in_loop()
        services = self._open()
        asking = self._asking(services)
        held = take(asking, services, self._waiters)
        return self._entered(Lease(held, services), asking)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        lease = self._uses.leave()
        services, held = lease._services, lease._held
        why, command = self._left(lease)
        if command is not None:
            try:
                released = services.run()(command)
            except OnejobError as trouble:
                self._owe(services, held, command, trouble, raised=kind is not None)
            else:
                why = self._released(services, held, released, why)
        if why and kind is None:
            raise LeaseLost(held.what, token=held.token, why=why)

    async def __aenter__(self) -> AsyncLease:
        services = self._open()
        asking = self._asking(services)
        held = await atake(asking, services, self._waiters)
        return self._entered(AsyncLease(held, services), asking)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        lease = self._uses.leave()
        assert isinstance(lease, AsyncLease), "entered by async with"
        services, held = lease._services, lease._held
        cancelled_by_us = lease._ended(kind)
        why, command = self._left(lease)
        if command is not None:
            # A release that is under way goes on when its waiter is cancelled.
            releasing = asyncio.ensure_future(services.arun()(command))
            try:
                released = await asyncio.shield(releasing)
            except asyncio.CancelledError:
                releasing.add_done_callback(partial(self._left_behind, services, held, command))
                raise
            except OnejobError as trouble:
                self._owe(services, held, command, trouble, raised=kind is not None)
            else:
                why = self._released(services, held, released, why)
        if why and (kind is None or cancelled_by_us):
            raise LeaseLost(held.what, token=held.token, why=why) from error

    def __call__(self, function: F) -> F:
        """Hold the lock for each call of ``function``. NotAcquired, where it is not to be had."""
        if isinstance(function, staticmethod):
            return staticmethod(self(function.__func__))  # type: ignore[return-value]
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UsageError(_runs_later(function, "generator"))
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - its colour, not whether it has one
        ):

            @functools.wraps(function)
            async def alocked(*args: Any, **kwargs: Any) -> Any:
                async with self:
                    return await function(*args, **kwargs)

            return alocked  # type: ignore[return-value]

        @functools.wraps(function)
        def locked(*args: Any, **kwargs: Any) -> Any:
            with self:
                return _done(function, function(*args, **kwargs))

        return locked  # type: ignore[return-value]

    def _refuse_in_loop(self) -> None:
        if not self._wanted.wait:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise UsageError(
            f"`with` would wait for {self._wanted.what} in a running loop, and hold up everything "
            "else in it. Use `async with`, or wait=0."
        )

    def _asking(self, services: Services) -> Asking:
        return Asking(self._wanted, services, self._random)

    def _entered(self, lease: AnyLease, asking: Asking) -> AnyLease:
        services, held = lease._services, lease._held
        held.on_lost = _Teller(lease, services, self._on_lost)
        try:
            services.renewer.hold(held)
        except BaseException:
            # Not renewed, so not ours to work under: the others need not wait for it to lapse.
            lease._left()
            services.run()(leases.release(held.grip))
            raise
        self._uses.enter(lease)
        lease._entered()
        if (tidy := asking.tidy()) is not None:
            # From the renewer's thread, so that nobody waits for it.
            services.renewer.release_later(tidy, ttl=held.ttl)
        services.events.emit("lock.acquired", lock=self._wanted.name, token=held.token)
        return lease

    def _left(self, lease: Lease | AsyncLease) -> tuple[str, Command[bool] | None]:
        """Stop renewing; return why it was lost, if so, and the release that is to be sent.

        A forked child sends none: what it left is its parent's.
        """
        held, now = lease._held, lease._services.clock.now()
        lease._left()
        if held.is_inherited:
            return "", None
        if isinstance(held.on_lost, _Teller):
            held.on_lost.keep(lease)
        why = held.over(now)
        lease._services.renewer.drop(held)
        return why or held.lost, leases.release(held.grip)

    def _released(self, services: Services, held: Held, released: bool, why: str) -> str:
        """Tell of a release that was answered; return why the lock was lost, if it was."""
        if released:
            self._waiters.released(self._wanted.name)
            services.events.emit("lock.released", lock=self._wanted.name, token=held.token)
        elif not why:
            services.renewer.lost(held, _NOT_OURS)
            return _NOT_OURS
        if not why:
            _end(held)
        return why

    def _left_behind(
        self, services: Services, held: Held, command: Command[bool], releasing: Any
    ) -> None:
        """Owe a release that failed after nobody waited for it any more."""
        if not releasing.cancelled() and releasing.exception() is None:
            return
        services.renewer.release_later(command, ttl=held.ttl)

    def _owe(
        self,
        services: Services,
        held: Held,
        command: Command[bool],
        trouble: OnejobError,
        *,
        raised: bool,
    ) -> None:
        """Give it back later: the body's work is done, whatever becomes of the release."""
        services.renewer.release_later(command, ttl=held.ttl)
        if not held.lost:
            _end(held)
        if any(fence.holder == held.grip for fence in fences.around()):
            if not raised:
                raise UsageError(_TOO_EARLY.format(what=held.what)) from trouble
        elif not isinstance(trouble, StoreError):
            raise trouble
        else:
            services.events.emit("store.trouble", doing="release", error=str(trouble))


class _Teller:
    """What the watch thread calls on loss. Keeps no lease alive that is used no more."""

    def __init__(
        self, lease: Lease | AsyncLease, services: Services, on_lost: OnLost | None
    ) -> None:
        self._lease, self._services, self._on_lost = weakref.ref(lease), services, on_lost
        self._kept: Lease | AsyncLease | None = None

    def keep(self, lease: Lease | AsyncLease) -> None:
        """Keep it: its block has ended, and it may still have to be told of."""
        self._kept = lease

    def __call__(self, held: Held) -> None:
        lease = self._lease()
        if isinstance(lease, AsyncLease):
            lease._lost()
        grip: Grip = held.grip
        self._services.events.emit("lock.lost", lock=grip.name, token=held.token, why=held.lost)
        self._kept = None
        if lease is not None and self._on_lost is not None:
            # In a thread of its own: however long it takes, others hear of theirs.
            told = threading.Thread(
                target=_tell, args=(self._on_lost, lease), name="onejob-lost", daemon=True
            )
            try:
                told.start()
            except RuntimeError:  # no thread to be had: late for the others, but told
                _tell(self._on_lost, lease)


def _tell(on_lost: OnLost, lease: Lease | AsyncLease) -> None:
    try:
        on_lost(lease)
    except BaseException:  # noqa: BLE001 - the caller's own function, and nobody above it
        log.exception("on_lost of lock %r failed", lease.name)


def _done(function: Callable[..., Any], result: Any) -> Any:
    """Return what a call returned; refuse what would only begin now, without the lock."""
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result) or inspect.isgenerator(result):
            result.close()
        raise UsageError(_runs_later(function, type(result).__name__))
    return result


def _runs_later(function: Callable[..., Any], kind: str) -> str:
    name = getattr(function, "__name__", repr(function))
    return (
        f"{name} gives a {kind}: its body would run after the call, without the lock. Take the "
        "lock inside it, or put this decorator on the `async def` itself, below the others."
    )


def _end(held: Held) -> None:
    """Let nobody believe in a lease that was given back; and nobody be told that it was lost."""
    held.lost, held.on_lost = "it has been released", None


_TOO_EARLY = (
    "the block of {what} ended, and the transaction that lease.fence() keeps it in is still open. "
    "End the transaction inside the block: what it writes is the lock's work. Nothing is lost: "
    "nobody gets the lock before the transaction has ended, and then it is free."
)
_NOT_OURS = "when it was released, the store had it no longer as ours"
