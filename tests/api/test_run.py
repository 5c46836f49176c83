"""What a handler may do under its attempt: fenced transactions, first, progress."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from api.conftest import Begin
from onejob import App, AsyncRun, LeaseLost, Run, UnsupportedByStore, UsageError, current_run
from onejob.run import Entered


@pytest.fixture
def run(app: App, begin: Begin) -> Iterator[Run]:
    """An attempt of a run, and a table of the user's own."""

    @app.job()
    def bill(customer: int) -> None: ...

    bill.using(key="customer-7").enqueue(7)
    with table_of(app) as connection:
        connection.execute("CREATE TABLE invoice (customer INTEGER)")
        connection.commit()
    yield begin()
    with table_of(app) as connection:
        connection.execute("DROP TABLE invoice")
        connection.commit()


@contextmanager
def table_of(app: App) -> Iterator[Any]:
    if app.store.dialect == "sqlite":
        connection: Any = sqlite3.connect(app.store.where, timeout=5)
    else:
        connection = psycopg.connect(app._url.target)
    try:
        yield connection
    finally:
        connection.close()


def invoices(app: App) -> int:
    with table_of(app) as connection:
        count: int = connection.execute("SELECT count(*) FROM invoice").fetchone()[0]
        return count


INSERT = "INSERT INTO invoice VALUES (7)"


def test_a_run_says_what_it_is(run: Run) -> None:
    assert (run.job, run.key, run.attempt) == ("bill", "customer-7", 1)
    assert run.id > 0
    assert run.token > 0
    assert (run.fire_time, run.deadline, run.remaining()) == (None, None, None)
    assert repr(run) == "<Run bill/customer-7 attempt 1>"
    run.check()


def test_the_current_run_is_known_below_the_handler_and_nowhere_else(run: Run) -> None:
    with pytest.raises(UsageError, match="there is no run here"):
        current_run()

    async def in_a_thread() -> Any:
        return await asyncio.to_thread(current_run)

    with Entered(run):
        assert current_run() is run
        assert asyncio.run(in_a_thread()) is run
    with pytest.raises(UsageError):
        current_run()


def test_a_fenced_transaction_commits_with_its_writes(app: App, run: Run) -> None:
    with run.transaction() as connection:
        connection.execute(INSERT)

    assert invoices(app) == 1
    info = app.runs.get(run.id)
    assert info is not None
    assert info.state == "running"


def test_a_fenced_transaction_that_fails_leaves_nothing(app: App, run: Run) -> None:
    def fail() -> None:
        with run.transaction(complete=True) as connection:
            connection.execute(INSERT)
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()

    assert invoices(app) == 0
    assert not run._attempt.settled


def test_completing_in_the_transaction_ends_the_run_with_it(app: App, run: Run) -> None:
    """P4: the write and the end of the run are one commit."""
    with run.transaction(complete=True) as connection:
        connection.execute(INSERT)
        during = app.runs.get(run.id)

    ended = app.runs.get(run.id)
    assert during is not None
    assert during.state == "running"
    assert ended is not None
    assert (ended.state, ended.outcome) == ("ended", "succeeded")
    assert run._attempt.settled
    assert invoices(app) == 1


def test_a_superseded_attempt_writes_nothing(app: App, run: Run, begin: Begin) -> None:
    """P2, A13: refused in the store, whatever the attempt believes of its lease."""
    newer = begin(takeover=True)
    assert newer.id == run.id

    with pytest.raises(LeaseLost), run.transaction() as connection:
        connection.execute(INSERT)
    with newer.transaction() as connection:
        connection.execute(INSERT)

    assert invoices(app) == 1
    with pytest.raises(LeaseLost):
        run.check()
    newer.check()


def test_a_superseded_attempt_is_told_by_each_of_its_writes(
    app: App, run: Run, begin: Begin
) -> None:
    begin(takeover=True)

    with table_of(app) as connection:
        with pytest.raises(LeaseLost):
            run.fence(within=connection)
        connection.rollback()
        with pytest.raises(LeaseLost):
            run.first("k", within=connection)
        connection.rollback()
    with pytest.raises(LeaseLost):
        run.progress(1)
    with pytest.raises(LeaseLost):
        run.effect("charge", lambda: 1)


def test_a_fence_in_your_transaction_follows_it(app: App, run: Run) -> None:
    with table_of(app) as connection:
        run.fence(within=connection, complete=True)
        connection.execute(INSERT)
        connection.rollback()
        after_rollback = app.runs.get(run.id)
        run.fence(within=connection, complete=True)
        connection.execute(INSERT)
        connection.commit()

    ended = app.runs.get(run.id)
    assert after_rollback is not None
    assert after_rollback.state == "running"
    assert ended is not None
    assert ended.outcome == "succeeded"
    assert invoices(app) == 1


def test_a_takeover_waits_for_the_fenced_transaction(postgres_app: App) -> None:
    """A read would not do: the other session's takeover could commit beside it."""
    from api.conftest import beginning

    @postgres_app.job()
    def bill() -> None: ...

    bill.enqueue()
    begin = beginning(postgres_app)
    run: Run = begin()
    other = psycopg.connect(postgres_app._url.target)
    with run.transaction():
        other.execute("SET lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute(
                f'UPDATE "{postgres_app.schema}".run SET token = token + 1 WHERE id = %s', [run.id]
            )
    other.close()


