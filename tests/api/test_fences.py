"""Inside a fenced transaction whatever onejob writes goes through it, or is refused at once."""

from __future__ import annotations

import asyncio
import contextvars
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from api.conftest import Begin
from onejob import App, AsyncRun, Job, Run, UsageError
from onejob.run import Entered

Other = Job[Any, Any, Any]


@pytest.fixture
def other(app: App) -> Other:
    @app.job()
    def bill() -> None: ...

    @app.job()
    def mail(customer: int) -> None: ...

    bill.using(key="2026-03").enqueue()
    return mail


def writes(app: App, other: Other) -> list[Callable[[], Any]]:
    return [
        lambda: other.enqueue(7),
        lambda: other.using(key="7").enqueue_many([{"customer": 7}]),
        lambda: app.effect("order", "7", lambda: 1),
        lambda: app.schedules.pause("nightly"),
        lambda: app.runs.retry(1),
        lambda: app.runs.cancel(1),
    ]


def awrites(app: App, other: Other) -> list[Callable[[], Any]]:
    return [
        lambda: other.aenqueue(7),
        lambda: app.aeffect("order", "7", lambda: 1),
        lambda: app.schedules.apause("nightly"),
        lambda: app.runs.aretry(1),
        lambda: app.runs.acancel(1),
    ]


def test_a_write_beside_the_fenced_transaction_is_refused(
    app: App, other: Other, begin: Begin
) -> None:
    """It would commit alone, or (on SQLite) stop every renewal until the lease is lost."""
    run: Run = begin()

    with run.transaction() as tx:
        for write in writes(app, other):
            with pytest.raises(UsageError, match="Pass within=tx"):
                write()
        assert app.runs.get(run.id) is not None
        assert app.runs.find(job="mail") == []
        assert app.effects.unknown() == []
        assert other.using(within=tx).enqueue(7).created
        assert app.first("digest", "7", within=tx)

    assert len(app.runs.find(job="mail")) == 1
    assert other.enqueue(8).created


def test_so_it_is_in_a_loop(app: App, other: Other, begin: Begin) -> None:
    run: AsyncRun = begin(AsyncRun)

    async def refused(write: Callable[[], Any]) -> None:
        with pytest.raises(UsageError, match="Pass within=tx"):
            await write()

    async def scenario() -> None:
        async with run.transaction() as tx:
            for write in awrites(app, other):
                await refused(write)
            await asyncio.create_task(refused(awrites(app, other)[0]))
            with pytest.raises(UsageError, match="Pass within=tx"):
                await asyncio.to_thread(other.enqueue, 7)
            assert (await other.using(within=tx).aenqueue(7)).created
        assert (await other.aenqueue(8)).created

    asyncio.run(scenario())

    assert len(app.runs.find(job="mail")) == 2


def test_a_transaction_of_the_callers_is_fenced_until_it_ends(
    app: App, other: Other, begin: Begin
) -> None:
    run: Run = begin()
    connection: Any
    if app.store.dialect == "sqlite":
        connection = sqlite3.connect(app.store.where)
    else:
        connection = psycopg.connect(app._url.target)

    with Entered(run):
        run.fence(within=connection)
        with pytest.raises(UsageError, match="Pass within=tx"):
            other.enqueue(7)
        connection.commit()
        assert other.enqueue(7).created
        run.fence(within=connection)
    # Another handler in this thread has not fenced anything.
    with Entered(run):
        assert other.using(within=connection).enqueue(8).created
        connection.commit()
    connection.close()


def test_a_thread_that_outlives_the_block_may_write_again(
    app: App, other: Other, begin: Begin
) -> None:
    """Its connection went back to the store, and may be open for somebody else."""
    run: Run = begin()
    over, answers = threading.Event(), list[Any]()

    def later() -> None:
        with pytest.raises(UsageError):
            other.enqueue(7)
        answers.append("refused")
        assert over.wait(10)
        answers.append(other.enqueue(7).created)

    with run.transaction():
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(later,))
        thread.start()
        while not answers:
            thread.join(0.01)
    over.set()
    thread.join(10)

    assert answers == ["refused", True]


def test_another_stores_app_is_no_part_of_it(other: Other, begin: Begin) -> None:
    run: Run = begin()
    elsewhere = App("memory://")
    job = elsewhere.job(name="audit")(lambda: None)

    with run.transaction():
        assert job.enqueue().created


def test_first_needs_a_transaction(app: App, other: Other, begin: Begin) -> None:
    """Alone it would commit before the work that it guards."""
    run: Run = begin()
    none: Any = None

    with pytest.raises(UsageError, match="within=tx"):
        app.first("digest", "7", within=none)
    with pytest.raises(UsageError, match="within=tx"):
        run.first("7", within=none)
    with pytest.raises(UsageError):
        run.fence(within=none)
    with pytest.raises(UsageError, match="within=tx"):
        asyncio.run(app.afirst("digest", "7", within=none))
    taken: AsyncRun = begin(AsyncRun, takeover=True)
    with pytest.raises(UsageError, match="within=tx"):
        asyncio.run(taken.first("7", within=none))


def test_first_and_effect_need_keys_of_their_own(app: App, other: Other, begin: Begin) -> None:
    """An effect whose outcome is unknown would answer first() with "it has been done"."""
    run: Run = begin()
    run.effect("charge", lambda: "r-1")

    with run.transaction() as tx:
        with pytest.raises(UsageError, match="a key of its own"):
            run.first("charge", within=tx)
        assert run.first("mail", within=tx)
        assert not run.first("mail", within=tx)
