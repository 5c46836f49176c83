"""Both colours from one store: the same tests call it directly and through a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from onejob.commands.command import Command
from onejob.stores.protocol import AsyncStore, Store
from onejob.stores.threaded import ThreadedStore
from onejob.testing.conformance.given import Run

T = TypeVar("T")


@contextmanager
def coloured(store: Store, colour: str) -> Iterator[Run]:
    """Give ``run`` on a store: called directly ("sync") or awaited on a loop ("async")."""
    if colour == "sync":
        yield store.run
        return
    threaded = ThreadedStore(store, threads=1)
    with bridge(threaded) as run:
        yield run
    threaded.close()


@contextmanager
def bridge(store: AsyncStore) -> Iterator[Run]:
    """Give ``run`` on an async store: each command is awaited on a loop of this bridge's own."""
    loop = asyncio.new_event_loop()

    def run(command: Command[T]) -> T:
        return loop.run_until_complete(store.run(command))

    try:
        yield run
    finally:
        loop.close()
