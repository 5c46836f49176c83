"""A unit of work is tried again where the store rolled it back, and only there."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from api.conftest import Begin, beginning, install
from onejob import App, AsyncRun, LeaseLost, Run, StoreUnavailable, UsageError
from onejob.core.time import Span
from onejob.tries import TRIES_MAX

Unit = Callable[[Any], Any]


@pytest.fixture
def strict_app(postgres_url: str, schema: str) -> Iterator[App]:
    """An App whose database runs every transaction as serialisable."""
    options = "?options=-c%20default_transaction_isolation%3Dserializable"
    app = App(postgres_url + options, schema=schema, name="shop", lease="6s")
    install(app)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f'CREATE TABLE "{schema}".stock (item TEXT PRIMARY KEY, n INTEGER)')
        connection.execute(f"INSERT INTO \"{schema}\".stock VALUES ('a', 10), ('b', 10)")
    yield app
    app.close()


def runs_of(app: App, colour: type[Run] | type[AsyncRun], count: int) -> list[Any]:
    @app.job()
    def bill() -> None: ...

    for _ in range(count):
        bill.enqueue()
    begin = beginning(app)
    return [begin(colour) for _ in range(count)]


def stock(app: App) -> dict[str, int]:
    with psycopg.connect(app._url.target) as connection:
        return dict(connection.execute(f'SELECT item, n FROM "{app.schema}".stock').fetchall())


def crossing(app: App, met: threading.Barrier, tries: list[str]) -> dict[str, Unit]:
    """Two units that take the same two rows in opposite order, and meet in between once."""

    def unit(first: str, second: str) -> Unit:
        def move(tx: Any) -> str:
            tries.append(first)
            tx.execute("SET LOCAL deadlock_timeout = '50ms'")
            text = f'UPDATE "{app.schema}".stock SET n = n + %s WHERE item = %s'
            tx.execute(text, (-1, first))
            if tries.count(first) == 1:
                met.wait(10)
            tx.execute(text, (1, second))
            return first

        return move

    return {"a": unit("a", "b"), "b": unit("b", "a")}


def test_a_deadlock_runs_the_unit_again_and_not_the_body_alone(strict_app: App) -> None:
    """B22, F15: both finish, each once, with its completion in the same commit."""
    one, other = runs_of(strict_app, Run, 2)
    tries: list[str] = []
    units = crossing(strict_app, threading.Barrier(2), tries)
    answers: list[str] = []

    thread = threading.Thread(
        target=lambda: answers.append(other.transact(units["b"], complete=True))
    )
    thread.start()
    answers.append(one.transact(units["a"], complete=True))
    thread.join()

    assert sorted(answers) == ["a", "b"]
    assert len(tries) >= 3, "one of them was rolled back"
    assert stock(strict_app) == {"a": 10, "b": 10}
    for run in (one, other):
        info = strict_app.runs.get(run.id)
        assert info is not None
        assert info.outcome == "succeeded"
        assert run._attempt.settled


def test_a_serialisation_failure_runs_the_unit_again(strict_app: App) -> None:
    """B22: what it read the first time is no longer so; it reads again."""
    [run] = runs_of(strict_app, Run, 1)
    seen: list[int] = []

    def unit(tx: Any) -> None:
        [(n,)] = tx.execute(f"SELECT n FROM \"{strict_app.schema}\".stock WHERE item = 'a'")
        seen.append(n)
        if len(seen) == 1:
            with psycopg.connect(strict_app._url.target) as connection:
                connection.execute(f'UPDATE "{strict_app.schema}".stock SET n = 5')
        text = f"UPDATE \"{strict_app.schema}\".stock SET n = %s WHERE item = 'a'"
        tx.execute(text, (n - 1,))

    run.transact(unit)

    assert seen == [10, 5]
    assert stock(strict_app)["a"] == 4


def test_the_async_twin_does_the_same(strict_app: App) -> None:
    """B22"""
    [run] = runs_of(strict_app, AsyncRun, 1)
    seen: list[int] = []

    async def unit(tx: Any) -> str:
        cursor = await tx.execute(f"SELECT n FROM \"{strict_app.schema}\".stock WHERE item = 'a'")
        [(n,)] = await cursor.fetchall()
        seen.append(n)
        if len(seen) == 1:
            with psycopg.connect(strict_app._url.target) as connection:
                connection.execute(f'UPDATE "{strict_app.schema}".stock SET n = 5')
        text = f"UPDATE \"{strict_app.schema}\".stock SET n = %s WHERE item = 'a'"
        await tx.execute(text, (n - 1,))
        return "done"

    assert asyncio.run(run.transact(unit, complete=True)) == "done"
    assert seen == [10, 5]
    assert stock(strict_app)["a"] == 4
    info = strict_app.runs.get(run.id)
    assert info is not None
    assert info.outcome == "succeeded"


def test_it_is_given_up_after_a_stated_number_of_tries(
    strict_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onejob.tries._PAUSE_LONGEST", 0.01)
    [run] = runs_of(strict_app, Run, 1)
    tries = []

    def unit(tx: Any) -> None:
        tries.append(1)
        tx.execute("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")

    with pytest.raises(psycopg.errors.SerializationFailure):
        run.transact(unit)

    assert len(tries) == TRIES_MAX


def test_an_error_of_another_connection_is_not_tried_again(strict_app: App) -> None:
    """Its transaction is somebody else's; ours has not failed."""
    [run] = runs_of(strict_app, Run, 1)
    tries = []

    def unit(tx: Any) -> None:
        tries.append(1)
        raise psycopg.errors.SerializationFailure("of another database")

    with pytest.raises(psycopg.errors.SerializationFailure, match="another database"):
        run.transact(unit)

    assert tries == [1]


