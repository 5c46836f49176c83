"""One key, by name, may be violated in your transaction, whatever drives the connection."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.orm import Session as OrmSession

import onejob
from adapters.conftest import Shop
from adapters.counting import Counting
from adapters.drivers import EVERY, SQLITE, Session, opened
from onejob import UsageError, duplicate_ok
from servers.mariadb import connect as connect_mariadb

KEY, OTHER = "invoices_customer_period_key", "invoices_number_key"


@pytest.fixture(params=EVERY)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table(driver: str, shop: Shop) -> Iterator[str]:
    """Invoices of customers 1 and 2; two unique keys, one of them without a constraint."""
    name = f"invoices_{secrets.token_hex(4)}"
    if driver not in SQLITE:
        name = shop.table.replace("mine", name)
    key, other = names(name)
    made = (
        f"CREATE TABLE {name} (customer integer NOT NULL, period text NOT NULL, number text, "
        f"amount integer CHECK (amount > 0), CONSTRAINT {key} UNIQUE (customer, period))",
        f"CREATE UNIQUE INDEX {other} ON {name} (number)",
        f"INSERT INTO {name} VALUES (1, '2026-01', 'R1', 10), (2, '2026-01', 'R2', 10)",
    )
    with shop.app.store.transaction(longest=5_000_000) as tx:  # type: ignore[arg-type]
        for text in made:
            tx.execute(text)
    yield name
    with shop.app.store.transaction(longest=5_000_000) as tx:  # type: ignore[arg-type]
        tx.execute(f"DROP TABLE {name}")


def names(table: str) -> tuple[str, str]:
    """Keys are named once in a schema, so by the table's own suffix."""
    suffix = table[-8:]
    return f"{KEY}_{suffix}", f"{OTHER}_{suffix}"


def written(session: Session, text: str, constraint: str) -> duplicate_ok:
    """Write one statement with that key let off."""
    session.begin()
    if session.colour == "sync" and hasattr(session, "bridge"):

        def below(inside: Any) -> duplicate_ok:
            with duplicate_ok(constraint, within=inside) as write:
                inside.execute(sa.text(text))
            return write

        return session.carry(session.raw.run_sync(below))
    if session.colour == "sync":
        with duplicate_ok(constraint, within=session.given) as write:
            session.execute(text)
        return write

    async def in_the_loop() -> duplicate_ok:
        async with duplicate_ok(constraint, within=session.given) as write:
            await session.raw.execute(sa.text(text) if alchemy(session) else text)
        return write

    return session.carry(in_the_loop())


def alchemy(session: Session) -> bool:
    return type(session.given).__module__.startswith("sqlalchemy")


