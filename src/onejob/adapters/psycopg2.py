"""The caller's psycopg2 connection.

Parameters are written into the text by the driver. Rows are read as plain tuples whatever cursor
factory the connection has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from psycopg2 import extensions  # type: ignore[import-untyped]

from onejob.errors import UsageError


class Psycopg2Within:
    """Carries a statement inside the caller's transaction."""

    dialect: str = "postgresql"
    style: Literal["pyformat"] = "pyformat"
    #: The driver tells that a transaction is open, and not which.
    any_transaction = True

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def check(self) -> None:
        """Raise UsageError where nothing could join a transaction: before any I/O."""
        connection = self.connection
        if connection.closed:
            raise UsageError("within= got a psycopg2 connection that is closed. Give an open one.")
        if connection.async_:
            raise UsageError(
                "within= got a psycopg2 connection in its asynchronous mode, which has no "
                "transactions. Give one that was connected without async_."
            )
        status = connection.get_transaction_status()
        if status == extensions.TRANSACTION_STATUS_INERROR:
            raise UsageError(
                "within= got a psycopg2 connection whose transaction has failed already; the "
                "first error in it is the cause. Roll back, and begin again."
            )
        if status == extensions.TRANSACTION_STATUS_IDLE and connection.autocommit:
            raise UsageError(
                "within= got a psycopg2 connection in autocommit mode without a transaction, so "
                "nothing would hold your change and ours together. Set autocommit = False, or "
                "execute BEGIN first."
            )

    @property
    def open(self) -> bool:
        """Tell whether a transaction is open."""
        connection = self.connection
        return not connection.closed and connection.get_transaction_status() in (
            extensions.TRANSACTION_STATUS_INTRANS,
            extensions.TRANSACTION_STATUS_INERROR,
            extensions.TRANSACTION_STATUS_ACTIVE,
        )

    def execute(self, text: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Carry out one statement and return its rows."""
        with self.connection.cursor(cursor_factory=extensions.cursor) as cursor:
            cursor.execute(text, parameters)
            rows: Sequence[Sequence[Any]] = cursor.fetchall() if cursor.description else ()
            return rows
