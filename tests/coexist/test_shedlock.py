"""ShedLock's table, taken from Python by the statements of docs/how-to/from-your-lock.md."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from coexist.java import TABLE, Java
from coexist.page import pasted
from onejob import App, NotAcquired

Connect = Callable[..., Any]


@pytest.fixture
def connect(postgres_app: App, postgres_url: str, schema: str) -> Iterator[Connect]:
    """Open sessions that find the table."""
    opened: list[Any] = []

    def connect(autocommit: bool = True) -> Any:
        options = f"-c search_path={schema}"
        opened.append(psycopg.connect(postgres_url, options=options, autocommit=autocommit))
        return opened[-1]

    connect().execute(TABLE)
    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def page(postgres_app: App) -> SimpleNamespace:
    return pasted("ShedLock's table", app=postgres_app)


@pytest.fixture
def java(connect: Connect) -> Java:
    return Java(connect())


def test_a_java_service_and_ours_keep_each_other_out(
    page: SimpleNamespace, connect: Connect, java: Java
) -> None:
    connection = connect()

    assert java.lock("nightly")
    with pytest.raises(page.Taken), page.shedlock(connection, "nightly"):
        pass
    java.unlock("nightly")
    with page.shedlock(connection, "nightly"):
        assert not java.lock("nightly")
        assert java.lock("other")

    assert java.lock("nightly")


def test_whoever_died_is_followed_once_its_time_has_passed(
    page: SimpleNamespace, connect: Connect, java: Java
) -> None:
    """C04: on either side."""
    assert java.lock("nightly", seconds=0)

    with page.shedlock(connect(), "nightly", most=timedelta(0)) as extend:
        assert java.lock("nightly")
        assert not extend()


def test_a_late_holder_neither_extends_nor_frees_what_another_has(
    page: SimpleNamespace, connect: Connect, java: Java
) -> None:
    """C01, C08: by an owner that is new for each acquisition."""
    first, second = connect(), connect()

    with page.shedlock(first, "nightly", most=timedelta(0)) as extend:
        newer = page.shedlock(second, "nightly")
        newer.__enter__()
        assert not extend()

    assert not java.lock("nightly")
    newer.__exit__(None, None, None)
    assert java.lock("nightly")


def test_a_run_that_takes_longer_extends_it(
    page: SimpleNamespace, connect: Connect, java: Java
) -> None:
    connection = connect()
    with page.shedlock(connection, "nightly", most=timedelta(seconds=60)) as extend:
        before = connection.execute("SELECT lock_until FROM shedlock").fetchone()
        assert extend()
        assert connection.execute("SELECT lock_until FROM shedlock").fetchone() > before


def test_it_stays_taken_for_its_minimum(
    page: SimpleNamespace, connect: Connect, java: Java
) -> None:
    """A14: a short run does not let another host's timer in a moment later."""
    with page.shedlock(connect(), "nightly", least=timedelta(seconds=60)):
        pass

    assert not java.lock("nightly")


@pytest.mark.parametrize("lapsed", [False, True], ids=["new", "lapsed"])
def test_of_two_sessions_at_once_one_gets_it(
    page: SimpleNamespace, connect: Connect, java: Java, lapsed: bool
) -> None:
    """The first has not committed; the second waits for the row, and is then refused."""
    if lapsed:
        assert java.lock("nightly", seconds=0)
    told = {"name": "nightly", "most": timedelta(60), "least": timedelta(0)}
    first, answers = connect(autocommit=False), list[int]()
    first.execute(page.TAKE, {**told, "by": "first"})
    second = connect()
    thread = threading.Thread(
        target=lambda: answers.append(second.execute(page.TAKE, {**told, "by": "b"}).rowcount)
    )
    thread.start()
    thread.join(0.2)
    assert answers == []

    first.commit()
    thread.join(5)

    assert answers == [0]


@pytest.mark.parametrize("db_time", [True, False], ids=["db-time", "node-clock"])
def test_a_late_release_in_java_frees_ours_unless_it_uses_the_databases_time(
    page: SimpleNamespace, connect: Connect, java: Java, db_time: bool
) -> None:
    """C08: by name alone it frees whoever has it; the lease beside it still stands."""
    assert java.lock("nightly", seconds=0)
    with page.both_with_java(connect()) as (lease, extend):
        java.unlock("nightly", db_time=db_time)

        assert extend() == db_time
        lease.check()
        assert java.lock("nightly") != db_time


def test_either_is_enough_to_be_refused(
    page: SimpleNamespace, connect: Connect, java: Java, postgres_app: App
) -> None:
    assert java.lock("nightly")
    with pytest.raises(page.Taken), page.both_with_java(connect()):
        pass
    java.unlock("nightly")
    with (
        postgres_app.lock("nightly"),
        pytest.raises(NotAcquired),
        page.both_with_java(connect()),
    ):
        pass

    assert java.lock("nightly")
