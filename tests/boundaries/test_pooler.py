"""Through PgBouncer in transaction mode: each transaction may meet another server process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest

from conftest import stores_are_required
from onejob import App, AsyncRun, Run
from onejob.core.time import SECOND, Span
from onejob.stores.postgres import PostgresStore
from servers.pgbouncer import ADVICE, pgbouncer
from servers.server import NotThere

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pooled_url(postgres_url: str) -> Iterator[str]:
    try:
        with pgbouncer(postgres_url) as url:
            yield url
    except NotThere as absent:
        text = f"not run: PgBouncer (install {ADVICE}): {absent}"
        if stores_are_required():
            pytest.fail(text, pytrace=False)
        pytest.skip(text)


@pytest.fixture
def app(pooled_url: str, schema: str) -> Iterator[App]:
    app = App(pooled_url, schema=schema, poll="0.1s", lease="3s")
    app.store.init()  # type: ignore[attr-defined]
    yield app
    app.close()


def eventually(reached: threading.Event, seconds: float = 20.0) -> None:
    assert reached.wait(seconds), "it did not happen in time"


def test_runs_go_through_it_once_each_with_effects_in_their_transactions(
    app: App, pooled_url: str, schema: str
) -> None:
    """C12: nothing of ours rests on the session."""
    over = threading.Event()
    done: Counter[int] = Counter()
    wanted = 120

    def count(n: int) -> None:
        done[n] += 1
        if sum(done.values()) >= wanted:
            over.set()

    @app.job()
    def sync(run: Run, n: int) -> None:
        with run.transaction(complete=True) as connection:
            # More often than a driver needs to prepare it.
            for _ in range(7):
                connection.execute("SELECT CAST(%s AS integer)", (n,))
            connection.execute(f'INSERT INTO "{schema}".seen VALUES (%s)', (n,))
        count(n)

    @app.job()
    async def coloured(run: AsyncRun, n: int) -> None:
        async with run.transaction(complete=True) as connection:
            for _ in range(7):
                await connection.execute("SELECT CAST(%s AS integer)", (n,))
            await connection.execute(f'INSERT INTO "{schema}".seen VALUES (%s)', (n,))
        count(n)

    with psycopg.connect(pooled_url, autocommit=True) as connection:
        connection.execute(f'CREATE TABLE "{schema}".seen (n integer)')
    app.start()
    sync.enqueue_many([{"n": n} for n in range(60)])
    coloured.enqueue_many([{"n": n} for n in range(60, wanted)])
    eventually(over)
    app.stop()

    with psycopg.connect(pooled_url, autocommit=True) as connection:
        rows = connection.execute(f'SELECT n FROM "{schema}".seen ORDER BY n').fetchall()
    assert [row[0] for row in rows] == list(range(wanted))


def test_work_is_polled_for_and_that_is_said_at_the_start(
    app: App,
    pooled_url: str,
    schema: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C14: no hint can come through it."""
    monkeypatch.setattr("onejob.opening._said", set())
    over = threading.Event()

    @app.job()
    async def ping() -> None:
        over.set()

    app.start()
    deadline = time.monotonic() + 10
    while not app.status().running and time.monotonic() < deadline:
        time.sleep(0.02)
    elsewhere = App(pooled_url, schema=schema)
    elsewhere.job(name="ping")(lambda: None).enqueue()

    eventually(over, 5)
    assert "is behind a pooler" in capsys.readouterr().err
    elsewhere.close()


def test_no_session_of_the_server_keeps_a_setting_or_a_lock_of_ours(
    app: App, pooled_url: str, postgres_url: str
) -> None:
    """C12, C13, C16: whoever is served by it next must not notice that we were there."""

    @app.job()
    def work() -> None: ...

    app.start()
    work.enqueue_many([{} for _ in range(20)])
    with app.lock("reindex", ttl="2s") as lease, lease.transaction() as connection:
        connection.execute("SELECT 1")
    app.stop()

    for _ in range(8):
        with psycopg.connect(pooled_url, autocommit=True) as connection:
            settings = [
                connection.execute(f"SHOW {name}").fetchone()
                for name in ("statement_timeout", "idle_in_transaction_session_timeout")
            ]
            assert settings == [("0",), ("0",)]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        locks = connection.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchone()
    assert locks == (0,)


def test_nobody_listens_through_it_not_even_on_the_first_connection(
    pooled_url: str, schema: str
) -> None:
    """C14: its session would go on listening for somebody else."""
    store = PostgresStore(pooled_url, schema=schema)
    lane = store.lane(patience=Span(5 * SECOND))

    assert lane.listen() is False

    lane.close()
    store.close()


def test_a_lock_is_renewed_through_it_and_refused_to_others(app: App) -> None:
    """C12, C17: a lease is a row, so it does not matter which session holds it."""

    async def scenario() -> None:
        async with app.lock("reindex", ttl="1s") as lease:
            await asyncio.sleep(1.6)
            lease.check()
            [held] = await app.locks.alist()
            assert held.token == lease.token

    asyncio.run(scenario())
    assert app.locks.list() == []
