"""The caller's asyncpg connection, its own or lent by a pool.

Parameters are numbered and typed: the driver encodes each one for the type that the server infers,
so JSON says that it comes as text, and a codec that the caller has set for jsonb is not in the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import asyncpg  # type: ignore[import-untyped]

from onejob.adapters import ordered
from onejob.errors import UsageError


class AsyncpgWithin:
    """Carries a statement inside the caller's transaction."""

    dialect: str = "postgresql"
    style: Literal["typed"] = "typed"
    #: The driver tells that a transaction is open, and not which.
    any_transaction = True

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def check(self) -> None:
        """Raise UsageError where nothing could join a transaction: before any I/O."""
        try:
            closed = self.connection.is_closed()
        except asyncpg.InterfaceError:
            raise UsageError(
                "within= got an asyncpg connection that has been given back to its pool. Use it "
                "inside `async with pool.acquire() as connection:`."
            ) from None
        if closed:
            raise UsageError("within= got an asyncpg connection that is closed. Give an open one.")
        if not self.connection.is_in_transaction():
            raise UsageError(
                "within= got an asyncpg connection without a transaction, so nothing would hold "
                "your change and ours together. Use it inside `async with "
                "connection.transaction():`."
            )

    @property
    def open(self) -> bool:
        """Tell whether a transaction is open."""
        try:
            return bool(not self.connection.is_closed() and self.connection.is_in_transaction())
        except asyncpg.InterfaceError:
            return False

    async def aexecute(self, text: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Carry out one statement and return its rows."""
        return [tuple(row) for row in await self.connection.fetch(text, *ordered(parameters))]
