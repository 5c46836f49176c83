"""``app.inbox``: new, in progress, done or unknown; handed over; first in your transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import psycopg
import pytest

from onejob import App
from onejob.errors import InProgress, KeyReused, LeaseLost, Refused, UsageError


@pytest.fixture
def postgres_app(postgres_url: str, schema: str) -> Iterator[App]:
    yield from started(App(postgres_url, schema=schema, name="shop"))


@pytest.fixture
def sqlite_app(sqlite_url: str) -> Iterator[App]:
    yield from started(App(sqlite_url, name="shop"))


@pytest.fixture(params=["sqlite_app", "postgres_app"])
def app(request: pytest.FixtureRequest) -> App:
    found: App = request.getfixturevalue(request.param)
    return found


def started(app: App) -> Iterator[App]:
    store: Any = app.store
    store.init()
    yield app
    app.close()


def test_a_message_is_new_then_in_progress_then_done(app: App) -> None:
    """E05, B10: three answers, the last with the recorded result."""
    inbox = app.inbox("orders")

    received = inbox.receive("m-1", fingerprint={"order": 7})
    beside = inbox.receive("m-1", fingerprint={"order": 7})
    received.done({"invoice": 42})
    after = inbox.receive("m-1", fingerprint={"order": 7})

    assert (received.state, received.new, received.age) == ("new", True, timedelta(0))
    assert (beside.state, beside.new, beside.result) == ("in_progress", False, None)
    assert beside.age >= timedelta(0)
    assert (after.state, after.result) == ("done", {"invoice": 42})


def test_the_async_twin_answers_the_same(app: App) -> None:
    inbox = app.inbox("orders")

    async def scenario() -> list[Any]:
        async with await inbox.areceive("m-1") as received:
            beside = await inbox.areceive("m-1")
            await received.done(3)
        after = await inbox.areceive("m-1")
        return [received.state, beside.state, after.state, after.result]

    assert asyncio.run(scenario()) == ["new", "in_progress", "done", 3]


def test_other_content_under_the_same_id_is_told_before_anything_else(app: App) -> None:
    """E15, E16: while the first is in progress, and when it is done."""
    inbox = app.inbox("orders")
    received = inbox.receive("m-1", fingerprint={"amount": 10})

    with pytest.raises(KeyReused):
        inbox.receive("m-1", fingerprint={"amount": 11})
    received.done()
    with pytest.raises(KeyReused):
        inbox.receive("m-1", fingerprint={"amount": 11})


def test_a_block_that_ends_is_done_and_one_that_raises_is_given_back(app: App) -> None:
    inbox = app.inbox("orders")

    with pytest.raises(RuntimeError, match="no stock"), inbox.receive("m-1"):
        raise RuntimeError("no stock")
    with inbox.receive("m-1") as second:
        pass

    assert second.new
    assert inbox.receive("m-1").state == "done"


def test_a_claim_that_nobody_recorded_is_unknown_until_somebody_says(app: App) -> None:
    """E18: never handled again by itself."""
    inbox = app.inbox("orders")
    lost = inbox.receive("m-1", claim_for=0.1)
    done, redo = inbox.receive("m-2", claim_for=0.1), inbox.receive("m-3")
    until_unknown(app, "m-1", "m-2")

    assert inbox.receive("m-1").state == "unknown"
    assert [message.id for message in inbox.unknown()] == ["m-1", "m-2"]
    inbox.resolve("m-1", "redo")
    inbox.resolve("m-2", "done", result="by hand")

    assert inbox.receive("m-1").new
    assert inbox.receive("m-2").result == "by hand"
    with pytest.raises(InProgress):
        inbox.resolve("m-3", "redo")
    with pytest.raises(Refused):
        inbox.resolve("m-2", "redo")
    for stale in (lost, done):
        with pytest.raises(LeaseLost):
            stale.done()
    redo.done()


def test_a_repeat_that_is_harmless_takes_over_and_the_stale_holder_is_refused(app: App) -> None:
    """B13, B20"""
    inbox = app.inbox("orders")
    stale = inbox.receive("m-1", claim_for=0.1)
    until_unknown(app, "m-1")

    taken = inbox.receive("m-1", if_unknown="repeat")
    with pytest.raises(LeaseLost):
        stale.give_back()
    taken.done("by the second")

    assert stale.token is not None
    assert taken.token is not None
    assert taken.token > stale.token
    assert inbox.receive("m-1").result == "by the second"


def test_only_a_new_message_is_anybodys_to_record(app: App) -> None:
    inbox = app.inbox("orders")
    received = inbox.receive("m-1")
    received.done()

    with pytest.raises(UsageError, match="already"):
        received.done()
    with pytest.raises(UsageError, match="only a new one"):
        inbox.receive("m-1").give_back()


def test_of_many_who_receive_at_once_one_is_told_new(app: App) -> None:
    """E22, E23: no raw error for the others."""
    inbox, barrier = app.inbox("orders"), Barrier(8)
    states: list[str] = []

    def receive() -> None:
        barrier.wait(30)
        states.append(inbox.receive("m-1").state)

    threads = [Thread(target=receive) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(states) == ["in_progress"] * 7 + ["new"]


def test_a_message_handed_over_is_one_run_whoever_delivers_it(app: App) -> None:
    """B01: keyed by inbox and message, for each job."""

    @app.job()
    def ship(order: int) -> None: ...

    inbox = app.inbox("orders")
    made = inbox.hand_over("m-1", job=ship, args={"order": 7})
    again = inbox.hand_over("m-1", job=ship, args={"order": 7})
    other = inbox.hand_over("m-1", job=ship, args={"order": 8})
    elsewhere = app.inbox("refunds").hand_over("m-1", job=ship, args={"order": 7})
    asynchronous = asyncio.run(inbox.ahand_over("m-1", job=ship, args={"order": 7}))

    assert (made.created, made.key) == (True, "orders/m-1")
    assert (again.created, again.conflict, again.run_id) == (False, False, made.run_id)
    assert (other.created, other.conflict) == (False, True)
    assert elsewhere.created
    assert asynchronous.run_id == made.run_id
    assert ship.using(key="orders/m-1").enqueue(order=7).created


def test_first_marks_a_message_in_the_transaction_that_handles_it(sqlite_app: App) -> None:
    """E24: marked and handled, or neither; apart from effects of the same name."""
    inbox = sqlite_app.inbox("orders")
    path = sqlite_app.store.where
    with sqlite3.connect(path) as connection:
        first = inbox.first("m-1", within=connection)
        connection.rollback()
        after_rollback = inbox.first("m-1", within=connection)
        connection.commit()
        known = inbox.first("m-1", within=connection)
        an_effect = sqlite_app.first("orders", "m-1", within=connection)
    connection.close()

    assert (first, after_rollback, known, an_effect) == (True, True, False, True)


def test_a_key_made_of_content_knows_a_message_in_a_new_envelope(sqlite_app: App) -> None:
    """E25: and no value can look like the sign between two fields."""
    inbox = sqlite_app.inbox("orders", key="{shop}/{order}")

    inbox.receive({"envelope": "x", "shop": "a", "order": 7}).done()

    assert inbox.receive({"envelope": "y", "shop": "a", "order": 7}).state == "done"
    assert inbox.id_of({"shop": "a/b", "order": "c"}) != inbox.id_of({"shop": "a", "order": "b/c"})
    own = sqlite_app.inbox("payments", key=lambda message: f"pay-{message['n']}")
    assert own.id_of({"n": 3}) == "pay-3"


@pytest.mark.parametrize("name", ["", " ", "a/b", None, "x" * 2000])
def test_a_name_that_cannot_be_right_is_refused(sqlite_app: App, name: Any) -> None:
    with pytest.raises(UsageError):
        sqlite_app.inbox(name)


@pytest.mark.parametrize("key", ["", "orders", "{}", "{0}", "{a!r}", "{a:>3}", "{a", "{a.b}"])
def test_a_template_that_names_no_field_is_refused(sqlite_app: App, key: str) -> None:
    with pytest.raises(UsageError):
        sqlite_app.inbox("orders", key=key)


@pytest.mark.parametrize("message", [{}, {"order": None}, {"order": ""}, {"order": 1.5}, "text"])
def test_a_message_without_its_field_is_refused(sqlite_url: str, message: Any) -> None:
    """E20: all of them would count as the same. Nothing is written, no file made."""
    inbox = App(sqlite_url).inbox("orders", key="{order}")

    with pytest.raises(UsageError):
        inbox.receive(message)
    assert not Path(sqlite_url.removeprefix("sqlite:///")).exists()


@pytest.mark.parametrize("message_id", ["", " ", "\u200b", "x" * 1_025, None, 7])
def test_an_id_that_cannot_be_right_is_refused(sqlite_url: str, message_id: Any) -> None:
    """E14"""
    with pytest.raises(UsageError):
        App(sqlite_url).inbox("orders").receive(message_id)


def test_an_inbox_that_keeps_longer_than_runs_hands_nothing_over(sqlite_app: App) -> None:
    @sqlite_app.job()
    def ship(order: int) -> None: ...

    with pytest.raises(UsageError, match="keep"):
        sqlite_app.inbox("orders", keep="60d").hand_over("m-1", job=ship, args={"order": 7})


def until_unknown(app: App, *messages: str) -> None:
    """Let the claims of these messages be over, by the store's clock."""
    table = f"{app.store.catalogue.prefix}ledger"  # type: ignore[attr-defined]
    text = f"UPDATE {table} SET claim_until = 1 WHERE kind = 'inbox' AND key IN ({{}})"
    names = ", ".join(f"'{message}'" for message in messages)
    if app.store.dialect == "sqlite":
        with sqlite3.connect(app.store.where) as connection:
            connection.execute(text.format(names))
        connection.close()
    else:
        with psycopg.connect(app.store.conninfo) as connection:  # type: ignore[attr-defined]
            connection.execute(text.format(names))