def count(shop: Shop, table: str) -> int:
    with shop.app.store.transaction(longest=5_000_000) as tx:  # type: ignore[arg-type]
        return int(tx.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_only_the_named_key_is_let_off_and_the_transaction_goes_on(
    session: Session, shop: Shop, table: str
) -> None:
    """E01, E08"""
    key, other = names(table)

    new = written(session, f"INSERT INTO {table} VALUES (3, '2026-01', 'R3', 10)", key)
    again = written(session, f"INSERT INTO {table} VALUES (1, '2026-01', 'R9', 10)", key)
    number = written(session, f"INSERT INTO {table} VALUES (9, '2026-01', 'R1', 10)", other)
    with pytest.raises(Exception, match="number") as raised:
        written(session, f"INSERT INTO {table} VALUES (8, '2026-01', 'R1', 10)", key)
    with pytest.raises(Exception, match=r"(?i)check"):
        written(session, f"INSERT INTO {table} VALUES (7, '2026-01', 'R7', -1)", key)
    session.execute(f"INSERT INTO {table} VALUES (4, '2026-01', 'R4', 10)")
    session.commit()

    assert (new.duplicate, again.duplicate, number.duplicate) == (False, True, True)
    assert new.explanation is None
    assert again.explanation is not None
    assert again.explanation.kind == "duplicate"
    assert onejob.explain(raised.value).kind == "duplicate"
    assert "OnejobError" not in [kind.__name__ for kind in type(raised.value).__mro__]
    assert count(shop, table) == 4


def test_the_callers_rollback_takes_all_of_it_back(
    session: Session, shop: Shop, table: str
) -> None:
    """The savepoint's release commits nothing, also where the driver had begun nothing."""
    key, _ = names(table)

    written(session, f"INSERT INTO {table} VALUES (3, '2026-01', 'R3', 10)", key)
    written(session, f"INSERT INTO {table} VALUES (3, '2026-01', 'R4', 10)", key)
    session.rollback()

    assert count(shop, table) == 2


def test_a_block_that_fails_takes_its_own_writes_with_it(
    session: Session, shop: Shop, table: str
) -> None:
    key, _ = names(table)
    insert = f"INSERT INTO {table} (customer, period) VALUES "

    write = written(session, f"{insert} (3, '2026-01'), (1, '2026-01')", key)
    session.commit()

    assert write.duplicate
    assert count(shop, table) == 2


@pytest.mark.parametrize("driver", ["psycopg", "sqlite3"])
def test_an_error_of_yours_that_came_of_a_duplicate_is_raised(session: Session, table: str) -> None:
    """Its context holds the violation; it is your error all the same."""
    key, _ = names(table)
    again = f"INSERT INTO {table} (customer, period) VALUES (1, '2026-01')"

    def yours() -> None:
        with duplicate_ok(key, within=session.given):
            try:
                session.execute(again)
            except Exception as error:
                raise RuntimeError("mine") from error

    with pytest.raises(RuntimeError, match="mine") as raised:
        yours()

    assert onejob.explain(raised.value).kind == "duplicate"
    session.execute("SELECT 1")
    session.rollback()


@pytest.mark.parametrize("driver", ["psycopg", "sqlite3"])
def test_blocks_may_stand_in_each_other(session: Session, shop: Shop, table: str) -> None:
    key, other = names(table)

    with duplicate_ok(other, within=session.given) as outer:
        session.execute(f"INSERT INTO {table} VALUES (3, '2026-01', 'R3', 10)")
        with duplicate_ok(key, within=session.given) as inner:
            session.execute(f"INSERT INTO {table} VALUES (3, '2026-01', 'R4', 10)")
        session.execute(f"INSERT INTO {table} VALUES (5, '2026-01', 'R5', 10)")
    session.commit()

    assert (outer.duplicate, inner.duplicate) == (False, True)
    assert count(shop, table) == 4


@pytest.mark.parametrize("driver", ["psycopg"])
def test_it_costs_two_statements(driver: str, shop: Shop, table: str) -> None:
    """E10: what a savepoint costs is said; ON CONFLICT and app.first cost none."""
    key, _ = names(table)
    with Counting(shop.url) as counting, opened(driver, counting.url) as session:
        session.execute("SELECT 1")
        counting.reset()
        written(session, f"INSERT INTO {table} VALUES (3, '2026-01', 'R3', 10)", key)
        session.rollback()

        assert counting.statements == 3 + 1  # and the rollback


@pytest.mark.parametrize("driver", ["psycopg"])
def test_the_second_waits_for_the_first_and_learns_of_it(
    shop: Shop, table: str, driver: str
) -> None:
    """E22: two sessions; the loser is a duplicate only once the winner has committed."""
    key, _ = names(table)
    insert = f"INSERT INTO {table} (customer, period) VALUES (5, '2026-01')"
    answers: list[bool] = []

    def second() -> None:
        with psycopg.connect(shop.url) as connection:
            with duplicate_ok(key, within=connection) as write:
                connection.execute(insert.encode())
            answers.append(write.duplicate)

    for ending, expected in (("rollback", False), ("commit", True)):
        with psycopg.connect(shop.url) as first:
            first.execute("DELETE FROM " + table + " WHERE customer = 5")  # type: ignore[operator]
            first.commit()
            with duplicate_ok(key, within=first) as write:
                first.execute(insert.encode())
            assert not write.duplicate
            thread = threading.Thread(target=second)
            thread.start()
            blocked(shop, first.info.backend_pid)
            assert answers == []
            getattr(first, ending)()
            thread.join(30)
        assert answers.pop() is expected


def blocked(shop: Shop, pid: int) -> None:
    """Wait until somebody waits for that session."""
    text = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    with psycopg.connect(shop.url, autocommit=True) as looking:
        for _ in range(2_000):
            row = looking.execute(text, (pid,)).fetchone()
            if row is not None and row[0]:
                return
            looking.execute("SELECT pg_sleep(0.01)")
    pytest.fail("nobody waited")


class Base(DeclarativeBase):
    pass


class Invoice(Base):
    __tablename__ = "orm_invoices"
    __table_args__ = (sa.UniqueConstraint("customer", "period", name=KEY),)

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[int]
    period: Mapped[str]


def orm_url(kind: str, request: pytest.FixtureRequest, asynchronous: bool = False) -> sa.URL:
    if kind == "sqlite":
        url = sa.make_url(request.getfixturevalue("sqlite_url"))
        return url.set(drivername="sqlite+aiosqlite" if asynchronous else "sqlite")
    url = sa.make_url(request.getfixturevalue("postgres_url"))
    return url.set(drivername=f"postgresql+{'asyncpg' if asynchronous else 'psycopg'}", query={})


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_sessions_flush_may_fail_inside_the_block(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """The flush of a pending object: where you ask for it, or as the block ends."""
    engine = sa.create_engine(orm_url(kind, request))
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)

    with OrmSession(engine) as session:
        session.add(Invoice(customer=1, period="2026-01"))
        with duplicate_ok(KEY, within=session) as asked:
            session.add(Invoice(customer=1, period="2026-01"))
            session.flush()
        with duplicate_ok(KEY, within=session) as ending:
            session.add(Invoice(customer=1, period="2026-01"))
        with duplicate_ok(KEY, within=session) as new:
            session.add(Invoice(customer=2, period="2026-01"))
        with pytest.raises(sa.exc.IntegrityError), duplicate_ok(OTHER, within=session):
            session.add(Invoice(customer=2, period="2026-01"))
        session.add(Invoice(customer=3, period="2026-01"))
        session.commit()
        found = list(session.scalars(sa.select(Invoice.customer).order_by(Invoice.customer)))

    Base.metadata.drop_all(engine)
    engine.dispose()
    assert (asked.duplicate, ending.duplicate, new.duplicate) == (True, True, False)
    assert found == [1, 2, 3]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_async_sessions_flush_may_fail_inside_the_block(
    kind: str, request: pytest.FixtureRequest
) -> None:
    async def scenario() -> tuple[bool, bool, list[int]]:
        engine = create_async_engine(orm_url(kind, request, asynchronous=True))
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.drop_all)
            await connection.run_sync(Base.metadata.create_all)
        async with AsyncSession(engine) as session:
            session.add(Invoice(customer=1, period="2026-01"))
            async with duplicate_ok(KEY, within=session) as asked:
                session.add(Invoice(customer=1, period="2026-01"))
                await session.flush()
            async with duplicate_ok(KEY, within=session) as ending:
                session.add(Invoice(customer=1, period="2026-01"))
            session.add(Invoice(customer=3, period="2026-01"))
            await session.commit()
            found = list(await session.scalars(sa.select(Invoice.customer).order_by("customer")))
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.drop_all)
        await engine.dispose()
        return asked.duplicate, ending.duplicate, found

    assert asyncio.run(scenario()) == (True, True, [1, 3])


