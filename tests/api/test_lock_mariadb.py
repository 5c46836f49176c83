"""Locks, fences and periods of an App on MariaDB, and what this store says that it lacks."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa
from pymysql.cursors import DictCursor
from sqlalchemy.orm import Session

from onejob import (
    SKIPPED,
    App,
    LeaseLost,
    NotAcquired,
    SchemaMismatch,
    StaleToken,
    UnsupportedByStore,
    UsageError,
)
from onejob.stores import mariadb_session
from servers.mariadb import connect, drop_tables


@pytest.fixture(scope="module")
def schema(mariadb_url: str) -> Iterator[str]:
    """The tables of an App, and a user's own beside them."""
    name = f"t_{secrets.token_hex(6)}"
    app = App(mariadb_url, schema=name)
    store: Any = app.store
    store.init()
    app.close()
    with connect(mariadb_url) as connection:
        connection.query(f"CREATE TABLE {name}_mine (note varchar(40) NOT NULL)")
    yield name
    drop_tables(mariadb_url, name)


@pytest.fixture
def app(mariadb_url: str, schema: str) -> Iterator[App]:
    app = App(mariadb_url, schema=schema, name="shop")
    yield app
    app.close()


@pytest.fixture
def mine(app: App, mariadb_url: str) -> Iterator[pymysql.Connection[Any]]:
    """A user's own connection."""
    with connect(mariadb_url, cursorclass=DictCursor) as connection:
        yield connection
        connection.rollback()


def test_a_lock_has_one_holder_at_a_time_and_each_a_higher_token(app: App) -> None:
    """C01, C16"""
    with app.lock("nightly") as lease, pytest.raises(NotAcquired) as refused:
        app.lock("nightly").__enter__()
    with app.lock("nightly") as again:
        again.check()

    assert refused.value.until is not None
    assert again.token > lease.token


def test_a_task_holds_a_lock_and_whoever_waits_gets_it_next(app: App) -> None:
    async def main() -> list[str]:
        got = []

        async def hold(who: str) -> None:
            async with app.lock("nightly", wait="20s") as lease:
                got.append(who)
                await asyncio.sleep(0.05)
                lease.check()

        await asyncio.gather(hold("a"), hold("b"), hold("c"))
        return got

    assert sorted(asyncio.run(main())) == ["a", "b", "c"]


def test_a_fenced_transaction_commits_with_its_writes_and_keeps_the_lock_meanwhile(
    app: App, mine: Any, schema: str
) -> None:
    """C09: also from whoever comes when the lease is over."""
    with app.lock("nightly", ttl="1s", protects="ledger") as lease:
        with lease.transaction() as tx:
            tx.query(f"INSERT INTO {schema}_mine VALUES ('theirs')")
            assert notes(mine, schema) == []
            with pytest.raises(UsageError, match="fenced transaction is open"):
                app.lock("other").__enter__()
        assert notes(mine, schema) == ["theirs"]
        app.fence("ledger", lease.token, within=mine)


def test_a_stale_token_is_refused_in_your_transaction_by_every_driver(
    app: App, mine: Any, mariadb_url: str
) -> None:
    """C09: though it writes first."""
    with app.lock("nightly", protects="ledger") as old:
        stale = old.token
    with app.lock("nightly", protects="ledger") as lease:
        with pytest.raises(StaleToken) as refused:
            app.fence("ledger", stale, within=mine)
        mine.rollback()
        app.fence("ledger", lease.token, within=mine)
        mine.commit()
        lease.fence(within=mine)
        mine.commit()
        for scheme in ("mysql+pymysql", "mariadb+pymysql"):
            engine = sa.create_engine(mariadb_url.replace("mariadb", scheme, 1))
            with Session(engine) as session:
                app.fence("ledger", lease.token, within=session)
                lease.fence(within=session)
                session.commit()
                with pytest.raises(StaleToken):
                    app.fence("ledger", stale, within=session)
            with engine.connect() as connection:
                app.fence("ledger", lease.token, within=connection)
            engine.dispose()

    assert (refused.value.mine, refused.value.current) == (stale, lease.token)


def test_a_lease_whose_lock_was_broken_cannot_be_fenced(app: App, mine: Any) -> None:
    """C09: before its holder has been told."""
    refused = []

    def broken() -> None:
        with app.lock("nightly") as lease:
            app.locks.break_("nightly", reason="test")
            for fence in (lambda: lease.fence(within=mine), lease.transaction().__enter__):
                try:
                    fence()
                except LeaseLost as error:
                    refused.append(error.token == lease.token)

    with pytest.raises(LeaseLost):
        broken()
    assert refused == [True, True]


def test_a_connection_that_could_not_hold_it_together_is_refused_before_anything_is_sent(
    app: App, mariadb_url: str
) -> None:
    alone, closed = connect(mariadb_url, autocommit=True), connect(mariadb_url)
    closed.close()

    with pytest.raises(UsageError, match="autocommit"):
        app.fence("of-nobody", 1, within=alone)
    with pytest.raises(UsageError, match="closed"):
        app.fence("of-nobody", 1, within=closed)
    alone.begin()
    app.fence("of-nobody", 1, within=alone)
    alone.close()


