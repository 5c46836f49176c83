"""Your connection, made to carry our commands inside the transaction that is open there.

An adapter is found by the connection's type, without importing any driver: a connection of a driver
exists only where that driver has been imported. It never commits, rolls back or closes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from onejob.errors import UsageError

if TYPE_CHECKING:
    from onejob.adapters.psycopg import PsycopgWithin
    from onejob.adapters.sqlite3 import SqliteWithin

    Adapter: TypeAlias = SqliteWithin | PsycopgWithin

_KNOWN = "a sqlite3.Connection, psycopg.Connection or psycopg.AsyncConnection"


def adapt(connection: object, *, dialect: str) -> Adapter:
    """Return the adapter for a sync connection to a store of ``dialect``; UsageError before I/O."""
    found = adapt_any(connection, dialect=dialect)
    if hasattr(found, "aexecute"):
        raise UsageError(
            "within= got an async connection in a sync call. Use the async twin (aenqueue, "
            "AsyncRun), or give a sync connection."
        )
    sync: Adapter = found
    return sync


def adapt_any(connection: object, *, dialect: str) -> Any:
    """The same for calls that can also await: a sync connection or an async one."""
    adapter = _adapter(connection)
    if adapter.dialect != dialect:
        raise UsageError(
            f"within= got a {adapter.dialect} connection and this App's store is {dialect}: one "
            "transaction cannot span two databases. Give a connection to the App's own database."
        )
    adapter.check()
    return adapter


def _adapter(connection: Any) -> Any:
    sqlite3 = sys.modules.get("sqlite3")
    if sqlite3 is not None and isinstance(connection, sqlite3.Connection):
        from onejob.adapters.sqlite3 import SqliteWithin

        return SqliteWithin(connection)
    psycopg = sys.modules.get("psycopg")
    if psycopg is not None and isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        from onejob.adapters.psycopg import AsyncPsycopgWithin, PsycopgWithin

        if isinstance(connection, psycopg.AsyncConnection):
            return AsyncPsycopgWithin(connection)
        return PsycopgWithin(connection)
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise UsageError(f"within= cannot use a {kind}. Give {_KNOWN}.")
