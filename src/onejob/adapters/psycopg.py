"""The caller's psycopg 3 connection, sync or async.

A known key never aborts the caller's transaction: the texts insert with DO NOTHING, they raise no
unique violation. Rows are read as plain tuples whatever row factory the connection has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from onejob.errors import UsageError


class PsycopgWithin:
    """Carries a statement inside the caller's transaction."""

    dialect: str = "postgresql"
    style: Literal["pyformat"] = "pyformat"
    #: The driver tells that a transaction is open, and not which.
    any_transaction = True

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def check(self) -> None:
        """Raise UsageError where nothing could join a transaction: before any I/O."""
        _check(self.connection)

    @property
    def open(self) -> bool:
        """Tell whether a transaction is open."""
        return _is_open(self.connection)

    def execute(self, text: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Carry out one statement and return its rows."""
        cursor = psycopg.Cursor(self.connection, row_factory=tuple_row)
        cursor.execute(text.encode(), parameters)
        # A description is made anew each time it is asked for.
        return cursor.fetchall() if cursor.rownumber is not None else ()


class AsyncPsycopgWithin:
    """The same for a connection that belongs to a loop."""

    dialect: str = "postgresql"
    style: Literal["pyformat"] = "pyformat"
    #: The driver tells that a transaction is open, and not which.
    any_transaction = True

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection

    def check(self) -> None:
        """Raise UsageError where nothing could join a transaction: before any I/O."""
        _check(self.connection)

    @property
    def open(self) -> bool:
        """Tell whether a transaction is open."""
        return _is_open(self.connection)

    async def aexecute(self, text: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Carry out one statement and return its rows."""
        cursor = psycopg.AsyncCursor(self.connection, row_factory=tuple_row)
        await cursor.execute(text.encode(), parameters)
        return await cursor.fetchall() if cursor.rownumber is not None else ()


def _check(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    if connection.closed:
        raise UsageError("within= got a psycopg connection that is closed. Give an open one.")
    match connection.info.transaction_status:
        case TransactionStatus.INERROR:
            raise UsageError(
                "within= got a psycopg connection whose transaction has failed already; the first "
                "error in it is the cause. Roll back, and begin again."
            )
        case TransactionStatus.IDLE if connection.autocommit:
            raise UsageError(
                "within= got a psycopg connection in autocommit mode without a transaction, so "
                "nothing would hold your change and ours together. Use it inside "
                "`with connection.transaction():`."
            )
        case _:
            pass


def _is_open(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return not connection.closed and connection.info.transaction_status in (
        TransactionStatus.INTRANS,
        TransactionStatus.INERROR,
        TransactionStatus.ACTIVE,
    )