@pytest.fixture
def mariadb_table(mariadb_url: str, mariadb_schema: str) -> str:
    name = f"{mariadb_schema}_invoices"
    with connect_mariadb(mariadb_url, autocommit=True) as making, making.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {name} (customer int NOT NULL, period varchar(9) NOT NULL, "
            f"number varchar(9), UNIQUE KEY {KEY} (customer, period), "
            f"UNIQUE KEY {OTHER} (number)) ENGINE=InnoDB"
        )
        cursor.execute(f"INSERT INTO {name} VALUES (1, '2026-01', 'R1')")
    return name


@pytest.mark.parametrize("wrapped", [False, True])
def test_on_mariadb_only_the_named_key_is_let_off(
    mariadb_url: str, mariadb_table: str, wrapped: bool
) -> None:
    """E01: nested as well, where a savepoint of the same name would take the first one's place."""
    if wrapped:
        engine = sa.create_engine(sa.make_url(mariadb_url).set(drivername="mariadb+pymysql"))
        connection: Any = engine.connect()
        execute = connection.exec_driver_sql
    else:
        connection = connect_mariadb(mariadb_url)
        execute = connection.cursor().execute
    insert = f"INSERT INTO {mariadb_table} VALUES "

    with closing(connection):
        with duplicate_ok(OTHER, within=connection) as outer:
            execute(f"{insert} (3, '2026-01', 'R3')")
            with duplicate_ok(KEY, within=connection) as inner:
                execute(f"{insert} (1, '2026-01', 'R4')")
            execute(f"{insert} (4, '2026-01', 'R1')")
        with pytest.raises(Exception, match=OTHER), duplicate_ok(KEY, within=connection):
            execute(f"{insert} (5, '2026-01', 'R1')")
        execute(f"{insert} (6, '2026-01', 'R6')")
        connection.commit()
    if wrapped:
        engine.dispose()

    assert (outer.duplicate, inner.duplicate) == (True, True)
    with connect_mariadb(mariadb_url) as looking, looking.cursor() as cursor:
        cursor.execute(f"SELECT customer FROM {mariadb_table} ORDER BY customer")
        assert [row[0] for row in cursor.fetchall()] == [1, 6]


