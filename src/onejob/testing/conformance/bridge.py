"""From an async store to ``run``: the same tests cover both colours."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TypeVar

from onejob.commands.command import Command
from onejob.stores.protocol import AsyncStore

T = TypeVar("T")


class Bridge:
    """Carry commands to an async store on a loop of its own; close it with ``with``."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store
        self._loop = asyncio.new_event_loop()

    def __call__(self, command: Command[T]) -> T:
        """Carry out one command and wait for its answer."""
        return self._loop.run_until_complete(self._store.run(command))

    def __enter__(self) -> Bridge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.close()
