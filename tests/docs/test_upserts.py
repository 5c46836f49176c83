"""The statements of docs/how-to/upserts.md, on the databases that they are for."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import psycopg
import pytest

from docs.blocks import ROOT, blocks
from servers.mariadb import connect as connect_mariadb

PAGE = list(blocks(ROOT / "docs/how-to/upserts.md"))
TEXT = {block.title: block.text for block in PAGE if block.language == "sql"}
[PYTHON] = [block.text for block in PAGE if block.language == "python"]

Execute = Callable[..., Sequence[Sequence[Any]]]


def row(
    customer: int, amount: int, version: int, reference: str | None = None, currency: str = "EUR"
) -> dict[str, object]:
    return {
        "customer": customer,
        "currency": currency,
        "amount": amount,
        "version": version,
        "reference": reference,
    }


@pytest.fixture(params=["sqlite", "postgresql"])
def execute(request: pytest.FixtureRequest) -> Iterator[Execute]:
    """Run a statement of the page on a table of its own."""
    if request.param == "sqlite":
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as lite:
            lite.execute(TEXT["table"])
            yield lambda text, given=None: lite.execute(text, given or {}).fetchall()
        return
    schema = request.getfixturevalue("schema")
    url = request.getfixturevalue("postgres_url")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        connection.execute(f"SET search_path = {schema}".encode())
        connection.execute(TEXT["table"].encode())
        yield lambda text, given=None: on_postgresql(connection, text, given)


def on_postgresql(connection: Any, text: str, given: Any = None) -> Sequence[Sequence[Any]]:
    cursor = connection.execute(re.sub(r":([a-z]+)", r"%(\1)s", text).encode(), given)
    rows: Sequence[Sequence[Any]] = cursor.fetchall() if cursor.description else ()
    return rows


@pytest.fixture
def mariadb(mariadb_url: str, mariadb_schema: str) -> Iterator[Any]:
    """A connection, and the page's table under a name of the test's own."""
    with connect_mariadb(mariadb_url) as connection:
        with connection.cursor() as cursor:
            cursor.execute(of_test(TEXT["table"], mariadb_schema) + " ENGINE=InnoDB")
        yield connection


def of_test(text: str, schema: str) -> str:
    return re.sub(r"\b(TABLE|INTO|UPDATE|FROM) balance\b", rf"\1 {schema}_balance", text)


def amounts(execute: Execute) -> list[tuple[Any, ...]]:
    return [tuple(r) for r in execute("SELECT customer, amount, version FROM balance ORDER BY 1")]


def test_the_second_writer_changes_nothing_and_gets_no_row(execute: Execute) -> None:
    first, second = execute(TEXT["once"], row(1, 10, 1)), execute(TEXT["once"], row(1, 99, 2))

    assert (len(first), len(second)) == (1, 0)
    assert amounts(execute) == [(1, 10, 1)]


def test_an_older_write_that_comes_late_is_left_out(execute: Execute) -> None:
    written = [len(execute(TEXT["newest"], row(1, 10 * v, v))) for v in (1, 3, 2, 3, 4)]

    assert written == [1, 1, 0, 0, 1]
    assert amounts(execute) == [(1, 40, 4)]


@pytest.mark.parametrize("upsert", ["once", "newest"])
def test_a_conflict_by_another_key_is_raised_and_changes_no_row(
    execute: Execute, upsert: str
) -> None:
    """E07"""
    execute(TEXT[upsert], row(1, 10, 1, "R1"))

    with pytest.raises(Exception, match=r"(?i)reference"):
        execute(TEXT[upsert], row(2, 99, 9, "R1"))

    assert amounts(execute) == [(1, 10, 1)]


def test_the_loser_waits_and_wins_where_the_winner_rolls_back(
    postgres_url: str, schema: str
) -> None:
    """E06: two sessions."""
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f"CREATE SCHEMA {schema}".encode())
        owner.execute(f"SET search_path = {schema}".encode())
        owner.execute(TEXT["table"].encode())
    options = {"options": f"-c search_path={schema}"}
    won: list[int] = []

    def second() -> None:
        with psycopg.connect(postgres_url, **options) as connection:
            won.append(len(on_postgresql(connection, TEXT["once"], row(1, 2, 1))))

    for ending, expected in (("rollback", 1), ("commit", 0)):
        with psycopg.connect(postgres_url, **options) as first:
            first.execute("DELETE FROM balance")
            first.commit()
            on_postgresql(first, TEXT["once"], row(1, 1, 1))
            thread = threading.Thread(target=second)
            thread.start()
            wait_for_a_waiter(postgres_url, first.info.backend_pid)
            getattr(first, ending)()
            thread.join(30)
        assert won.pop() == expected


def wait_for_a_waiter(url: str, pid: int) -> None:
    text = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    with psycopg.connect(url, autocommit=True) as looking:
        for _ in range(2_000):
            found = looking.execute(text, (pid,)).fetchone()
            if found is not None and found[0]:
                return
            looking.execute("SELECT pg_sleep(0.01)")
    pytest.fail("nobody waited")


def test_on_mariadb_an_older_write_that_comes_late_is_left_out(
    mariadb: Any, mariadb_schema: str
) -> None:
    text = re.sub(r":([a-z]+)", r"%(\1)s", of_test(TEXT["newest.mariadb"], mariadb_schema))
    with mariadb.cursor() as cursor:
        for version in (1, 3, 2, 3, 4, 2):
            cursor.execute(text, row(1, 10 * version, version, f"R{version}"))
        cursor.execute(f"SELECT amount, version, reference FROM {mariadb_schema}_balance")

        assert list(cursor.fetchall()) == [(40, 4, "R4")]


def test_on_mariadb_the_second_key_would_change_another_row_unless_the_key_is_named(
    mariadb: Any, mariadb_schema: str
) -> None:
    """E07: what the page warns of, and its way out."""
    names: dict[str, Any] = {}
    exec(of_test(PYTHON, mariadb_schema), names)
    text = re.sub(r":([a-z]+)", r"%(\1)s", of_test(TEXT["newest.mariadb"], mariadb_schema))
    look = f"SELECT customer, amount FROM {mariadb_schema}_balance ORDER BY customer"
    with mariadb.cursor() as cursor:
        cursor.execute(text, row(1, 10, 1, "R1"))
        cursor.execute(text, row(2, 99, 9, "R1"))
        cursor.execute(look)
        assert list(cursor.fetchall()) == [(1, 99)], "the wrong customer's row"
        mariadb.rollback()

        for version in (1, 3, 2, 4):
            names["newest"](mariadb, 1, "EUR", 10 * version, version)
        names["newest"](mariadb, 2, "EUR", 5, 1)
        cursor.execute(look)
        assert list(cursor.fetchall()) == [(1, 40), (2, 5)]
    mariadb.rollback()
