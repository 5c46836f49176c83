"""A store for a loop: whoever ends knows whether a thread still waits for it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, TypeVar

import pytest

from onejob.commands.command import Command
from onejob.errors import StoreUnavailable
from onejob.stores.threaded import ThreadedStore

T = TypeVar("T")
LOOK: Command[Any] = Command("look", {}, lambda rows: rows)


class Silent:
    """A store that says nothing until it is told to."""

    dialect = where = "silent"

    def __init__(self) -> None:
        self.speaks = threading.Event()

    def run(self, command: Command[T], within: object = None) -> T:
        self.speaks.wait(20)
        raise StoreUnavailable(self.where, "it has hung up")


def test_a_command_under_way_in_a_thread_is_known_though_its_task_was_cancelled() -> None:
    """F12: else the process would wait for that thread at its end, for as long as it is silent."""
    store: Any = Silent()
    threaded = ThreadedStore(store, threads=1)

    async def go() -> None:
        assert await threaded.at_rest(0)
        task = asyncio.create_task(threaded.run(LOOK))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert not await threaded.at_rest(0.05)
        store.speaks.set()
        assert await threaded.at_rest(10)

    try:
        asyncio.run(go())
    finally:
        store.speaks.set()
        threaded.close()
