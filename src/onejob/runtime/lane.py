"""A thread of its own for the keeper, and the one connection that an idle replica needs.

The keeper's loop runs in this thread and carries its commands out inline: nothing else can hold
them up but the store, and every command here is bounded by the lane's patience. The other loops
borrow the connection for their quiet commands (idle polls, ticks, looks), through :meth:`run`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from onejob.commands.command import Command
from onejob.core.time import SECOND
from onejob.errors import StoreUnavailable
from onejob.stores.protocol import Lane

T = TypeVar("T")

#: How often a store without a descriptor is asked for hints.
LOOK_SECONDS = 0.05


class KeeperHost(Protocol):
    """Where a keeper runs: a thread in production, the same loop in the simulator."""

    listening: bool

    def start(self, keep: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin to run the keeper."""
        ...

    async def own(self, command: Command[T]) -> T:
        """Carry out a command from inside the keeper."""
        ...

    async def run(self, command: Command[T]) -> T:
        """Carry out a command for one of the other loops."""
        ...

    async def pause(self, span: int) -> bool:
        """Wait in the keeper for at most ``span`` microseconds; True when a hint has arrived."""
        ...

    def wake(self) -> None:
        """End the keeper's pause early. Safe from any thread."""
        ...

    def tell(self, call: Callable[..., None], *arguments: object) -> None:
        """Call something in the loop of the others, from inside the keeper."""
        ...

    async def ended(self) -> None:
        """Wait until the keeper is over."""
        ...


class ThreadHost:
    """A keeper in a thread of its own, over a store's lane.

    ``tidy`` is called at each pause: the store closes what has been idle for long enough.
    """

    def __init__(self, lane: Lane, where: str, *, tidy: Callable[[], None]) -> None:
        self._lane, self._where, self._tidy = lane, where, tidy
        self._others = asyncio.get_running_loop()
        self._loop = asyncio.SelectorEventLoop()
        self._woken: asyncio.Event | None = None
        self._over = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self.listening = False

    def start(self, keep: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin to run the keeper in its thread."""
        self._thread = threading.Thread(
            target=self._main, args=(keep,), name="onejob-keeper", daemon=True
        )
        self._thread.start()

    async def own(self, command: Command[T]) -> T:
        """Carry out a command inline: only the keeper waits for it."""
        return self._lane.run(command)

    async def run(self, command: Command[T]) -> T:
        """Carry out a command of another loop, between the keeper's own."""
        if self._stopped:
            raise StoreUnavailable(self._where, "this replica is stopping")
        running = asyncio.run_coroutine_threadsafe(self._borrowed(command), self._loop)
        return await asyncio.wrap_future(running)

    async def pause(self, span: int) -> bool:
        """Wait for a hint, a wake-up or the time."""
        assert self._woken is not None, "the keeper runs in its own loop"
        self._tidy()
        if not self.listening:
            await self._try_to_listen()
        try:
            descriptor = self._lane.fileno() if self.listening else None
        except Exception:  # noqa: BLE001 - no hints for a while: the poll is the truth
            # One try to reconnect for each pause, not one for each look.
            await _wait(self._woken, span / SECOND)
            return False
        if descriptor is None and self.listening:
            return await self._look_often(span)
        if descriptor is None:
            await _wait(self._woken, span / SECOND)
            return False
        self._loop.add_reader(descriptor, self._woken.set)
        try:
            # A hint that came with the reply to a command has left the socket already.
            if not self._hinted():
                await _wait(self._woken, span / SECOND)
                return self._hinted()
        finally:
            self._loop.remove_reader(descriptor)
        return True

    def wake(self) -> None:
        """End the pause early."""
        if self._woken is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    def tell(self, call: Callable[..., None], *arguments: object) -> None:
        """Call something in the others' loop; nobody listens any more once that has ended."""
        if not self._others.is_closed():
            self._others.call_soon_threadsafe(call, *arguments)

    async def ended(self) -> None:
        """Wait until the thread is over."""
        await self._over.wait()

    def _main(self, keep: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            self._woken = asyncio.Event()
            await keep()

        try:
            self._loop.run_until_complete(main())
        finally:
            self._stopped = True
            self._loop.run_until_complete(asyncio.sleep(0))
            self._lane.close()
            self._loop.close()
            self.tell(self._over.set)

    async def _borrowed(self, command: Command[T]) -> T:
        assert self._woken is not None, "the keeper runs in its own loop"
        try:
            return self._lane.run(command)
        finally:
            # Whatever was read beside the reply is a hint that no socket will show any more.
            self._woken.set()

    async def _try_to_listen(self) -> None:
        try:
            self.listening = self._lane.listen()
        except Exception:  # noqa: BLE001 - no hints for a while: the poll is the truth
            self.listening = False

    async def _look_often(self, span: int) -> bool:
        assert self._woken is not None, "the keeper runs in its own loop"
        left = span / SECOND
        while left > 0:
            woken = await _wait(self._woken, min(left, LOOK_SECONDS))
            if self._hinted():
                return True
            if woken:
                return False
            left -= LOOK_SECONDS
        return False

    def _hinted(self) -> bool:
        try:
            return self._lane.hinted()
        except Exception:  # noqa: BLE001 - no hints for a while: the poll is the truth
            return False


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event for at most so long; clears it."""
    try:
        await asyncio.wait_for(event.wait(), max(0.0, seconds))
    except TimeoutError:
        return False
    event.clear()
    return True
