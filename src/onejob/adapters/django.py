"""The caller's Django connection, or the alias of one, as Django drives it.

Statements go through Django's own cursor, so that it counts, logs and wraps them like any other. An
alias is looked up in the thread that calls, as Django does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from django.db import DatabaseError, connections, transaction
from django.utils.connection import (
    ConnectionDoesNotExist,
    ConnectionProxy,
)

from onejob.adapters import family
from onejob.errors import UsageError

_ATOMIC = (
    "Use it inside `with transaction.atomic():` (with using= for another alias than 'default')."
)


class DjangoWithin:
    """Carries a statement inside the caller's atomic block."""

    #: Django writes ``%(name)s`` for every database, and turns it into what the driver below reads.
    style: Literal["pyformat"] = "pyformat"

    def __init__(self, given: Any) -> None:
        self.connection = _connection(given)
        self.dialect: str = family(self.connection.vendor)
        self._block = self._outermost()

    def check(self) -> None:
        """Raise UsageError where nothing could join a transaction: before any I/O."""
        connection, name = self.connection, f"Django's connection {self.connection.alias!r}"
        try:
            connection.validate_thread_sharing()
        except DatabaseError:
            raise UsageError(
                f"within= got {name} of another thread. Give the alias {connection.alias!r} "
                "instead: each thread has its own."
            ) from None
        if connection.closed_in_transaction:
            raise UsageError(
                f"within= got {name}, which was closed inside its atomic block. Leave the block, "
                "and begin again."
            )
        if connection.needs_rollback:
            raise UsageError(
                f"within= got {name}, whose atomic block has failed already and will be rolled "
                "back; the first error in it is the cause. Leave the block, and begin again."
            )
        if not connection.in_atomic_block and (connection.connection is None or self._autocommits):
            raise UsageError(
                f"within= got {name} outside a transaction, so nothing would hold your change and "
                f"ours together. {_ATOMIC}"
            )

    @property
    def open(self) -> bool:
        """Tell whether the outermost block that was joined is still open."""
        if self.connection.in_atomic_block:
            return self._outermost() is self._block
        return self.connection.connection is not None and not self._autocommits

    def execute(self, text: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Carry out one statement and return its rows."""
        with self.connection.cursor() as cursor:
            cursor.execute(text, parameters)
            rows: Sequence[Sequence[Any]] = cursor.fetchall() if cursor.description else ()
            return rows

    def savepoint(self) -> Any:
        """Return a block inside the caller's: Django then knows that its failure ends there."""
        return transaction.atomic(using=self.connection.alias)

    @property
    def _autocommits(self) -> bool:
        return bool(self.connection.autocommit)

    def _outermost(self) -> object:
        blocks = self.connection.atomic_blocks
        return blocks[0] if blocks else None


def _connection(given: Any) -> Any:
    if isinstance(given, ConnectionProxy):
        given = given._alias
    if not isinstance(given, str):
        return given
    try:
        return connections[given]
    except ConnectionDoesNotExist:
        raise UsageError(
            f"within={given!r} is no alias in Django's DATABASES, which has: "
            f"{', '.join(sorted(connections))}."
        ) from None