def test_a_deadlock_on_mariadb_is_raised_as_it_was(mariadb_url: str, mariadb_table: str) -> None:
    """The server has rolled back the whole transaction, so there is no savepoint to go back to."""
    update = f"UPDATE {mariadb_table} SET number = %s WHERE customer = %s AND period = '2026-01'"
    with connect_mariadb(mariadb_url, autocommit=True) as setting, setting.cursor() as cursor:
        cursor.execute(f"INSERT INTO {mariadb_table} VALUES (2, '2026-01', 'R2')")
    with connect_mariadb(mariadb_url) as one, connect_mariadb(mariadb_url) as two:
        # The heavier transaction stays; one has written more rows.
        for customer in range(10, 20):
            one.cursor().execute(f"INSERT INTO {mariadb_table} VALUES ({customer}, 'x', NULL)")
        one.cursor().execute(update, ("A", 1))
        two.cursor().execute(update, ("B", 2))
        thread = threading.Thread(target=lambda: one.cursor().execute(update, ("C", 2)))
        thread.start()

        with (
            pytest.raises(Exception, match="1213") as raised,
            duplicate_ok(KEY, within=two) as write,
        ):
            two.cursor().execute(update, ("D", 1))
        thread.join(30)
        one.rollback()
        two.rollback()

    assert not write.duplicate
    assert onejob.explain(raised.value).kind == "deadlock"


def lite() -> sqlite3.Connection:
    return sqlite3.connect(":memory:")


