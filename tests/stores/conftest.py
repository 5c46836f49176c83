"""Stores and sessions for the tests of this folder.

A store starts with its sequences beyond 2^53, where a number that passes through a double, or
through JSON in other languages, comes back changed.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import psycopg
import pytest

from onejob.commands.command import Command, Parameter, Row
from onejob.core.time import SECOND
from onejob.stores.postgres import PostgresStore
from onejob.stores.protocol import Style
from onejob.stores.sqlite import SqliteStore

# The suite is a library; its assertions are to explain themselves as those of a test file do.
pytest.register_assert_rewrite("onejob.testing.conformance")

from onejob.testing.conformance import Busy  # noqa: E402

T = TypeVar("T")

#: Where sequences start: 2^53 + 1 is the first integer that is no double.
HIGH = 2**53

#: How long a session waits for another one's lock.
PATIENCE_MS = 100


@pytest.fixture
def sqlite_store(sqlite_url: str) -> Iterator[SqliteStore]:
    store = SqliteStore(sqlite_url.removeprefix("sqlite:///"), patience=SECOND)
    store.init()
    with sqlite3.connect(store.path) as connection:
        connection.execute(f"UPDATE onejob_counter SET value = {HIGH}")
    connection.close()
    yield store
    store.close()


@pytest.fixture(scope="module")
def postgres_schema(postgres_url: str) -> Iterator[PostgresStore]:
    """One schema for a module: making one takes longer than most tests."""
    store = PostgresStore(postgres_url, schema=f"t_{secrets.token_hex(6)}")
    store.init()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for sequence in ("token", "run_id"):
            connection.execute(f"SELECT setval('{store.catalogue.prefix}{sequence}', {HIGH})")
    yield store
    store.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA "{store.catalogue.schema}" CASCADE')


@pytest.fixture
def postgres_store(postgres_schema: PostgresStore, postgres_url: str) -> Iterator[PostgresStore]:
    yield postgres_schema
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for table in ("run", "history", "ledger", "schedule", "event", "replica"):
            connection.execute(f"DELETE FROM {postgres_schema.catalogue.prefix}{table}")


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


@pytest.fixture
def sqlite_sessions(sqlite_store: SqliteStore) -> Iterator[SqliteSessions]:
    sessions = SqliteSessions(sqlite_store)
    yield sessions
    sessions.close()


@pytest.fixture
def postgres_sessions(
    postgres_store: PostgresStore, postgres_url: str
) -> Iterator[PostgresSessions]:
    sessions = PostgresSessions(postgres_store, postgres_url)
    yield sessions
    sessions.close()
