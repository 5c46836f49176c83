"""Connections for code in loops: used again, as they were given, and by nobody else."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from onejob.stores import postgres_loops
from onejob.stores.postgres import PostgresStore


@pytest.fixture
def store(postgres_url: str, schema: str) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url, schema=schema)
    store.init()
    try:
        yield store
    finally:
        store.close()


async def session(store: PostgresStore) -> int:
    """Open a transaction; return whose session it was in."""
    async with store.transaction_in_a_loop() as connection:
        return connection.info.backend_pid


def sessions(url: str, pids: set[int]) -> int:
    """Count which of these sessions the server still has."""
    with psycopg.connect(url, autocommit=True) as connection:
        text = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)"
        row = connection.execute(text, (list(pids),)).fetchone()
        assert row is not None
        return int(row[0])


async def gone(url: str, pids: set[int]) -> None:
    for _ in range(500):
        if not await asyncio.to_thread(sessions, url, pids):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the server still has them")


def test_a_connection_is_lent_again_and_two_at_once_are_two(store: PostgresStore) -> None:
    async def go() -> None:
        first = await session(store)
        assert await session(store) == first
        async with store.transaction_in_a_loop() as one, store.transaction_in_a_loop() as other:
            pids = {one.info.backend_pid, other.info.backend_pid}
        assert len(pids) == 2
        assert first in pids

    asyncio.run(go())


def test_what_a_block_changes_of_a_session_is_put_back(store: PostgresStore) -> None:
    async def go() -> None:
        async with store.transaction_in_a_loop() as connection:
            first = connection.info.backend_pid
            connection.row_factory = dict_row  # type: ignore[assignment]
            await connection.execute("SET search_path = pg_catalog")
            await connection.execute("SELECT pg_advisory_lock(7)")
        async with store.transaction_in_a_loop() as connection:
            assert connection.info.backend_pid == first
            cursor = await connection.execute(
                "SELECT current_setting('search_path'),"
                " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s)",
                (first,),
            )
            assert await cursor.fetchone() == ('"$user", public', 0)

    asyncio.run(go())


def test_after_an_error_it_is_lent_again_and_after_a_cancellation_never(
    store: PostgresStore, postgres_url: str
) -> None:
    async def fails() -> None:
        async with store.transaction_in_a_loop():
            raise RuntimeError("the caller's own")

    async def sleeps(begun: asyncio.Event) -> None:
        async with store.transaction_in_a_loop() as connection:
            begun.set()
            await connection.execute("SELECT pg_sleep(30)")

    async def go() -> None:
        first = await session(store)
        with pytest.raises(RuntimeError, match="the caller's own"):
            await fails()
        assert await session(store) == first

        begun = asyncio.Event()
        task = asyncio.create_task(sleeps(begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await session(store) != first
        await gone(postgres_url, {first})

    asyncio.run(go())


def test_one_that_the_server_has_ended_is_not_lent(store: PostgresStore, postgres_url: str) -> None:
    async def go() -> None:
        first = await session(store)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", (first,))
        await gone(postgres_url, {first})
        assert await session(store) != first

    asyncio.run(go())


def test_one_whose_session_is_not_put_back_in_time_is_closed_and_its_caller_goes_on(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        monkeypatch.setattr(postgres_loops, "PUT_BACK", b"SELECT pg_sleep(60)")
        monkeypatch.setattr(postgres_loops, "PUT_BACK_SECONDS", 0.1)
        async with asyncio.timeout(20):
            first = await session(store)
        await gone(postgres_url, {first})

    asyncio.run(go())


def test_idle_ones_are_closed_after_a_while_and_all_with_the_store(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        monkeypatch.setattr(postgres_loops, "IDLE_SECONDS", 0.05)
        await gone(postgres_url, {await session(store)})
        monkeypatch.setattr(postgres_loops, "IDLE_SECONDS", 60)
        last = await session(store)
        assert sessions(postgres_url, {last}) == 1
        store.close()
        await gone(postgres_url, {last})

    asyncio.run(go())


def test_each_loop_has_its_own_and_its_end_closes_them(
    store: PostgresStore, postgres_url: str
) -> None:
    pids: list[Any] = [asyncio.run(session(store)) for _ in range(2)]

    gc.collect()

    assert pids[0] != pids[1]
    asyncio.run(gone(postgres_url, set(pids)))
