"""The caller's ``sqlite3.Connection``."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from onejob.adapters import as_text
from onejob.errors import UsageError


class SqliteWithin:
    """Carries a statement inside the caller's transaction.

    With the driver's default settings a transaction begins by itself before the first INSERT. The
    driver does not see that a statement which begins with WITH writes too, so it is begun here, as
    the driver would have done.
    """

    dialect: str = "sqlite"
    style: Literal["named"] = "named"
    #: Answers without a server to wait for, so that code in a loop may use it too.
    local = True

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def check(self) -> None:
        """Raise UsageError where nothing could join a transaction: before any I/O."""
        try:
            self.connection.cursor().close()
        except sqlite3.ProgrammingError as error:
            raise UsageError(
                f"within= got a sqlite3 connection that cannot be used here: {error} "
                "Give an open connection, in the thread that made it."
            ) from None
        if self._autocommits and not self.connection.in_transaction:
            raise UsageError(
                "within= got a sqlite3 connection in autocommit mode without a transaction, so "
                "nothing would hold your change and ours together. Execute BEGIN IMMEDIATE first."
            )

    @property
    def open(self) -> bool:
        """Tell whether a transaction is open."""
        try:
            return self.connection.in_transaction
        except sqlite3.ProgrammingError:
            return False

    def execute(self, text: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Carry out one statement and return its rows as plain tuples."""
        cursor = self.connection.cursor()
        cursor.row_factory = None
        try:
            if not self.connection.in_transaction:
                cursor.execute("BEGIN IMMEDIATE")
            rows = cursor.execute(text, parameters).fetchall()
            return rows if self.connection.text_factory is str else as_text(rows)
        finally:
            cursor.close()

    @property
    def _autocommits(self) -> bool:
        # Python 3.12 added the attribute; -1 stands for the older rules, told by isolation_level.
        autocommit = getattr(self.connection, "autocommit", -1)
        if autocommit == -1:
            return self.connection.isolation_level is None
        return bool(autocommit)
