"""Messages at work in one loop: as many as there is room for, and all of them ended at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from onejob.runtime.events import log


class Crew:
    """At most ``size`` tasks at once."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._tasks: set[asyncio.Task[None]] = set()

    async def room(self) -> int:
        """Wait until there is room, and return how much: what is fetched begins at once."""
        while len(self._tasks) >= self._size:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        return self._size - len(self._tasks)

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin one."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def drain(self, seconds: float) -> None:
        """Let what is at work end; cancel what has not by then."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Not told to the broker, so delivered again.
            log.error("a delivery ended with %s: %s", type(error).__name__, error)


async def until(stop: asyncio.Event | None, work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` until it ends or ``stop`` is set, and then cancel it."""
    task = asyncio.create_task(work)
    waiting = asyncio.create_task(stop.wait() if stop is not None else asyncio.Event().wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        task.cancel()
        await asyncio.wait({task, waiting})
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
