"""Our commands on a connection to PostgreSQL: prepared, and again where that was lost."""

from __future__ import annotations

import psycopg
import pytest

from onejob.commands import runs
from onejob.commands.runs import NewRun
from onejob.stores.postgres import PostgresStore
from onejob.stores.postgres_session import Connection

TEXT = b"SELECT CAST($1 AS text), CAST($2 AS bigint), CAST($3 AS text)"
VALUES = ("日本 %s ' \\", 2**53 + 1, None)


def carried(connection: Connection, times: int = 5) -> None:
    for _ in range(times):
        assert connection.carry(TEXT, VALUES) == [VALUES]


def known(connection: Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM pg_prepared_statements", prepare=False).fetchall()
    return [name for (name,) in rows if name.startswith("onejob_")]


def test_a_statement_that_is_used_often_is_prepared_and_answers_the_same(
    postgres_store: PostgresStore,
) -> None:
    with postgres_store.connect() as connection:
        carried(connection, times=2)
        before = known(connection)
        carried(connection)

        assert (before, len(known(connection))) == ([], 1)


def test_behind_a_pooler_nothing_is_prepared(postgres_store: PostgresStore) -> None:
    with postgres_store.connect() as connection:
        connection.prepare_threshold = None
        carried(connection)

        assert known(connection) == []


def test_statements_that_a_caller_threw_away_are_prepared_anew(
    postgres_store: PostgresStore,
) -> None:
    with postgres_store.connect() as connection:
        carried(connection)
        connection.execute("DEALLOCATE ALL")
        carried(connection)

        assert len(known(connection)) == 1


def test_a_table_that_was_altered_meanwhile_is_read_as_it_is_now(
    postgres_store: PostgresStore,
) -> None:
    text = b"SELECT * FROM changing"
    with postgres_store.connect() as connection, postgres_store.connect() as other:
        connection.execute("CREATE TEMP TABLE changing (a integer)")
        for _ in range(4):
            assert connection.carry(text, ()) == []
        connection.execute("ALTER TABLE changing ADD COLUMN b integer")
        connection.execute("INSERT INTO changing VALUES (1, 2)")

        assert [connection.carry(text, ()) for _ in range(4)] == [[(1, 2)]] * 4
        assert known(other) == []


def test_a_nul_is_refused_and_never_cuts_a_text_short(postgres_store: PostgresStore) -> None:
    with postgres_store.connect() as connection:
        carried(connection)
        with pytest.raises(psycopg.DataError):
            connection.carry(TEXT, ("a\0b", 1, None))

        assert known(connection)
        carried(connection)


def test_an_error_of_the_server_is_the_drivers_own(postgres_store: PostgresStore) -> None:
    with postgres_store.connect() as connection:
        for _ in range(4):
            with pytest.raises(psycopg.errors.DivisionByZero):
                connection.carry(b"SELECT 1 / CAST($1 AS integer)", (0,))
        carried(connection)


def test_a_connection_that_the_server_has_closed_is_not_lent_again(
    postgres_store: PostgresStore,
) -> None:
    """D08: seen before anything is sent, so nothing is unknown."""
    [first] = postgres_store.run(runs.enqueue([NewRun("mail", "a", "{}")]))
    with postgres_store.connect() as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'onejob' AND pid <> pg_backend_pid()"
            "   AND datname = current_database() AND state = 'idle'"
            "   AND query LIKE %s",
            (f"%{postgres_store.catalogue.schema}%",),
        )

    [second] = postgres_store.run(runs.enqueue([NewRun("mail", "b", "{}")]))

    assert second.id > first.id
