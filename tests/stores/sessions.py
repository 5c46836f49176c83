"""Sessions as users have them: their own connection, with a transaction open on it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import TypeVar

import psycopg

from onejob.commands.command import Command, Parameter, Row
from onejob.stores.postgres import PostgresStore
from onejob.stores.protocol import Style
from onejob.stores.sqlite import SqliteStore
from onejob.testing.conformance import Busy

T = TypeVar("T")

#: How long a session waits for another one's lock.
PATIENCE_MS = 100


class SqliteSession:
    """A user's own sqlite3 connection; its transaction begins with its first command."""

    dialect = "sqlite"
    style: Style = "named"

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._connection = sqlite3.connect(
            store.path, timeout=PATIENCE_MS / 1_000, isolation_level=None
        )

    def run(self, command: Command[T]) -> T:
        try:
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN IMMEDIATE")
            return self._store.run(command, within=self)
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise Busy from error
            raise

    def execute(self, text: str, parameters: Mapping[str, Parameter]) -> Sequence[Row]:
        return self._connection.execute(text, parameters).fetchall()

    def savepoint(self) -> None:
        self._connection.execute("SAVEPOINT here")

    def rollback_to_savepoint(self) -> None:
        self._connection.execute("ROLLBACK TO here")

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


class PostgresSession:
    """A user's own psycopg connection; its transaction begins with its first command."""

    dialect = "postgresql"
    style: Style = "pyformat"

    def __init__(self, store: PostgresStore, url: str, patience_ms: int) -> None:
        self._store = store
        self._connection = psycopg.connect(url, options=f"-c lock_timeout={patience_ms}")

    def run(self, command: Command[T]) -> T:
        try:
            return self._store.run(command, within=self)
        except psycopg.errors.LockNotAvailable as error:
            raise Busy from error

    def execute(self, text: str, parameters: Mapping[str, Parameter]) -> Sequence[Row]:
        cursor = self._connection.execute(text.encode(), parameters)
        return cursor.fetchall() if cursor.description else ()

    @property
    def pid(self) -> int:
        """The server's process for this session."""
        return self._connection.info.backend_pid

    def setting(self, name: str) -> str:
        """Return a setting of this session as it stands."""
        [row] = self._connection.execute("SELECT current_setting(%s)", (name,)).fetchall()
        return str(row[0])

    def savepoint(self) -> None:
        self._connection.execute("SAVEPOINT here")

    def rollback_to_savepoint(self) -> None:
        self._connection.execute("ROLLBACK TO here")

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


class SqliteSessions:
    """Opens sessions on one file, and closes them all."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._opened: list[SqliteSession] = []

    def open(self) -> SqliteSession:
        session = SqliteSession(self._store)
        self._opened.append(session)
        return session

    def close(self) -> None:
        for session in self._opened:
            session.close()


class PostgresSessions:
    """Opens sessions on one database, and closes them all."""

    def __init__(self, store: PostgresStore, url: str) -> None:
        self._store, self._url = store, url
        self._opened: list[PostgresSession] = []

    def open(self, *, patience_ms: int = PATIENCE_MS) -> PostgresSession:
        session = PostgresSession(self._store, self._url, patience_ms)
        self._opened.append(session)
        return session

    def close(self) -> None:
        for session in self._opened:
            session.close()
