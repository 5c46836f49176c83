"""The same violation through every driver, and through what is wrapped around it."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pymysql
import pytest

import onejob
from adapters.conftest import Shop
from adapters.drivers import EVERY, SQLITE, Session
from onejob import explain
from servers.mariadb import connect as connect_mariadb


@pytest.fixture(params=EVERY)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table(driver: str, shop: Shop) -> Iterator[str]:
    name = f"users_{secrets.token_hex(4)}"
    key = f"{name}_key"
    if driver not in SQLITE:
        name = shop.table.replace("mine", name)
    with shop.app.store.transaction(longest=5_000_000) as tx:  # type: ignore[arg-type]
        tx.execute(
            f"CREATE TABLE {name} (mail text NOT NULL, town text, "
            f"CONSTRAINT {key} UNIQUE (mail, town))"
        )
        tx.execute(f"INSERT INTO {name} VALUES ('ada@example.com', 'London')")
    yield name
    with shop.app.store.transaction(longest=5_000_000) as tx:  # type: ignore[arg-type]
        tx.execute(f"DROP TABLE {name}")


def failure(session: Session, text: str) -> Exception:
    return failure_of(lambda: session.execute(text))


def failure_of(call: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as raised:  # which one is the question
        call()
    return raised.value


def wrapped(error: Exception) -> Exception:
    """As people do: from a layer of theirs, in another one's handler, in a group."""
    try:
        try:
            try:
                raise RuntimeError("could not save") from error
            except RuntimeError:
                raise ValueError("while handling")  # noqa: B904 - its context is the point
        except ValueError as outer:
            raise ExceptionGroup("tasks", [KeyError("other"), outer]) from None
    except ExceptionGroup as group:
        return group


def test_one_violation_has_one_explanation_through_every_driver(
    session: Session, driver: str, table: str
) -> None:
    """E02, E09: inside the transaction that it has aborted, too: nobody is asked."""
    session.begin()
    error = failure(session, f"INSERT INTO {table} VALUES ('ada@example.com', 'London')")

    bare, deep, as_text = explain(error), explain(wrapped(error)), explain(str(error))
    session.rollback()

    assert bare == deep
    assert (bare.kind, as_text.kind) == ("duplicate", "duplicate")
    assert bare.columns == ("mail", "town")
    assert bare.table == table.rpartition(".")[2]
    if driver not in SQLITE:
        key = f"{bare.table}_key"
        assert (bare.sqlstate, bare.name, bare.constraint) == ("23505", "unique_violation", key)
        assert bare.is_duplicate_of(key)
        assert as_text.constraint == key
    assert bare.is_duplicate_of(f"{bare.table}(mail, town)")
    assert "ada@" not in f"{bare} {bare!r} {as_text}"
    if driver not in SQLITE:
        assert explain(error, values=True).values == "ada@example.com, London"


def test_a_value_that_is_missing_is_another_kind(session: Session, table: str) -> None:
    session.begin()
    found = explain(failure(session, f"INSERT INTO {table} (town) VALUES ('London')"))
    session.rollback()

    assert (found.kind, found.columns) == ("not-null", ("mail",))
    assert "London" not in f"{found} {found!r}"


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg", "django-connection"])
def test_an_aborted_transaction_points_to_its_first_error(session: Session, table: str) -> None:
    """E08: the second error hides the first, which is in its context."""
    session.begin()
    again = f"INSERT INTO {table} VALUES ('ada@example.com', 'London')"

    def go_on() -> None:
        try:
            session.execute(again)
        except Exception:
            session.execute("SELECT 1")
            raise

    error = failure_of(go_on)
    session.rollback()

    found = explain(error)
    assert (found.kind, found.sqlstate) == ("aborted-transaction", "25P02")
    assert found.first is not None
    assert found.first.kind == "duplicate"
    assert found.first.constraint in found.advice
    assert not found.is_duplicate_of(found.first.constraint or "")


