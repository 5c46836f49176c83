"""What went wrong with our statement on the caller's connection.

Two errors would puzzle: there are no tables of ours at that database, and the transaction had
failed before we came. Every other one is the driver's own, as the caller's statements raise it:
what to do about a deadlock or a serialisation failure is up to whoever opened the transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onejob.adapters import sqlstate
from onejob.errors import OnejobError, SchemaMismatch, UsageError
from onejob.stores import migrate

#: The tables, the schema or a function of ours are not there.
_NOT_THERE = {"42P01", "3F000", "42883"}
_FAILED_ALREADY = "25P02"


@contextmanager
def explained(store: Any) -> Iterator[None]:
    """Turn those two into errors of ours."""
    try:
        yield
    except OnejobError:
        raise
    except Exception as error:
        if (ours := _explained(error, store)) is None:
            raise
        raise ours from error


@contextmanager
def refuse_failed() -> Iterator[None]:
    """Turn the second alone into one of ours, where no tables of ours are asked."""
    try:
        yield
    except Exception as error:
        if sqlstate(error) != _FAILED_ALREADY:
            raise
        raise _failed_already() from error


def _failed_already() -> UsageError:
    return UsageError(
        "this connection's transaction has failed already; the first error in it is the cause. "
        "Roll back, and begin again."
    )


def _no_table(text: str, prefix: str) -> bool:
    """Tell it by what SQLite says, or MariaDB: (1146, "Table 'db.PREFIX…' doesn't exist")."""
    return f"no such table: {prefix}" in text or ("(1146," in text and f".{prefix}" in text)


def _explained(error: Exception, store: Any) -> OnejobError | None:
    code = sqlstate(error)
    if code == _FAILED_ALREADY:
        return _failed_already()
    if code in _NOT_THERE or _no_table(str(error), store.catalogue.prefix):
        where = (
            f"the database of the connection given as within= (is it the App's own, {store.where}, "
            f"schema {store.catalogue.schema!r}?)"
        )
        return SchemaMismatch(where, found=None, wanted=migrate.latest(store.catalogue))
    return None
