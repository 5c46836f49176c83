"""Stores and sessions for the tests of this folder.

A store starts with its sequences beyond 2^53, where a number that passes through a double, or
through JSON in other languages, comes back changed.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator

import psycopg
import pytest

from onejob.core.time import SECOND, Span
from onejob.stores.mariadb import MariadbStore
from onejob.stores.postgres import PostgresStore
from onejob.stores.redis import RedisStore
from onejob.stores.sqlite import SqliteStore
from servers.mariadb import connect as connect_mariadb
from servers.mariadb import drop_tables
from stores.mariadb_sessions import MariadbSessions
from stores.sessions import PostgresSessions, SqliteSessions

#: Where sequences start: 2^53 + 1 is the first integer that is no double.
HIGH = 2**53

TABLES = (
    "run",
    "cancel",
    "history",
    "ledger",
    "schedule",
    "event",
    "replica",
    "lease",
    "waiter",
    "fence",
)
MARIADB_TABLES = ("lease", "lease_hand", "waiter", "fence", "ledger", "event")


@pytest.fixture
def sqlite_store(sqlite_url: str) -> Iterator[SqliteStore]:
    store = SqliteStore(sqlite_url.removeprefix("sqlite:///"), patience=Span(30 * SECOND))
    store.init()
    with sqlite3.connect(store.path) as connection:
        connection.execute(f"UPDATE onejob_counter SET value = {HIGH}")
    connection.close()
    yield store
    store.close()


@pytest.fixture
def redis_store(redis_url: str, redis_schema: str) -> Iterator[RedisStore]:
    store = RedisStore(redis_url, schema=redis_schema)
    yield store
    store.close()


@pytest.fixture(scope="module")
def mariadb_tables(mariadb_url: str) -> Iterator[MariadbStore]:
    """One set of tables for a module: making them takes longer than most tests."""
    store = MariadbStore(mariadb_url, schema=f"t_{secrets.token_hex(6)}")
    store.init()
    yield store
    store.close()
    drop_tables(mariadb_url, store.catalogue.schema)


@pytest.fixture
def mariadb_store(mariadb_tables: MariadbStore, mariadb_url: str) -> Iterator[MariadbStore]:
    yield mariadb_tables
    with connect_mariadb(mariadb_url, autocommit=True) as connection:
        for table in MARIADB_TABLES:
            connection.query(f"DELETE FROM {mariadb_tables.catalogue.prefix}{table}")


@pytest.fixture
def mariadb_sessions(mariadb_store: MariadbStore, mariadb_url: str) -> Iterator[MariadbSessions]:
    sessions = MariadbSessions(mariadb_store, mariadb_url)
    yield sessions
    sessions.close()


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
        for table in TABLES:
            connection.execute(f"DELETE FROM {postgres_schema.catalogue.prefix}{table}")


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