def test_a_session_that_was_left_failed_points_to_its_first_error(sqlite_url: str) -> None:
    import sqlalchemy as sa
    from sqlalchemy.orm import Session as OrmSession

    from adapters.test_duplicate_ok import Base, Invoice

    engine = sa.create_engine(sqlite_url)
    Base.metadata.create_all(engine)
    with OrmSession(engine) as session:
        session.add(Invoice(customer=1, period="x"))
        session.add(Invoice(customer=1, period="x"))
        with pytest.raises(sa.exc.IntegrityError):
            session.flush()
        with pytest.raises(sa.exc.PendingRollbackError) as raised:
            session.scalars(sa.select(Invoice))
    engine.dispose()

    found = explain(raised.value)
    assert (found.kind, found.name) == ("aborted-transaction", "PendingRollbackError")
    assert found.first is not None
    assert found.first.columns == ("customer", "period")


@pytest.mark.parametrize("language", ["en_US", "de_DE", "fr_FR", "ja_JP", "ru_RU"])
def test_mariadb_is_read_in_its_languages(
    mariadb_url: str, mariadb_schema: str, language: str
) -> None:
    parent, child = f"{mariadb_schema}_users", f"{mariadb_schema}_orders"
    with closing(connect_mariadb(mariadb_url)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET lc_messages = {language}")
        cursor.execute(
            f"CREATE TABLE {parent} (id int PRIMARY KEY, mail varchar(50) NOT NULL, n int, "
            "CONSTRAINT n_is_small CHECK (n < 10), UNIQUE KEY mail_key (mail)) ENGINE=InnoDB"
        )
        cursor.execute(
            f"CREATE TABLE {child} (user int, CONSTRAINT {child}_fk FOREIGN KEY (user) "
            f"REFERENCES {parent} (id)) ENGINE=InnoDB"
        )
        cursor.execute(f"INSERT INTO {parent} VALUES (1, 'it''s', 1)")
        found = {}
        for text in (
            f"INSERT INTO {parent} VALUES (2, 'it''s', 1)",
            f"INSERT INTO {parent} VALUES (1, 'b', 1)",
            f"INSERT INTO {parent} VALUES (3, NULL, 1)",
            f"INSERT INTO {parent} VALUES (3, 'c', 11)",
            f"INSERT INTO {child} VALUES (9)",
        ):
            with pytest.raises(pymysql.MySQLError) as raised:
                cursor.execute(text)
            found[text[-14:]] = explain(wrapped(raised.value))
        cursor.execute(f"DROP TABLE {child}")

    mail, primary, null, check, foreign = found.values()
    assert mail.is_duplicate_of("mail_key")
    assert (mail.sqlstate, mail.name, mail.database) == ("23000", "ER_DUP_ENTRY", "mariadb")
    assert primary.is_duplicate_of("PRIMARY")
    assert (null.kind, null.columns) == ("not-null", ("mail",))
    assert (check.kind, check.constraint, check.table) == ("check", "n_is_small", parent)
    assert (foreign.kind, foreign.table, foreign.columns) == ("foreign-key", child, ("user",))
    assert "it's" not in f"{mail} {mail!r}"


@pytest.mark.parametrize(
    "module", ["MySQLdb", "asyncmy.errors", "aiomysql", "mysql.connector.errors"]
)
def test_the_other_drivers_of_mariadb_carry_the_same_two_arguments(module: str) -> None:
    """mysqlclient, asyncmy and mysql-connector: what they raise has the number and the message."""
    kind = type("IntegrityError", (Exception,), {"__module__": module})

    found = explain(kind(1062, "Duplicate entry 'x' for key 'invoices.invoices_key'"))

    assert (found.constraint, found.table) == ("invoices_key", "invoices")
    assert found.is_duplicate_of("invoices_key")
    assert found.is_duplicate_of("invoices.invoices_key")


def test_an_error_that_is_no_violation_says_so() -> None:
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(sqlite3.OperationalError) as raised,
    ):
        connection.execute("SELECT * FROM nowhere")

    for error in (raised.value, ValueError("x"), ExceptionGroup("g", [ValueError("y")])):
        found = explain(error)
        assert (found.kind, found.sqlstate) == ("unknown", None)
        assert not found.is_duplicate_of("x")


def test_a_ring_of_causes_comes_to_an_end() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one

    assert explain(one).kind == "unknown"


def test_the_function_is_the_public_name_whatever_was_imported_first() -> None:
    """A module of the same name would take the function's place once it is imported."""
    with_writes: Any = onejob.duplicate_ok

    assert callable(with_writes)
    assert callable(onejob.explain)
    assert onejob.explain is explain
