"""The caller's PyMySQL connection, to MariaDB or MySQL.

Without autocommit the server begins a transaction with the first statement. Rows are read as plain
tuples whatever cursor class the connection has. Names travel as bytes, so its charset is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pymysql
from pymysql.constants import SERVER_STATUS
from pymysql.cursors import Cursor

from onejob.errors import UsageError


class PymysqlWithin:
    """Carries a statement inside the caller's transaction."""

    dialect: str = "mariadb"
    style: Literal["pyformat"] = "pyformat"
    #: The driver tells that a transaction is open, and not which.
    any_transaction = True

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self.connection = connection

    def check(self) -> None:
        """Raise UsageError where nothing could join a transaction: before any I/O."""
        connection = self.connection
        if not connection.open:
            raise UsageError("within= got a PyMySQL connection that is closed. Give an open one.")
        if connection.get_autocommit() and not self._begun:
            raise UsageError(
                "within= got a PyMySQL connection in autocommit mode without a transaction, so "
                "nothing would hold your change and ours together. Call begin() first, or connect "
                "without autocommit."
            )

    @property
    def open(self) -> bool:
        """Tell whether a transaction is open."""
        return bool(self.connection.open) and self._begun

    def execute(self, text: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Carry out one statement and return its rows."""
        with self.connection.cursor(Cursor) as cursor:
            cursor.execute(text, dict(parameters))
            rows: Sequence[Sequence[Any]] = cursor.fetchall() if cursor.description else ()
            return rows

    @property
    def _begun(self) -> bool:
        # Known once the server has greeted, which the driver's type does not say.
        status: int = getattr(self.connection, "server_status")  # noqa: B009
        return bool(status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)
