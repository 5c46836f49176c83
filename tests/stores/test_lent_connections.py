"""A connection that a caller had is our own again afterwards, whatever was done to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from psycopg.rows import dict_row

from onejob.commands import views
from onejob.core.time import SECOND, Span
from onejob.errors import UsageError
from onejob.stores.postgres import PostgresStore
from onejob.stores.sqlite import SqliteStore

LONGEST = Span(5 * SECOND)


def test_what_a_caller_sets_on_a_postgresql_session_is_put_back(
    postgres_store: PostgresStore,
) -> None:
    for _ in range(4):
        with postgres_store.transaction(longest=LONGEST) as tx:
            tx.row_factory = dict_row
            tx.execute("SET default_transaction_read_only = on")
            tx.execute("SET search_path = nowhere")
            tx.execute("SELECT pg_advisory_lock(842001)")

        assert postgres_store.run(views.clock()) > 0
        with postgres_store.transaction(longest=LONGEST) as tx:
            found = tx.execute(
                "SELECT current_setting('default_transaction_read_only'), "
                "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' "
                "AND pid = pg_backend_pid())"
            ).fetchone()
            assert found == ("off", 0)


def test_what_a_caller_sets_on_a_sqlite_connection_is_put_back(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "onejob.db")
    store.init()

    def as_dict(cursor: Any, row: Any) -> Any:
        return dict(zip([c[0] for c in cursor.description], row, strict=True))

    with store.transaction(longest=LONGEST) as tx:
        tx.row_factory, tx.text_factory = as_dict, bytes

    assert store.run(views.clock()) > 0
    store.close()


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "BEGIN"])
def test_a_sqlite_transaction_is_not_the_callers_to_end(tmp_path: Path, end: str) -> None:
    store = SqliteStore(tmp_path / "onejob.db")
    store.init()

    def block() -> None:
        with store.transaction(longest=LONGEST) as tx:
            tx.execute("CREATE TABLE mine (a)")
            tx.execute(end)

    with pytest.raises(UsageError, match="end of its block"):
        block()

    with store.transaction(longest=LONGEST) as tx:
        assert not tx.execute("SELECT 1 FROM sqlite_master WHERE name = 'mine'").fetchall()
    store.close()


def test_an_error_of_the_callers_own_statement_is_the_callers(tmp_path: Path) -> None:
    import sqlite3

    store = SqliteStore(tmp_path / "onejob.db")
    store.init()

    with (
        pytest.raises(sqlite3.OperationalError, match="no such table: full_users"),
        store.transaction(longest=LONGEST) as tx,
    ):
        tx.execute("SELECT * FROM full_users")
    store.close()