@pytest.mark.parametrize("what", ["progress", "effect", "transaction"])
def test_what_would_wait_for_itself_is_refused(run: Run, what: str) -> None:
    calls: dict[str, Any] = {
        "progress": lambda: run.progress(1),
        "effect": lambda: run.effect("k", lambda: None),
        "transaction": lambda: run.transaction().__enter__(),
    }

    with run.transaction(), pytest.raises(UsageError, match="would wait for itself"):
        calls[what]()


def test_a_transaction_of_yours_is_outside_again_once_it_has_ended(app: App, run: Run) -> None:
    with table_of(app) as connection:
        run.fence(within=connection)
        with pytest.raises(UsageError, match="would wait for itself"):
            run.progress(1)
        connection.commit()

        run.progress(1)


def test_another_thread_is_not_inside_the_transaction(run: Run) -> None:
    """It waits, as any other would: only the thread that holds the row must not."""
    begun, told = threading.Event(), []

    def progress() -> None:
        begun.set()
        told.append(run.progress(1))

    thread = threading.Thread(target=progress)
    with run.transaction():
        thread.start()
        begun.wait()
    thread.join()

    assert told == [None]


def test_first_says_yes_once_a_run_and_key(app: App, run: Run) -> None:
    with run.transaction() as connection:
        first = run.first("line-1", within=connection)
        again = run.first("line-1", within=connection)
        other = run.first("line-2", within=connection)
    with table_of(app) as connection:
        later = run.first("line-1", within=connection)
        rolled_back = run.first("line-3", within=connection)
        connection.rollback()
        after = run.first("line-3", within=connection)
        connection.commit()

    assert (first, again, other, later) == (True, False, True, False)
    assert (rolled_back, after) == (True, True)


def test_first_outside_a_run_is_unique_in_its_scope(app: App) -> None:
    with table_of(app) as connection:
        first = app.first("digest", "7:2026-03-29", within=connection)
        connection.rollback()
        after_rollback = app.first("digest", "7:2026-03-29", within=connection)
        other = app.first("invoice", "7:2026-03-29", within=connection)
        connection.commit()
        known = app.first("digest", "7:2026-03-29", within=connection)

    assert (first, after_rollback, other, known) == (True, True, True, False)


def test_progress_is_there_for_people(app: App, run: Run) -> None:
    run.progress(50, 200, "half of the first half")

    info = app.runs.get(run.id)
    assert info is not None
    assert info.progress == {"done": 50, "total": 200, "note": "half of the first half"}
    for bad in (
        {"done": -1},
        {"done": "x"},
        {"done": 1, "total": float("nan")},
        {"done": 1, "note": 7},
    ):
        with pytest.raises(UsageError):
            run.progress(**bad)  # type: ignore[arg-type]  # the mistake under test


def test_a_transaction_on_sqlite_that_lasts_too_long_is_rolled_back(sqlite_url: str) -> None:
    """An open one stops every renewal in the fleet, so it has a bound below the lease."""
    from api.conftest import beginning, install

    app = App(sqlite_url, lease="1s")
    install(app)

    @app.job()
    def bill() -> None: ...

    bill.enqueue()
    run: Run = beginning(app)()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"

    def write_for_ever() -> None:
        with run.transaction() as connection:
            connection.execute("CREATE TABLE t (n)")
            connection.execute(endless)

    with pytest.raises(LeaseLost, match="open for more than"):
        write_for_ever()

    with table_of(app) as connection:
        assert connection.execute("SELECT * FROM sqlite_master WHERE name = 't'").fetchall() == []
    app.close()


def test_memory_has_no_transaction_of_yours() -> None:
    from api.conftest import beginning

    app = App("memory://")

    @app.job()
    def bill() -> None: ...

    bill.enqueue()

    with pytest.raises(UnsupportedByStore), beginning(app)().transaction():
        pass


def test_the_async_run_does_all_of_it_in_a_loop(app: App, run: Run, begin: Begin) -> None:
    arun: AsyncRun = begin(AsyncRun, takeover=True)

    async def fail() -> None:
        async with arun.transaction(complete=True):
            _ = 1 / 0

    async def scenario() -> None:
        await arun.progress(1, 2)
        async with arun.transaction() as connection:
            if app.store.dialect == "postgresql":
                assert isinstance(connection, psycopg.AsyncConnection)
                await connection.execute(INSERT)
            else:
                connection.execute(INSERT)
            assert await arun.first("k", within=connection)
            assert not await arun.first("k", within=connection)
            await arun.fence(within=connection)
            with pytest.raises(UsageError, match="would wait for itself"):
                await arun.progress(1)
        with pytest.raises(ZeroDivisionError):
            await fail()
        async with arun.transaction(complete=True):
            pass

    asyncio.run(scenario())

    ended = app.runs.get(arun.id)
    assert ended is not None
    assert ended.outcome == "succeeded"
    assert invoices(app) == 1


def test_a_cancelled_async_transaction_frees_the_store(app: App, run: Run, begin: Begin) -> None:
    arun: AsyncRun = begin(AsyncRun, takeover=True)

    async def scenario() -> None:
        inside = asyncio.Event()

        async def stuck() -> None:
            async with arun.transaction():
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(stuck())
        await inside.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        entering = asyncio.create_task(stuck())
        await asyncio.sleep(0)  # one turn of the loop: the transaction is being opened
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)
        await arun.progress(1)

    asyncio.run(scenario())

    with table_of(app) as connection:
        connection.execute(INSERT)
        connection.commit()


def test_a_note_may_hold_what_utf_8_cannot(app: App, run: Run) -> None:
    run.progress(1, note="file \udcff, a\0b")

    info = app.runs.get(run.id)
    assert info is not None
    assert info.progress["note"] == "file \\udcff, a\0b"