def test_the_units_own_error_is_raised_and_nothing_is_written(app: App) -> None:
    [run] = runs_of(app, Run, 1)
    tries = []

    def unit(tx: Any) -> None:
        tries.append(1)
        tx.execute("CREATE TABLE never_there (n INTEGER)")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run.transact(unit, complete=True)

    assert tries == [1]
    with run.transaction() as tx:
        tx.execute("CREATE TABLE never_there (n INTEGER)")
        tx.execute("DROP TABLE never_there")
    assert not run._attempt.settled


def test_a_superseded_attempt_is_not_tried_again(app: App, begin: Begin) -> None:
    """P2: the first LeaseLost is the last word."""
    [run] = runs_of(app, Run, 1)
    begin(takeover=True)
    tries: list[int] = []

    with pytest.raises(LeaseLost):
        run.transact(lambda tx: tries.append(1))

    assert tries == []


def test_inside_a_transaction_of_the_run_it_is_refused(app: App) -> None:
    [run] = runs_of(app, Run, 1)

    with run.transaction(), pytest.raises(UsageError, match="would wait for itself"):
        run.transact(lambda tx: None)


@pytest.mark.parametrize("colour", [Run, AsyncRun])
def test_a_busy_sqlite_file_is_tried_again(sqlite_app: App, colour: Any) -> None:
    """B22: nothing was begun yet, so nothing can be there twice."""
    [run] = runs_of(sqlite_app, colour, 1)
    store: Any = sqlite_app.store
    store.close()
    store._patience = Span(20_000)
    other = sqlite3.connect(store.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.15, lambda: other.execute("ROLLBACK"))
    release.start()

    async def aunit(tx: Any) -> int:
        return unit(tx)

    def unit(tx: Any) -> int:
        [(one,)] = tx.execute("SELECT 1").fetchall()
        return int(one)

    answer = run.transact(unit) if colour is Run else asyncio.run(run.transact(aunit))

    release.join()
    other.close()
    assert answer == 1


def test_a_sqlite_file_that_stays_busy_is_told_so_in_the_end(
    sqlite_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onejob.tries._PAUSE_LONGEST", 0.01)
    [run] = runs_of(sqlite_app, Run, 1)
    store: Any = sqlite_app.store
    store.close()
    store._patience = Span(1_000)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailable, match="has been writing"):
        run.transact(lambda tx: None)
    other.close()