@pytest.mark.parametrize(
    ("made", "name", "values", "expected"),
    [
        ("CREATE TABLE t (a, b, CONSTRAINT k UNIQUE (a, b))", "k", "(1, 2)", True),
        ("CREATE TABLE t (a, b, CONSTRAINT K UNIQUE (b, a))", "k", "(1, 2)", True),
        ('CREATE TABLE t (a, b, CONSTRAINT "my key" UNIQUE (a, "b"))', "my key", "(1, 2)", True),
        ("CREATE TABLE t (a, b /* , CONSTRAINT k UNIQUE (a, b) */)", "k", "(1, 2)", None),
        ("CREATE TABLE t (a CONSTRAINT k UNIQUE, b DEFAULT (max(1, 2)))", "k", "(1, 2)", True),
        ("CREATE TABLE t (a CONSTRAINT k UNIQUE, b UNIQUE)", "k", "(9, 2)", False),
        ("CREATE TABLE t (a, b, UNIQUE (a, b))", "sqlite_autoindex_t_1", "(1, 2)", True),
        ("CREATE TABLE t (a INTEGER CONSTRAINT k PRIMARY KEY, b)", "k", "(1, 2)", True),
        (
            "CREATE TABLE t (a, b, CONSTRAINT k PRIMARY KEY (a, b)) WITHOUT ROWID",
            "k",
            "(1, 2)",
            True,
        ),
        ("CREATE TABLE t (a, b); CREATE UNIQUE INDEX k ON t (a, b)", "k", "(1, 2)", True),
        ("CREATE TABLE t (a, b); CREATE UNIQUE INDEX k ON t (a + b)", "k", "(1, 2)", True),
        # Two keys on the same columns: nobody can tell which it was.
        (
            "CREATE TABLE t (a, b, CONSTRAINT k UNIQUE (a)); "
            "CREATE UNIQUE INDEX j ON t (a) WHERE b > 0",
            "j",
            "(1, 2)",
            False,
        ),
        ("CREATE TABLE t (a UNIQUE, b)", "no_such_key", "(1, 2)", False),
    ],
)
def test_sqlites_columns_are_resolved_to_the_key_that_has_them(
    made: str, name: str, values: str, expected: bool | None
) -> None:
    """None: the row is no duplicate at all."""
    with closing(lite()) as connection:
        connection.executescript(made)
        connection.execute("INSERT INTO t VALUES (1, 2)")

        if expected is False:
            with pytest.raises(sqlite3.IntegrityError), duplicate_ok(name, within=connection):
                connection.execute(f"INSERT INTO t VALUES {values}")
        else:
            with duplicate_ok(name, within=connection) as write:
                connection.execute(f"INSERT INTO t VALUES {values}")
            assert write.duplicate is bool(expected)
        assert connection.in_transaction


def test_a_conflict_clause_that_ends_the_transaction_is_raised() -> None:
    """ON CONFLICT ROLLBACK in a table of SQLite's ends the transaction, and the savepoint."""
    with closing(lite()) as connection:
        connection.execute("CREATE TABLE t (a CONSTRAINT k UNIQUE ON CONFLICT ROLLBACK)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()

        with pytest.raises(sqlite3.IntegrityError), duplicate_ok("k", within=connection) as write:
            connection.execute("INSERT INTO t VALUES (1)")

        assert not write.duplicate


@pytest.mark.parametrize("constraint", ["", "  ", None, 7])
def test_a_key_without_a_name_is_refused_before_any_io(constraint: Any) -> None:
    with closing(lite()) as connection:
        with pytest.raises(UsageError, match="name of one unique key"):
            duplicate_ok(constraint, within=connection)
        assert not connection.in_transaction


def test_a_connection_of_the_other_colour_or_without_a_transaction_is_refused(
    postgres_url: str,
) -> None:
    async def wrong_colours() -> None:
        connection = await psycopg.AsyncConnection.connect(postgres_url)
        async with connection:
            with (
                pytest.raises(UsageError, match="async with"),
                duplicate_ok("k", within=connection),
            ):
                pass
        with psycopg.connect(postgres_url) as other, pytest.raises(UsageError, match="own thread"):
            async with duplicate_ok("k", within=other):
                pass

    asyncio.run(wrong_colours())
    with (
        psycopg.connect(postgres_url, autocommit=True) as autocommit,
        pytest.raises(UsageError, match="autocommit"),
        duplicate_ok("k", within=autocommit),
    ):
        pass
    with pytest.raises(UsageError, match="cannot use"):
        duplicate_ok("k", within=object())
