"""Where the transactions of a consume loop come from.

The App's own: for async handlers on PostgreSQL over connections that are kept for as long as the
loop lasts, one for each message at work. Or the caller's, such as ``sessionmaker.begin``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
)
from typing import Any, TypeAlias

from onejob.core.time import Span
from onejob.services import Services
from onejob.transaction import open_transaction

OpenTransaction: TypeAlias = Callable[
    [], AbstractContextManager[Any] | AbstractAsyncContextManager[Any]
]


class Transactions:
    """Transactions in the App's store; ``longest`` bounds how long one may sit idle."""

    def __init__(self, services: Services, longest: Span) -> None:
        self._services, self._longest = services, longest
        self._idle: list[Any] = []

    def open(self) -> AbstractContextManager[Any]:
        """Open one for sync code; commits at the end."""
        return self._services.store.transaction(longest=self._bound)

    @asynccontextmanager
    async def aopen(self) -> AsyncIterator[Any]:
        """Open one for code in the loop; commits at the end."""
        if self._services.store.dialect != "postgresql":
            async with open_transaction(self._services, longest=self._bound) as connection:
                yield connection
            return
        store: Any = self._services.store
        connection = self._idle.pop() if self._idle else await self._connect()
        sound = False
        try:
            with store.mapped("transaction"):
                async with connection.transaction():
                    if store.pooled:
                        await connection.execute(_BOUND, (str(self._longest // 1_000), True))
                    yield connection
            sound = True
        except Exception:
            sound = not connection.closed
            raise
        finally:
            # One that was cancelled in the middle of something is not asked what became of it.
            if sound:
                self._idle.append(connection)
            else:
                await connection.close()

    async def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            await self._idle.pop().close()

    @property
    def _bound(self) -> Span:
        # On SQLite an open one stops every other writer.
        return min(self._longest, self._services.longest)

    async def _connect(self) -> Any:
        import psycopg

        from onejob.errors import StoreUnavailable

        store: Any = self._services.store
        try:
            connection = await psycopg.AsyncConnection.connect(store.conninfo, autocommit=True)
        except psycopg.OperationalError as error:
            raise StoreUnavailable(store.where, str(error).strip()) from error
        if store.pooled:
            connection.prepare_threshold = None
        else:
            connection.prepare_threshold = 2
            await connection.execute(_BOUND, (str(self._longest // 1_000), False))
        return connection


_BOUND = "SELECT set_config('idle_in_transaction_session_timeout', %s, %s)"
