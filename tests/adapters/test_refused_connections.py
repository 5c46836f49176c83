"""A connection that could hold nothing together is refused, with what to do instead."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import psycopg2
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session as OrmSession

from adapters.conftest import Shop
from adapters.drivers import POSTGRESQL, SQLITE, Session, django_database, opened
from onejob import SchemaMismatch, UsageError
from onejob.adapters import adapt, adapt_any


def refused(connection: Any, words: str, dialect: str = "postgresql") -> None:
    with pytest.raises(UsageError, match=words):
        adapt(connection, dialect=dialect)


def test_a_psycopg2_connection_that_can_hold_nothing(postgres_url: str) -> None:
    connection = psycopg2.connect(postgres_url)
    connection.autocommit = True
    refused(connection, "Set autocommit = False, or execute BEGIN")

    connection.autocommit = False
    with pytest.raises(psycopg2.Error), connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")
    refused(connection, "has failed already")

    connection.close()
    refused(connection, "is closed")


def test_psycopg2_in_its_asynchronous_mode(postgres_url: str) -> None:
    connection = psycopg2.connect(postgres_url, async_=True)

    refused(connection, "without async_")
    connection.close()


def test_an_asyncpg_connection_that_can_hold_nothing(postgres_url: str) -> None:
    def arefused(connection: Any, words: str) -> None:
        with pytest.raises(UsageError, match=words):
            adapt_any(connection, dialect="postgresql")

    async def scenario() -> None:
        pool = await asyncpg.create_pool(postgres_url, min_size=1, max_size=1)
        lent = await pool.acquire()
        arefused(lent, "without a transaction")
        async with lent.transaction():
            assert adapt_any(lent, dialect="postgresql").open
        await pool.release(lent)
        arefused(lent, "given back to its pool")
        await pool.close()
        connection = await asyncpg.connect(postgres_url)
        await connection.close()
        arefused(connection, "is closed")

    asyncio.run(scenario())


def test_an_asyncpg_transaction_that_has_failed(postgres_shop: Shop) -> None:
    """The driver does not tell; the server does, and we say what to do."""
    job = postgres_shop.job()

    async def scenario() -> None:
        connection = await asyncpg.connect(postgres_shop.url)
        transaction = connection.transaction()
        await transaction.start()
        with pytest.raises(asyncpg.PostgresError):
            await connection.execute("SELECT 1 / 0")
        with pytest.raises(UsageError, match=r"has failed already.*Roll back"):
            await job.using(within=connection).aenqueue(1)
        await transaction.rollback()
        await connection.close()

    asyncio.run(scenario())


def test_an_aiosqlite_connection_that_can_hold_nothing(tmp_path: Path) -> None:
    def arefused(connection: Any, words: str) -> None:
        with pytest.raises(UsageError, match=words):
            adapt_any(connection, dialect="sqlite")

    async def scenario() -> None:
        async with aiosqlite.connect(tmp_path / "db", isolation_level=None) as connection:
            arefused(connection, "Execute BEGIN IMMEDIATE first")
            await connection.execute("BEGIN")
            assert adapt_any(connection, dialect="sqlite").open
        arefused(connection, "closed, or was never awaited")

    asyncio.run(scenario())


def test_a_sqlalchemy_connection_that_can_hold_nothing(postgres_url: str) -> None:
    with ExitStack() as stack:
        engine = sa.create_engine(alchemy(postgres_url, "psycopg"))
        stack.callback(engine.dispose)
        commits = engine.execution_options(isolation_level="AUTOCOMMIT")
        with commits.connect() as connection:
            refused(connection, "in autocommit mode")
        refused(connection, "is closed")
        with engine.connect() as connection:
            transaction = connection.begin()
            with pytest.raises(sa.exc.DBAPIError):
                connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))
            refused(connection, "has lost its server")
            transaction.rollback()
        always = sa.create_engine(
            alchemy(postgres_url, "psycopg2"), isolation_level="AUTOCOMMIT", future=True
        )
        stack.callback(always.dispose)
        with always.connect() as connection:
            refused(connection, "in autocommit mode")


def test_a_sqlalchemy_session_that_can_hold_nothing(postgres_url: str) -> None:
    class Base(sa.orm.DeclarativeBase): ...

    class Mine(Base):
        __tablename__ = "nowhere"
        id: sa.orm.Mapped[int] = sa.orm.mapped_column(primary_key=True)

    with ExitStack() as stack:
        engine = sa.create_engine(alchemy(postgres_url, "psycopg"))
        stack.callback(engine.dispose)
        with OrmSession(engine, autobegin=False) as session:
            refused(session, r"with session\.begin\(\)")
        with OrmSession(engine) as session:
            session.add(Mine(id=1))
            with pytest.raises(sa.exc.ProgrammingError):
                session.flush()
            refused(session, "has failed already")
            session.rollback()
            adapt(session, dialect="postgresql")
        with OrmSession(binds={Mine: engine}) as session:
            refused(session, "bind_arguments")


def test_a_sqlalchemy_session_whose_transaction_has_failed(postgres_shop: Shop) -> None:
    job = postgres_shop.job()
    engine = sa.create_engine(alchemy(postgres_shop.url, "psycopg2"))

    with OrmSession(engine) as session:
        with pytest.raises(sa.exc.DataError):
            session.execute(sa.text("SELECT 1 / 0"))
        with pytest.raises(UsageError, match="has failed already"):
            job.using(within=session).enqueue(1)
        session.rollback()
        assert job.using(within=session).enqueue(1).created
    engine.dispose()


def test_a_sqlalchemy_async_connection_that_was_never_started(postgres_url: str) -> None:
    engine = create_async_engine(alchemy(postgres_url, "asyncpg"))

    with pytest.raises(UsageError, match="never started"):
        adapt_any(AsyncConnection(engine), dialect="postgresql")


def test_sqlalchemy_over_a_driver_that_we_do_not_know() -> None:
    class Elsewhere:
        name, driver = "postgresql", "pg8000"

    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        connection.dialect = Elsewhere()  # type: ignore[assignment]  # a driver we don't have
        refused(connection, "over pg8000, which onejob does not know")
        connection.dialect = engine.dialect
    engine.dispose()


def test_sqlite_below_sqlalchemy_in_autocommit(sqlite_shop: Shop) -> None:
    job = sqlite_shop.job()
    engine = sa.create_engine(sqlite_shop.url, connect_args={"isolation_level": None})

    with engine.connect() as connection, pytest.raises(UsageError, match="in autocommit mode"):
        job.using(within=connection).enqueue(1)
    engine.dispose()


def test_django_outside_a_block_in_a_failed_one_and_in_another_thread(postgres_shop: Shop) -> None:
    from django.db import connections, transaction

    def in_a_thread(connection: Any) -> None:
        thread = threading.Thread(target=lambda: refused(connection, "of another thread"))
        thread.start()
        thread.join()

    with django_database(postgres_shop.url) as alias:
        connection = connections[alias]
        refused(alias, r"with transaction\.atomic\(\)")
        refused("nope", r"no alias in Django's DATABASES, which has: default")
        in_a_thread(connection)
        with transaction.atomic():
            connection.needs_rollback = True
            refused(alias, "has failed already")
        with transaction.atomic():
            adapter = adapt(alias, dialect="postgresql")
            assert adapter.open
        assert not adapter.open
        connection.set_autocommit(False)
        assert adapt(alias, dialect="postgresql").open
        connection.rollback()
        connection.set_autocommit(True)


def test_a_block_of_django_that_was_closed_inside(postgres_shop: Shop) -> None:
    from django.db import connections, transaction

    with django_database(postgres_shop.url) as alias, transaction.atomic():
        connections[alias].close()
        refused(alias, "closed inside its atomic block")


def test_the_wrong_colour_is_refused(shop: Shop, session: Session) -> None:
    """A sync driver would stop the loop; an async one has nobody to await it."""
    session.begin()
    using = shop.job().using(within=session.given)

    if session.colour == "sync" and not isinstance(
        session.given, sqlite3.Connection | AsyncSession
    ):
        with pytest.raises(UsageError, match="sync connection in an async call"):
            asyncio.run(using.aenqueue(1))
    elif not isinstance(session.given, sqlite3.Connection):
        with pytest.raises(UsageError, match="async connection in a sync call"):
            using.enqueue(1)
    session.rollback()


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg", "sqlalchemy-session-psycopg2", "sqlite3"])
def test_another_kind_of_database_is_refused(
    driver: str, session: Session, postgres_shop: Shop, sqlite_shop: Shop
) -> None:
    other = postgres_shop if driver in SQLITE else sqlite_shop
    session.begin()

    with pytest.raises(UsageError, match="one transaction cannot span two databases"):
        session.do(other.job().using(within=session.given), "enqueue", 1)
    session.rollback()


@pytest.mark.parametrize("driver", ["psycopg-async", "psycopg2", "django-alias", "asyncpg"])
def test_a_database_without_our_tables_says_so(driver: str, postgres_url: str) -> None:
    """Whoever gives a connection to another database is not left with the driver's words."""
    from onejob import App

    assert driver in POSTGRESQL
    app = App(postgres_url, schema="not_installed", name="shop")
    job = app.job(name="resize")(lambda: None)
    with opened(driver, postgres_url) as session:
        session.begin()
        with pytest.raises(SchemaMismatch, match=r"is it the App's own.*onejob init"):
            session.do(job.using(within=session.given), "enqueue")
        session.rollback()
    app.close()


def test_a_sqlite_file_without_our_tables_says_so(tmp_path: Path, sqlite_shop: Shop) -> None:
    with (
        opened("sqlalchemy-session-pysqlite", f"sqlite:///{tmp_path / 'other.db'}") as session,
        pytest.raises(SchemaMismatch, match="is it the App's own"),
    ):
        sqlite_shop.job().using(within=session.given).enqueue(1)


def test_asking_what_a_connection_is_imports_no_driver() -> None:
    code = """
import sys
from onejob.adapters import adapt
try:
    adapt(object(), dialect="postgresql")
except ValueError as error:
    assert "SQLAlchemy" in str(error)
for name in ("psycopg", "psycopg2", "asyncpg", "sqlalchemy", "django", "aiosqlite"):
    assert name not in sys.modules, name
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stderr == ""


def alchemy(url: str, driver: str) -> sa.URL:
    return sa.make_url(url).set(drivername=f"postgresql+{driver}")
