"""Where a simulated replica's keeper runs: in the same loop, on a strand of its own.

As in production the keeper and whoever borrows its connection take turns on one lane, and a blocked
main strand does not hold it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from onejob.commands.command import Command
from onejob.core.time import SECOND
from onejob.errors import StoreUnavailable
from onejob.prove.server import WHERE, Link, Server
from onejob.prove.virtual import Strand, VirtualLoop
from onejob.stores.protocol import Lane

T = TypeVar("T")

#: How long a hint travels.
HINT_SPAN = 1_000


class SimHost:
    """A keeper's host. ``listens``: whether this process can receive hints at all."""

    def __init__(
        self,
        loop: VirtualLoop,
        server: Server,
        link: Link,
        lane: Lane,
        *,
        keeper: Strand,
        others: Strand,
        listens: bool,
    ) -> None:
        self._loop, self._server, self._link, self._lane = loop, server, link, lane
        self._keeper, self._others, self._listens = keeper, others, listens
        self._turn = asyncio.Lock()
        self._woken = asyncio.Event()
        self._hinted = False
        self._over = asyncio.Event()
        self._stopped = False
        self.listening = False

    def start(self, keep: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin to run the keeper on its strand."""
        self._keeper.start(self._main(keep))

    async def own(self, command: Command[T]) -> T:
        """Carry out a command, after those that are on the lane already."""
        async with self._turn:
            return await self._link.run(command)

    async def run(self, command: Command[T]) -> T:
        """Carry out a command of another loop on the keeper's strand."""
        if self._stopped:
            raise StoreUnavailable(WHERE, "this replica is stopping")
        return await self._loop.create_task(self.own(command), context=self._keeper.context)

    async def pause(self, span: int) -> bool:
        """Wait for a hint, a wake-up or the time."""
        if self._listens and not self.listening and not self._server.down:
            self.listening = self._lane.listen()
            self._server.written.append(self._look)
        try:
            await asyncio.wait_for(self._woken.wait(), max(0, span) / SECOND)
        except TimeoutError:
            pass
        self._woken.clear()
        hinted, self._hinted = self._hinted, False
        return hinted

    def wake(self) -> None:
        """End the pause early."""
        self._woken.set()

    def tell(self, call: Callable[..., None], *arguments: object) -> None:
        """Call something on the others' strand."""
        self._loop.call_soon(call, *arguments, context=self._others.context)

    async def ended(self) -> None:
        """Wait until the keeper is over."""
        await self._over.wait()

    def close(self) -> None:
        """Listen no more."""
        if self._look in self._server.written:
            self._server.written.remove(self._look)
        self._lane.close()

    async def _main(self, keep: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await keep()
        finally:
            self._stopped = True
            self._over.set()

    def _look(self) -> None:
        """See in the world's time whether a hint is there, and let it travel."""
        if self._lane.hinted():
            self._loop.later(HINT_SPAN, self._receive)

    def _receive(self) -> None:
        self._hinted = True
        self._woken.set()
