"""The caller's ``aiosqlite.Connection``: sqlite3's, driven by a thread of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from onejob.adapters import as_text
from onejob.errors import UsageError


class AiosqliteWithin:
    """Carries a statement inside the caller's transaction.

    The driver below begins a transaction before INSERT and not before WITH, so one is begun here
    where none is open, as for sqlite3.
    """

    dialect: str = "sqlite"
    style: Literal["named"] = "named"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def check(self) -> None:
        """Raise UsageError where nothing could join a transaction: before any I/O."""
        try:
            in_transaction, level = self.connection.in_transaction, self.connection.isolation_level
        except ValueError:
            raise UsageError(
                "within= got an aiosqlite connection that is closed, or was never awaited. Use it "
                "inside `async with aiosqlite.connect(...) as connection:`."
            ) from None
        if level is None and not in_transaction:
            raise UsageError(
                "within= got an aiosqlite connection in autocommit mode without a transaction, so "
                "nothing would hold your change and ours together. Execute BEGIN IMMEDIATE first."
            )

    @property
    def open(self) -> bool:
        """Tell whether a transaction is open."""
        try:
            return bool(self.connection.in_transaction)
        except ValueError:
            return False

    async def aexecute(self, text: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Carry out one statement and return its rows as plain tuples."""
        async with self.connection.cursor() as cursor:
            cursor.row_factory = None
            if not self.connection.in_transaction:
                await cursor.execute("BEGIN IMMEDIATE")
            await cursor.execute(text, parameters)
            rows: Sequence[Sequence[Any]] = list(await cursor.fetchall())
            return rows if self.connection.text_factory is str else as_text(rows)
