"""A transaction of the store's, held open by code in a loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, TypeVar

from onejob.core.time import Span
from onejob.errors import UnsupportedByStore
from onejob.services import Services

T = TypeVar("T")


@asynccontextmanager
async def open_transaction(
    services: Services, *, longest: Span | None = None
) -> AsyncIterator[Any]:
    """Open a transaction for code in this loop, and commit it at the end.

    On PostgreSQL through an async connection that serves nobody else meanwhile. SQLite's driver has
    none: the transaction is begun and ended in a thread, and its connection may be used in the
    loop. MariaDB's waits for its server, and would stop the loop.
    """
    if services.store.dialect == "mariadb":
        raise UnsupportedByStore(
            "open a transaction for code in a loop",
            "MariaDB",
            instead="Its driver here is PyMySQL, which is sync: hold the lock and open its "
            "transaction in a thread (asyncio.to_thread), or check the token with app.fence.",
        )
    store: Any = services.store
    if store.dialect == "postgresql":
        async with store.transaction_in_a_loop() as connection:
            yield connection
    else:
        transaction = services.store.transaction(longest=longest or services.longest)
        async with _in_a_thread(transaction) as connection:
            yield connection


@asynccontextmanager
async def _in_a_thread(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave a blocking context manager in one thread, whatever is cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1, thread_name_prefix="onejob-transaction")
    try:
        entering = loop.run_in_executor(thread, manager.__enter__)
        try:
            value = await asyncio.shield(entering)
        except asyncio.CancelledError as cancelled:
            # Entered all the same, so left again: it would stop every other writer.
            if await _quietly(entering):
                await loop.run_in_executor(thread, _leave, manager, cancelled)
            raise
        try:
            yield value
        except BaseException as error:
            if not await asyncio.shield(loop.run_in_executor(thread, _leave, manager, error)):
                raise
        else:
            await asyncio.shield(loop.run_in_executor(thread, manager.__exit__, None, None, None))
    finally:
        thread.shutdown(wait=False)


async def _quietly(entering: asyncio.Future[Any]) -> bool:
    await asyncio.wait([entering])
    return entering.exception() is None


def _leave(manager: AbstractContextManager[Any], error: BaseException) -> bool:
    try:
        return bool(manager.__exit__(type(error), error, error.__traceback__))
    except BaseException as raised:
        if raised is not error:
            raise
        return False
