"""Connections that could not hold anything together are refused, with what to do instead."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from onejob import UsageError
from onejob.adapters import adapt, adapt_any


def test_a_closed_sqlite_connection_is_refused() -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()

    with pytest.raises(UsageError, match="cannot be used here"):
        adapt(connection, dialect="sqlite")


def test_a_sqlite_connection_of_another_thread_is_refused() -> None:
    made: list[sqlite3.Connection] = []
    thread = threading.Thread(target=lambda: made.append(sqlite3.connect(":memory:")))
    thread.start()
    thread.join()

    with pytest.raises(UsageError, match="in the thread that made it"):
        adapt(made[0], dialect="sqlite")


def test_sqlite_in_autocommit_needs_an_open_transaction() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)

    with pytest.raises(UsageError, match="Execute BEGIN IMMEDIATE first"):
        adapt(connection, dialect="sqlite")
    connection.execute("BEGIN IMMEDIATE")
    assert adapt(connection, dialect="sqlite").open
    connection.close()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the attribute came with Python 3.12")
def test_sqlite_with_the_newer_autocommit_attribute_is_read_right() -> None:
    connection: Any = sqlite3.connect(":memory:", autocommit=True)  # type: ignore[call-arg]

    with pytest.raises(UsageError, match="autocommit"):
        adapt(connection, dialect="sqlite")
    connection.close()


def test_a_statement_that_begins_with_with_joins_the_transaction_too() -> None:
    """The driver begins a transaction before INSERT, and not before WITH ... INSERT."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (n INTEGER)")
    connection.commit()

    adapter = adapt(connection, dialect="sqlite")
    adapter.execute("WITH one AS (SELECT 1 AS n) INSERT INTO t SELECT n FROM one", {})
    open_before = adapter.open
    connection.rollback()

    assert open_before
    assert not adapter.open
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
    connection.close()
    assert not adapter.open


def test_rows_are_plain_tuples_whatever_the_row_factory() -> None:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = lambda cursor, row: {"n": row[0]}

    assert adapt(connection, dialect="sqlite").execute("SELECT 1 AS n", {}) == [(1,)]
    connection.close()


def test_a_connection_to_another_kind_of_database_is_refused() -> None:
    connection = sqlite3.connect(":memory:")

    with pytest.raises(UsageError, match="one transaction cannot span two databases"):
        adapt(connection, dialect="postgresql")
    connection.close()


@pytest.mark.parametrize("thing", [None, b"default", object()])
def test_what_is_no_connection_is_refused_by_name(thing: object) -> None:
    with pytest.raises(UsageError, match=r"cannot use a builtins\."):
        adapt(thing, dialect="sqlite")


def test_psycopg_connections_are_checked_before_any_io(postgres_url: str) -> None:
    connection = psycopg.connect(postgres_url, autocommit=True, row_factory=dict_row)

    with pytest.raises(UsageError, match="autocommit mode without a transaction"):
        adapt(connection, dialect="postgresql")
    with connection.transaction():
        adapter = adapt(connection, dialect="postgresql")
        assert adapter.execute("SELECT CAST(%(n)s AS int)", {"n": 1}) == [(1,)]
        assert adapter.open
    connection.autocommit = False
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")
    with pytest.raises(UsageError, match="has failed already"):
        adapt(connection, dialect="postgresql")
    connection.close()
    with pytest.raises(UsageError, match="closed"):
        adapt(connection, dialect="postgresql")
    assert not adapter.open


def test_an_async_psycopg_connection_is_for_async_calls(postgres_url: str) -> None:
    async def scenario() -> Any:
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            with pytest.raises(UsageError, match="async connection in a sync call"):
                adapt(connection, dialect="postgresql")
            adapter = adapt_any(connection, dialect="postgresql")
            rows = await adapter.aexecute("SELECT CAST(%(n)s AS int)", {"n": 1})
            await adapter.aexecute("SET LOCAL lock_timeout = '1s'", {})
            return rows, adapter.open

    assert asyncio.run(scenario()) == ([(1,)], True)
