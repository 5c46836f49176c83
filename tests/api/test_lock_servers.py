"""Locks on a server that refuses, and releases that fail where nobody waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from onejob import App, StoreUnavailable
from onejob.stores.memory.store import MemoryStore


@pytest.fixture
def postgres_app(postgres_url: str, schema: str) -> Iterator[App]:
    app = App(postgres_url, schema=schema)
    app.store.init()  # type: ignore[attr-defined]
    yield app
    app.close()


def test_a_primary_that_was_demoted_is_unavailable_and_names_why(
    postgres_app: App, postgres_url: str, schema: str
) -> None:
    """C10: it still reads, and every write is refused."""
    mark = "&" if "?" in postgres_url else "?"
    url = f"{postgres_url}{mark}options=-c%20default_transaction_read_only%3Don"
    demoted = App(url, schema=schema)

    with pytest.raises(StoreUnavailable, match="read-only"), demoted.lock("x"):
        pass

    demoted.close()


def test_those_who_wait_get_their_turn_on_a_server_whose_default_is_serializable(
    postgres_app: App, postgres_url: str, schema: str
) -> None:
    """A row that somebody else has just changed is an error there, and every wait met one."""
    mark = "&" if "?" in postgres_url else "?"
    url = f"{postgres_url}{mark}options=-c%20default_transaction_isolation%3Dserializable"
    turns: list[int] = []

    def take_turns() -> None:
        app = App(url, schema=schema)
        for _ in range(10):
            with app.lock("x", ttl="5s", wait="60s") as lease:
                turns.append(lease.token)
        app.close()

    with ThreadPoolExecutor(6) as threads:
        for ended in [threads.submit(take_turns) for _ in range(6)]:
            ended.result(120)

    assert turns == sorted(set(turns))
    assert len(turns) == 60


def test_the_callers_own_transactions_keep_their_isolation(
    postgres_app: App, postgres_url: str, schema: str
) -> None:
    mark = "&" if "?" in postgres_url else "?"
    url = f"{postgres_url}{mark}options=-c%20default_transaction_isolation%3Dserializable"
    app = App(url, schema=schema)

    with app.lock("x") as lease, lease.transaction() as connection:
        shown = connection.execute("SHOW transaction_isolation").fetchone()

    app.close()
    assert shown == ("serializable",)


def test_a_lease_of_a_month_has_fenced_transactions(postgres_app: App) -> None:
    with postgres_app.lock("x", ttl="30d") as lease, lease.transaction() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_release_that_fails_after_its_task_was_cancelled_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App("memory://")
    store = app.store
    assert isinstance(store, MemoryStore)
    ran, failed, asked = store.run, asyncio.Event(), asyncio.Event()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        refused = [0]

        def run(command: Any, within: Any = None) -> Any:
            if command.name == "lease_release" and not refused[0]:
                refused[0] = 1
                loop.call_soon_threadsafe(asked.set)
                asyncio.run_coroutine_threadsafe(failed.wait(), loop).result(10)
                raise StoreUnavailable("here", "for a moment")
            return ran(command, within)

        monkeypatch.setattr(store, "run", run)

        async def body() -> None:
            async with app.lock("x", ttl="30s"):
                pass

        task = asyncio.create_task(body())
        await asked.wait()
        task.cancel()
        await asyncio.wait([task])
        failed.set()
        for _ in range(200):
            if not await app.locks.alist():
                return
            await asyncio.sleep(0.02)
        raise AssertionError("the lock stays taken, and nobody is inside")

    asyncio.run(scenario())
    app.close()
