"""Your connection, made to carry our commands inside the transaction that is open there.

An adapter is found by the names of the connection's type and of those it is derived from, so that
no driver is imported to ask: a connection of a driver exists only where that driver is. It never
commits, rolls back or closes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from onejob.errors import UsageError

#: Package and class of a connection, and the adapter for it: module and class.
_ADAPTERS = {
    "sqlite3.Connection": ("sqlite3", "SqliteWithin"),
    "psycopg.Connection": ("psycopg", "PsycopgWithin"),
    "psycopg.AsyncConnection": ("psycopg", "AsyncPsycopgWithin"),
    "psycopg2.connection": ("psycopg2", "Psycopg2Within"),
    "asyncpg.Connection": ("asyncpg", "AsyncpgWithin"),
    "asyncpg.PoolConnectionProxy": ("asyncpg", "AsyncpgWithin"),
    "aiosqlite.Connection": ("aiosqlite", "AiosqliteWithin"),
    "pymysql.Connection": ("pymysql", "PymysqlWithin"),
    "sqlalchemy.Connection": ("sqlalchemy", "SqlalchemyWithin"),
    "sqlalchemy.Session": ("sqlalchemy", "SqlalchemyWithin"),
    "sqlalchemy.scoped_session": ("sqlalchemy", "SqlalchemyWithin"),
    "sqlalchemy.AsyncConnection": ("sqlalchemy", "AsyncSqlalchemyWithin"),
    "sqlalchemy.AsyncSession": ("sqlalchemy", "AsyncSqlalchemyWithin"),
    "sqlalchemy.async_scoped_session": ("sqlalchemy", "AsyncSqlalchemyWithin"),
    "django.BaseDatabaseWrapper": ("django", "DjangoWithin"),
    "django.ConnectionProxy": ("django", "DjangoWithin"),
}

_KNOWN = (
    "a connection of psycopg, psycopg2, asyncpg, sqlite3, aiosqlite or PyMySQL, a connection or "
    "session of SQLAlchemy, or a connection of Django or its alias"
)

#: One database under the names that libraries give it.
_SAME = {"mysql": "mariadb"}


class Adapter(Protocol):
    """What every adapter has; besides, ``execute`` or ``aexecute`` (see ``stores.protocol``)."""

    @property
    def dialect(self) -> str:
        """Return the database's kind; one that no store knows is refused."""
        ...

    @property
    def open(self) -> bool:
        """Tell whether the transaction that was joined is still open."""
        ...

    def check(self) -> None:
        """Raise UsageError where no transaction could be joined: before any I/O of ours."""
        ...


def adapt(connection: object, *, dialect: str) -> Any:
    """Return the adapter for a sync connection to a store of ``dialect``; UsageError before I/O."""
    found = adapter_of(connection)
    if hasattr(found, "aexecute"):
        raise UsageError(
            "within= got an async connection in a sync call. Use the async twin (aenqueue, "
            "AsyncRun), or give a sync connection."
        )
    return _checked(found, dialect)


def adapt_any(connection: object, *, dialect: str) -> Any:
    """The same for calls in a loop: an async connection, or sqlite3's.

    A sync driver would stop the loop while it waits for its server. A file in this machine answers
    at once, and its connection is what an async handler's ``run.transaction()`` yields.
    """
    found = adapter_of(connection)
    if not hasattr(found, "aexecute") and not getattr(found, "local", False):
        raise UsageError(
            "within= got a sync connection in an async call, where it would stop the event loop "
            "while it waits for the server. Give an async connection, or call the sync twin "
            "(enqueue, Run) in the thread of this connection."
        )
    return _checked(found, dialect)


def adapter_of(connection: object) -> Any:
    """Return the adapter by the connection's type, or raise UsageError that names the type."""
    if isinstance(connection, str) and "django.db" in sys.modules:
        return _made("django", "DjangoWithin", connection)
    for kind in type(connection).__mro__:
        name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        if name in _ADAPTERS:
            return _made(*_ADAPTERS[name], connection)
    shown = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise UsageError(f"within= cannot use a {shown}. Give {_KNOWN}.")


def sqlstate(error: BaseException | None) -> str:
    """Return the SQLSTATE of a driver's error, whatever has been wrapped around it; "" for none."""
    while error is not None:
        code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if code:
            return str(code)
        error = getattr(error, "orig", None) or error.__cause__
    return ""


def family(name: str) -> str:
    """Return the dialect that speaks to a database of this name."""
    return _SAME.get(name, name)


def ordered(parameters: Mapping[str, Any]) -> Sequence[Any]:
    """Return numbered parameters as a driver takes them."""
    return tuple(parameters.values())


def as_text(rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """Return rows with text as text, where the caller has SQLite's given as bytes."""
    return [
        tuple(value.decode() if isinstance(value, bytes) else value for value in row)
        for row in rows
    ]


def _checked(adapter: Adapter, dialect: str) -> Any:
    if adapter.dialect != dialect:
        raise UsageError(
            f"within= got a {adapter.dialect} connection and this App's store is {dialect}: one "
            "transaction cannot span two databases. Give a connection to the App's own database."
        )
    adapter.check()
    return adapter


def _made(module: str, name: str, connection: object) -> Any:
    return getattr(import_module(f"onejob.adapters.{module}"), name)(connection)