def test_tables_that_are_not_at_your_connections_database_are_said_to_be_missing(
    mariadb_url: str, mine: Any
) -> None:
    app = App(mariadb_url, schema="t_nothing_here", name="shop")

    with pytest.raises(SchemaMismatch, match="within="):
        app.fence("ledger", 1, within=mine)
    app.close()


def test_one_of_many_calls_does_the_work_of_a_period(app: App) -> None:
    """A01, D10"""
    done = []

    @app.once_per("0 0 1 1 *")
    def digest() -> str:
        done.append(threading.get_ident())
        return "sent"

    answers: list[object] = []
    threads = [threading.Thread(target=lambda: answers.append(digest())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(done) == 1
    assert sorted(map(str, answers)) == sorted(map(str, ["sent", *[SKIPPED] * 7]))


def test_a_lock_outlives_the_connections_that_carry_it(
    app: App, mariadb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C19, C27: an administrator ends them all; the lease is a row, renewed over new ones."""
    opened: list[Any] = []
    connect_as_ever = mariadb_session.connect

    def noted(*args: Any, **more: Any) -> Any:
        opened.append(connect_as_ever(*args, **more))
        return opened[-1]

    monkeypatch.setattr(mariadb_session, "connect", noted)
    app.store.close()

    with app.lock("nightly", ttl="3s") as lease:
        give_up_at = time.monotonic() + 20
        while len(opened) < 2:  # the keeper's own comes with the first renewal
            assert time.monotonic() < give_up_at
            time.sleep(0.02)
        with connect(mariadb_url, autocommit=True) as admin, admin.cursor() as cursor:
            for connection in list(opened):
                cursor.execute("KILL %s", (connection.thread_id(),))
        killed, ends = len(opened), lease.remaining()
        while lease.remaining() <= ends or len(opened) == killed:
            assert time.monotonic() < give_up_at
            lease.check()
            time.sleep(0.02)


@pytest.mark.slow
def test_a_lock_outlives_the_servers_limit_on_idle_connections(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C27: renewed every four seconds, over connections that are closed after two idle ones."""
    quick = (*mariadb_session._SESSION, "SET SESSION wait_timeout = 2")
    monkeypatch.setattr(mariadb_session, "_SESSION", quick)

    with app.lock("nightly", ttl="12s") as lease:
        time.sleep(6)
        lease.check()
        [held] = app.locks.list()

    assert held.token == lease.token
    assert app.locks.list() == []


def test_what_this_store_lacks_is_refused_with_what_to_use_instead(app: App) -> None:
    @app.job()
    def resize(image_id: int) -> None: ...

    with pytest.raises(UnsupportedByStore, match="postgresql://"):
        resize.enqueue(1)
    with pytest.raises(UnsupportedByStore, match="MariaDB cannot keep runs and schedules"):
        app.start()

    async def in_a_loop() -> None:
        async with app.lock("nightly") as lease:
            with pytest.raises(UnsupportedByStore, match="to_thread"):
                await lease.transaction().__aenter__()

    asyncio.run(in_a_loop())


def notes(connection: Any, schema: str) -> list[str]:
    """Return what is committed, as a new transaction sees it."""
    connection.rollback()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT note FROM {schema}_mine")
        return [row["note"] for row in cursor.fetchall()]


@pytest.mark.parametrize(
    "text", ["COMMIT", "ROLLBACK", "CREATE TABLE IF NOT EXISTS {}_new (a int)"]
)
def test_a_fenced_transaction_that_was_ended_inside_its_block_is_told_of(
    text: str, app: App, schema: str
) -> None:
    """A change of tables commits what was before it, here, and ends the fence."""
    with (
        pytest.raises(UsageError, match="ended inside its block"),
        app.lock("ended") as lease,
        lease.transaction() as connection,
    ):
        connection.query(text.format(schema))


@pytest.mark.parametrize(
    "mode", ["ORACLE", "ANSI", "NO_BACKSLASH_ESCAPES", "PAD_CHAR_TO_FULL_LENGTH"]
)
def test_locks_and_fences_stand_under_any_sql_mode(
    mode: str, app: App, mariadb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server is set to is what each connection begins with."""
    begun = pymysql.connect

    def in_mode(*given: Any, **options: Any) -> Any:
        return begun(*given, **options, init_command=f"SET SESSION sql_mode = '{mode}'")

    monkeypatch.setattr(pymysql, "connect", in_mode)
    other = App(mariadb_url, schema=app.store.catalogue.schema, name="shop")  # type: ignore[attr-defined]
    name = f"in {mode} it's \\ fine"

    with other.lock(name, wait="1s", protects="stock") as lease, lease.transaction() as connection:
        other.fence("stock", lease.token, within=connection)
        assert [one.name for one in other.locks.list()] == [name]
    with other.lock(name) as again:
        assert again.token > lease.token
    other.close()
