"""A store for a loop: commands are carried out in threads, so that the loop never waits for I/O.

A batch of two hundred runs is one hop, so the hop costs nothing that can be measured, and there is
one driver path for each store to get right instead of two.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from onejob.commands.command import Command, Row
from onejob.stores.protocol import AsyncWithin, Store, Within

T = TypeVar("T")

#: How a pool says that it takes no more, and has not taken this.
_ENDED = "cannot schedule new futures after"


class ThreadedStore:
    """A store as a loop sees it. ``threads`` bounds how many commands run at once."""

    def __init__(self, store: Store, *, threads: int) -> None:
        self.store = store
        self.dialect, self.where = store.dialect, store.where
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="onejob-store")
        self._under_way: set[object] = set()

    async def run(self, command: Command[T], within: Within | AsyncWithin | None = None) -> T:
        """Carry out one command without blocking the loop.

        With an async connection of the caller's the command goes over that connection, in the
        loop; the store only supplies the text.
        """
        if isinstance(within, AsyncWithin):
            answer: Sequence[Row] = ()
            for statement in self.store.statements(command, within.style):
                rows = await within.aexecute(statement.text, statement.parameters)
                answer = rows if statement.answers else answer
            return command.decode(answer)
        loop = asyncio.get_running_loop()
        try:
            carried = loop.run_in_executor(self._threads, self._carried, command, within)
        except RuntimeError as error:
            if not str(error).startswith(_ENDED):
                raise
            # Closed, or the interpreter ends: what is left is given back, and from here.
            return self.store.run(command, within)
        return await carried

    def _carried(self, command: Command[T], within: Within | None) -> T:
        this = object()
        self._under_way.add(this)
        try:
            return self.store.run(command, within)
        finally:
            self._under_way.discard(this)

    async def at_rest(self, seconds: float) -> bool:
        """Wait until no thread has a command in its hands; False where one still has."""
        ends = time.monotonic() + seconds
        while self._under_way:
            if time.monotonic() > ends:
                return False
            await asyncio.sleep(0.01)
        return True

    def close(self) -> None:
        """Let running commands end, then stop the threads."""
        self._threads.shutdown(wait=True)
