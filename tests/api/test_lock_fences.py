"""Fencing: what a lease, or its token, stops in a transaction, and what it lets through."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
import pytest

from onejob import App, LeaseLost, StaleToken, UsageError


@pytest.fixture
def url(app: App, request: pytest.FixtureRequest) -> str:
    store: Any = app.store
    url: str = request.getfixturevalue(
        "sqlite_url" if store.dialect == "sqlite" else "postgres_url"
    )
    return url


@contextmanager
def own_transaction(url: str) -> Iterator[Any]:
    """A transaction of the user's own, with the user's driver."""
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=0.2)) as connection, connection:
            yield connection
    else:
        with psycopg.connect(url) as connection:
            yield connection


def fenced_for_too_long(app: App, connection: Any, raises: type[Exception] | None = None) -> None:
    """Leave the lock's block with the transaction open."""
    with app.lock("nightly", ttl="3s") as lease:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("BEGIN IMMEDIATE")
        lease.fence(within=connection)
        if raises is not None:
            raise raises


def broken(app: App) -> None:
    app.locks.break_("nightly", reason="a test")


def test_what_was_written_under_a_lock_that_was_lost_is_refused(app: App) -> None:
    def write() -> None:
        with app.lock("nightly") as lease:
            broken(app)
            with lease.transaction():
                raise AssertionError("it must not get this far")

    with pytest.raises(LeaseLost, match="no longer as ours"):
        write()


def test_a_transaction_of_ones_own_is_fenced_by_the_lease(app: App, url: str) -> None:
    def late() -> None:
        with app.lock("nightly") as lease:
            with own_transaction(url) as connection:
                lease.fence(within=connection)
                assert app.first("mail", "k", within=connection)
            broken(app)
            with own_transaction(url) as connection:
                assert not app.first("mail", "k", within=connection)
                lease.fence(within=connection)

    with pytest.raises(LeaseLost, match="the store has it no longer as ours"):
        late()


def test_an_async_lease_fences_too(app: App) -> None:
    async def main() -> None:
        async with app.lock("nightly"):
            pass
        async with app.lock("nightly") as lease:
            async with lease.transaction() as connection:
                await app.afence("ledger", lease.token, within=connection)
                assert await app.afirst("mail", "k", within=connection)
            with pytest.raises(StaleToken):
                async with lease.transaction() as connection:
                    await app.afence("ledger", lease.token - 1, within=connection)
            async with lease.transaction() as connection:
                assert not await app.afirst("mail", "k", within=connection)

    asyncio.run(main())


def test_a_write_that_is_no_part_of_the_fenced_transaction_is_refused_in_it(app: App) -> None:
    with app.lock("nightly") as lease, lease.transaction():
        with pytest.raises(UsageError, match="within=tx"):
            app.lock("monthly").__enter__()
        with pytest.raises(UsageError, match="Use its connection"):
            lease.transaction().__enter__()


def test_renewals_go_on_during_a_fenced_transaction(postgres_app: App) -> None:
    """A transaction may then last longer than the lease."""
    with postgres_app.lock("nightly", ttl="1s") as lease:
        with lease.transaction() as connection:
            for _ in range(15):
                connection.execute("SELECT pg_sleep(0.1)")
            lease.check()
        lease.check()


def test_a_higher_token_keeps_an_older_one_out(app: App, url: str) -> None:
    """C09: in the transaction that writes, whoever comes first."""
    with own_transaction(url) as connection:
        app.fence("ledger", 7, within=connection)
    with own_transaction(url) as connection:
        app.fence("ledger", 7, within=connection)
    with own_transaction(url) as connection:
        app.fence("ledger", 9, within=connection)

    with pytest.raises(StaleToken) as stale, own_transaction(url) as connection:
        app.fence("ledger", 8, within=connection)

    assert (stale.value.mine, stale.value.current) == (8, 9)
    assert "ledger" in str(stale.value)


def test_a_new_holder_is_announced_where_its_lock_protects(app: App, url: str) -> None:
    """C09: so the paused one is refused even where it writes first."""

    def paused() -> None:
        with app.lock("nightly", protects="ledger") as old:
            broken(app)
            with app.lock("nightly", protects=["ledger", "mail"]) as new:
                with pytest.raises(StaleToken), own_transaction(url) as connection:
                    app.fence("ledger", old.token, within=connection)
                with own_transaction(url) as connection:
                    app.fence("mail", new.token, within=connection)

    with pytest.raises(LeaseLost):
        paused()


def test_a_fence_needs_a_transaction_a_resource_and_a_token(app: App, url: str) -> None:
    with own_transaction(url) as connection:
        for token in (0, -1, True, "7", 2**63, 2**53, None, 1.0):
            with pytest.raises(UsageError, match="token"):
                app.fence("ledger", token, within=connection)  # type: ignore[arg-type]
        for resource in ("", " x", "a\0b", "x" * 1_025, 7):
            with pytest.raises(UsageError, match="resource"):
                app.fence(resource, 7, within=connection)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="within=tx"):
        app.fence("ledger", 7, within=None)
    with pytest.raises(UsageError, match="cannot use"):
        app.fence("ledger", 7, within=object())


def test_a_fence_refuses_a_connection_that_could_not_hold_it(app: App, url: str) -> None:
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        alone: Any = sqlite3.connect(path, isolation_level=None)
    else:
        alone = psycopg.connect(url, autocommit=True)
    with pytest.raises(UsageError, match="autocommit"):
        app.fence("ledger", 7, within=alone)
    alone.close()
    with pytest.raises(UsageError, match=r"closed|cannot be used"):
        app.fence("ledger", 7, within=alone)


def test_a_block_that_ends_before_the_transaction_that_it_fences_says_so(
    app: App, url: str
) -> None:
    with own_transaction(url) as connection:
        with pytest.raises(UsageError, match="End the transaction inside the block"):
            fenced_for_too_long(app, connection)
        connection.rollback()

    with app.lock("nightly", wait="10s") as later:
        assert not later.lost


def test_what_the_body_raised_is_not_hidden_by_a_transaction_that_is_open(
    app: App, url: str
) -> None:
    with own_transaction(url) as connection:
        with pytest.raises(ZeroDivisionError):
            fenced_for_too_long(app, connection, raises=ZeroDivisionError)
        connection.rollback()


@pytest.mark.parametrize("text", ["COMMIT", "ROLLBACK", "END"])
def test_a_fenced_transaction_that_was_ended_inside_its_block_is_told_of(
    text: str, postgres_app: App
) -> None:
    """What comes after it is written without the fence."""
    with (
        pytest.raises(UsageError, match="ended inside its block"),
        postgres_app.lock("nightly") as lease,
        lease.transaction() as connection,
    ):
        connection.execute(text)

    with postgres_app.lock("nightly") as lease, lease.transaction() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_failure_that_was_swallowed_in_a_fenced_transaction_is_told_of(
    postgres_app: App,
) -> None:
    """The server rolls back where a commit is asked for, and only a word of its reply says so."""
    with (
        pytest.raises(UsageError, match="swallowed"),
        postgres_app.lock("nightly") as lease,
        lease.transaction() as connection,
        suppress(psycopg.Error),
    ):
        connection.execute("SELECT 1 / 0")


def test_an_async_fenced_transaction_that_was_ended_inside_is_told_of_too(
    postgres_app: App,
) -> None:
    async def body() -> None:
        async with postgres_app.lock("nightly") as lease, lease.transaction() as connection:
            await connection.execute("COMMIT")

    with pytest.raises(UsageError, match="ended inside its block"):
        asyncio.run(body())
