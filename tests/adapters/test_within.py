"""What is enqueued within your transaction is a row of it, whatever drives the connection."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
from typing import Any

import aiosqlite
import pytest

from adapters.conftest import Shop
from adapters.drivers import SQLITE, Session, django_database
from onejob.adapters import adapt, adapt_any


@pytest.fixture
def note() -> str:
    return secrets.token_hex(4)


@pytest.fixture
def job(shop: Shop) -> Any:
    return shop.job()


def write(session: Session, shop: Shop, note: str) -> None:
    session.execute(f"INSERT INTO {shop.table} VALUES ('{note}')")


def ids(shop: Shop, job: Any) -> list[int]:
    return sorted(run.id for run in shop.app.runs.find(job=job.name))


def test_a_run_exists_exactly_when_your_transaction_commits(
    shop: Shop, session: Session, job: Any, note: str
) -> None:
    """E26: the user's row and the run are there together, or neither is."""
    using = job.using(within=session.given)

    write(session, shop, note)
    dropped = session.do(using, "enqueue", 1)
    session.rollback()
    write(session, shop, note)
    kept = session.do(using, "enqueue", 2)
    before = ids(shop, job) if "sqlite" not in shop.url else []
    session.commit()

    assert dropped.created
    assert before == []
    assert ids(shop, job) == [kept.run_id]
    assert shop.rows(note) == 1


def test_a_run_follows_savepoints(shop: Shop, session: Session, job: Any, note: str) -> None:
    """E27: what an inner savepoint takes back, takes its run with it."""
    using = job.using(within=session.given)

    write(session, shop, note)
    session.savepoint()
    dropped = session.do(using, "enqueue", 1)
    session.back_to_savepoint()
    kept = session.do(using, "enqueue", 2)
    session.commit()

    assert dropped.created
    assert ids(shop, job) == [kept.run_id]


def test_a_known_key_leaves_your_transaction_usable_and_tells_of_a_conflict(
    shop: Shop, session: Session, job: Any, note: str
) -> None:
    """E08: no unique violation is raised, so nothing is aborted."""
    earlier = job.using(key="img-7").enqueue(7)
    using = job.using(key="img-7", within=session.given)

    write(session, shop, note)
    known = session.do(using, "enqueue", 7)
    other = session.do(using, "enqueue", 8)
    write(session, shop, note)
    session.commit()

    assert (known.created, known.conflict, known.run_id) == (False, False, earlier.run_id)
    assert (other.created, other.conflict, other.run_id) == (False, True, earlier.run_id)
    assert shop.rows(note) == 2


def test_many_runs_join_as_one_does(shop: Shop, session: Session, job: Any, note: str) -> None:
    using = job.using(within=session.given)
    items = [{"image_id": n} for n in range(3)]

    write(session, shop, note)
    session.do(using, "enqueue_many", items)
    session.rollback()
    write(session, shop, note)
    kept = session.do(using, "enqueue_many", items)
    session.commit()

    assert [one.run_id for one in kept] == ids(shop, job)


def test_first_is_known_together_with_what_it_guards(
    shop: Shop, session: Session, note: str
) -> None:
    write(session, shop, note)
    first = session.do(shop.app, "first", "digest", note, within=session.given)
    again = session.do(shop.app, "first", "digest", note, within=session.given)
    session.rollback()
    write(session, shop, note)
    after_rollback = session.do(shop.app, "first", "digest", note, within=session.given)
    session.commit()
    write(session, shop, note)
    known = session.do(shop.app, "first", "digest", note, within=session.given)
    session.rollback()

    assert (first, again, after_rollback, known) == (True, False, True, False)


@pytest.mark.parametrize("driver", list(SQLITE))
def test_a_statement_that_begins_with_with_joins_the_transaction_too(
    shop: Shop, session: Session, note: str
) -> None:
    """SQLite's driver begins a transaction before INSERT, and not before WITH ... INSERT."""
    text = f"WITH one AS (SELECT '{note}' AS n) INSERT INTO {shop.table} SELECT n FROM one"
    session.begin()

    if session.colour == "sync":
        adapt(session.given, dialect="sqlite").execute(text, {})
    else:
        adapter = adapt_any(session.given, dialect="sqlite")
        session.call(lambda: adapter.aexecute(text, {}))
    session.rollback()

    assert shop.rows(note) == 0


def test_text_that_the_caller_has_given_as_bytes_is_read_as_text(sqlite_shop: Shop) -> None:
    """Else a fingerprint would differ from itself, and every known key would be a conflict."""
    job = sqlite_shop.job()
    job.using(key="img-7").enqueue(7)

    async def scenario() -> Any:
        async with aiosqlite.connect(sqlite_shop.app.store.where) as connection:
            connection.text_factory = bytes
            return await job.using(key="img-7", within=connection).aenqueue(7)

    connection = sqlite3.connect(sqlite_shop.app.store.where)
    connection.text_factory = bytes
    known = [job.using(key="img-7", within=connection).enqueue(7)]
    connection.close()
    known.append(asyncio.run(scenario()))

    assert [(one.created, one.conflict) for one in known] == [(False, False)] * 2


def test_an_alias_is_the_connection_of_the_thread_that_enqueues(postgres_shop: Shop) -> None:
    """One ``using(within="default")`` at import serves every request's thread."""
    from django.db import connections, transaction

    job = postgres_shop.job()
    using = job.using(within="default")
    gate = threading.Barrier(2)

    def request(commits: bool) -> None:
        with transaction.atomic():
            gate.wait(10)
            using.enqueue(1)
            gate.wait(10)
            transaction.set_rollback(not commits)
        connections["default"].close()

    with django_database(postgres_shop.url):
        threads = [threading.Thread(target=request, args=(commits,)) for commits in (True, False)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(ids(postgres_shop, job)) == 1
