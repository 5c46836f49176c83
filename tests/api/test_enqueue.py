"""Enqueueing on real stores: keys, conflicts, and the caller's own transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from onejob import App, InProgress, UsageError


@pytest.fixture
def job(app: App) -> Any:
    @app.job(queue="images", priority=3)
    def resize(image_id: int) -> None: ...

    return resize


@contextmanager
def connection_to(app: App) -> Iterator[Any]:
    """A connection of the user's own, with the driver's default settings."""
    if app.store.dialect == "sqlite":
        connection: Any = sqlite3.connect(app.store.where, timeout=5)
    else:
        connection = psycopg.connect(app._url.target)
    try:
        yield connection
    finally:
        connection.close()


def test_a_run_is_what_was_asked_for(app: App, job: Any) -> None:
    answer = job.enqueue(7)

    run = app.runs.get(answer.run_id)
    assert run is not None
    assert (run.job, run.key, run.state) == ("resize", answer.key, "scheduled")
    assert (run.queue, run.priority, run.attempt, run.outcome) == ("images", 3, 0, None)
    assert (answer.created, answer.conflict) == (True, False)


def test_a_known_key_gives_the_earlier_run(job: Any) -> None:
    first = job.using(key="img-7").enqueue(image_id=7)
    again = job.using(key="img-7").enqueue(7)
    other = job.using(key="img-7").enqueue(image_id=8)

    assert (again.run_id, again.created, again.conflict) == (first.run_id, False, False)
    assert (other.run_id, other.created, other.conflict) == (first.run_id, False, True)


def test_keys_of_two_jobs_do_not_meet(app: App, job: Any) -> None:
    @app.job()
    def rotate(image_id: int) -> None: ...

    assert job.using(key="img-7").enqueue(7).created
    assert rotate.using(key="img-7").enqueue(7).created


def test_runs_are_due_when_they_were_asked_for(app: App, job: Any) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)

    at = app.runs.get(job.using(at=tomorrow).enqueue(1).run_id)
    later = app.runs.get(job.using(at=tomorrow, delay="1h", priority=0).enqueue(1).run_id)
    past = app.runs.get(job.using(at=tomorrow - timedelta(days=9)).enqueue(1).run_id)

    assert at is not None
    assert later is not None
    assert past is not None
    assert at.due == tomorrow
    assert (later.due, later.priority) == (tomorrow + timedelta(hours=1), 0)
    assert past.due > tomorrow - timedelta(days=2)


def test_many_runs_answer_in_order_and_know_their_keys(job: Any) -> None:
    job.using(key="img-2").enqueue(2)
    items = [{"image_id": n} for n in [1, 2, 3, 1]]

    answers = job.using(key=lambda args: f"img-{args['image_id']}").enqueue_many(items)

    assert [answer.key for answer in answers] == ["img-1", "img-2", "img-3", "img-1"]
    assert [answer.created for answer in answers] == [True, False, True, False]
    assert answers[3].run_id == answers[0].run_id


def test_a_bad_item_among_many_writes_nothing(app: App, job: Any) -> None:
    with pytest.raises(UsageError, match=r"args\.image_id"):
        job.enqueue_many([{"image_id": 1}, {"image_id": "two"}])

    assert app.runs.find() == []


def test_many_means_more_than_one_command(app: App, job: Any) -> None:
    answers = asyncio.run(job.aenqueue_many([{"image_id": n} for n in range(2_500)]))

    assert len({answer.run_id for answer in answers}) == 2_500
    assert app.runs.find(job="resize", limit=1)[0].id == max(answer.run_id for answer in answers)


def test_fifty_callers_of_one_key_make_one_run(job: Any) -> None:
    """E06, E22: the loser of an insert race gets the winner's run, not a bogus id."""
    gate = threading.Barrier(10)
    answers = []

    def enqueue() -> None:
        gate.wait()
        answers.extend(job.using(key=f"img-{n}").enqueue(n) for n in range(5))

    threads = [threading.Thread(target=enqueue) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(answers) == 50
    for key in {answer.key for answer in answers}:
        same = [answer for answer in answers if answer.key == key]
        assert len({answer.run_id for answer in same}) == 1
        assert sum(answer.created for answer in same) == 1


def test_a_run_commits_and_rolls_back_with_your_transaction(app: App, job: Any) -> None:
    """E26: enqueued within a transaction, it exists exactly when that commits."""
    with connection_to(app) as connection:
        rolled_back = job.using(within=connection).enqueue(1)
        assert app.runs.get(rolled_back.run_id) is None
        connection.rollback()
        committed = job.using(within=connection, key="img-2").enqueue(2)
        connection.commit()

    assert [run.id for run in app.runs.find()] == [committed.run_id]


def test_a_run_follows_savepoints(app: App, job: Any) -> None:
    """E27: an inner savepoint that is rolled back takes its run with it."""
    with connection_to(app) as connection:
        kept = job.using(within=connection).enqueue(1)
        connection.execute("SAVEPOINT inside")
        dropped = job.using(within=connection).enqueue(2)
        connection.execute("ROLLBACK TO SAVEPOINT inside")
        connection.commit()

    assert dropped.created
    assert [run.id for run in app.runs.find()] == [kept.run_id]


def test_a_known_key_leaves_your_transaction_usable(app: App, job: Any) -> None:
    """E08: no unique violation is raised, so nothing is aborted."""
    job.using(key="img-7").enqueue(7)

    with connection_to(app) as connection:
        known = job.using(key="img-7", within=connection).enqueue(7)
        other = job.using(key="img-8", within=connection).enqueue(8)
        connection.commit()

    assert (known.created, other.created) == (False, True)


def test_whoever_waits_for_a_rolled_back_key_becomes_the_winner(
    postgres_app: App,
) -> None:
    """E06: the other insert is open, ours waits for it, and then takes its place."""

    @postgres_app.job()
    def resize(image_id: int) -> None: ...

    answers = []
    with connection_to(postgres_app) as connection:
        first = resize.using(key="img-7", within=connection).enqueue(7)
        waiting = threading.Thread(
            target=lambda: answers.append(resize.using(key="img-7").enqueue(7))
        )
        waiting.start()
        wait_until_somebody_waits(postgres_app)
        connection.rollback()
        waiting.join()

    assert first.created
    assert answers[0].created
    assert [run.id for run in postgres_app.runs.find()] == [answers[0].run_id]


def test_a_snapshot_too_old_to_see_the_run_is_told_so(postgres_app: App) -> None:
    @postgres_app.job()
    def resize(image_id: int) -> None: ...

    with psycopg.connect(postgres_app._url.target) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        resize.using(key="img-7").enqueue(7)

        with pytest.raises((InProgress, psycopg.errors.SerializationFailure)):
            resize.using(key="img-7", within=connection).enqueue(7)


def test_an_async_connection_carries_a_run_in_its_loop(postgres_app: App) -> None:
    @postgres_app.job()
    def resize(image_id: int) -> None: ...

    async def scenario() -> tuple[int, int]:
        url = postgres_app._url.target
        async with await psycopg.AsyncConnection.connect(url) as connection:
            dropped = await resize.using(within=connection).aenqueue(1)
            await connection.rollback()
            kept = await resize.using(within=connection).aenqueue(2)
            await connection.commit()
            with pytest.raises(UsageError, match="async connection in a sync call"):
                resize.using(within=connection).enqueue(3)
        return dropped.run_id, kept.run_id

    _, kept = asyncio.run(scenario())

    assert [run.id for run in postgres_app.runs.find()] == [kept]


def test_only_a_connection_that_waits_for_no_server_serves_async_code_too(
    app: App, job: Any
) -> None:
    """A sync driver would stop the loop, keeper's deadline and all, until its server answers."""

    async def scenario(connection: Any) -> Any:
        return await job.using(within=connection).aenqueue(1)

    with connection_to(app) as connection:
        if app.store.dialect == "sqlite":
            answer = asyncio.run(scenario(connection))
            connection.commit()
            assert app.runs.get(answer.run_id) is not None
        else:
            with pytest.raises(UsageError, match="would stop the event loop"):
                asyncio.run(scenario(connection))


def test_retry_and_cancel_say_whether_they_did(app: App, job: Any) -> None:
    run_id = job.using(delay="1h").enqueue(1).run_id

    assert app.runs.retry(run_id) is False
    assert app.runs.cancel(run_id) is True
    assert app.runs.cancel(run_id) is False
    ended = app.runs.wait(run_id, timeout=1)
    assert (ended.state, ended.outcome) == ("ended", "cancelled")
    assert app.runs.retry(run_id) is True
    assert [run.id for run in app.runs.find(state="scheduled")] == [run_id]


def test_an_ended_run_is_discarded_with_its_key_and_a_live_one_is_not(app: App, job: Any) -> None:
    first = job.using(key="k").enqueue(1)
    refused = app.runs.discard(first.run_id)
    app.runs.cancel(first.run_id)

    assert (refused, app.runs.discard(first.run_id)) == (False, True)
    assert app.runs.get(first.run_id) is None
    assert job.using(key="k").enqueue(1).created


def test_queues_are_counted_also_empty_ones_of_our_own(app: App, job: Any) -> None:
    @app.job(queue="slow")
    def slow() -> None: ...

    job.enqueue(1)
    job.using(delay="1h").enqueue(2)
    default, images, slow_one = app.queues.stats()

    assert (images.queue, images.due, images.scheduled) == ("images", 1, 1)
    assert images.oldest >= timedelta(0)
    for empty, name in ((default, "default"), (slow_one, "slow")):
        assert (empty.queue, empty.due, empty.oldest) == (name, 0, timedelta(0))
    assert asyncio.run(app.queues.astats())[2] == slow_one


def test_waiting_has_a_bound_and_a_name_for_what_is_unknown(app: App, job: Any) -> None:
    run_id = job.using(delay="1h").enqueue(1).run_id

    with pytest.raises(TimeoutError, match=f"run {run_id}"):
        app.runs.wait(run_id, timeout="50ms")
    with pytest.raises(TimeoutError):
        asyncio.run(app.runs.await_(run_id, timeout=0))
    with pytest.raises(LookupError):
        app.runs.wait(run_id + 1_000)
    for nonsense in (-1, True, "7", 2**63):
        with pytest.raises(UsageError):
            app.runs.get(nonsense)  # type: ignore[arg-type]  # the mistake under test


def wait_until_somebody_waits(app: App) -> None:
    with psycopg.connect(app._url.target, autocommit=True) as watcher:
        for _ in range(10_000):
            waiting = watcher.execute(
                "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
            ).fetchone()
            if waiting:
                return
    raise AssertionError("nobody waits")


def test_what_no_datetime_can_show_is_refused_and_hides_nothing(app: App) -> None:
    """One such run made every listing fail."""
    job = app.job(name="far")(lambda: None)
    last = datetime(9999, 12, 31, tzinfo=UTC)

    with pytest.raises(UsageError, match="9999"):
        job.using(at=last, delay="2d")
    with pytest.raises(UsageError, match="9999"):
        job.using(at=last + timedelta(seconds=1))
    latest = job.using(at=last).enqueue().run_id
    beyond = job.using(at=last).enqueue().run_id
    with app.store.transaction(longest=1_000_000) as connection:  # type: ignore[arg-type]
        table = "onejob_run" if app.store.dialect == "sqlite" else f'"{app.schema}".run'
        connection.execute(f"UPDATE {table} SET due = due + 86400000000 WHERE id = {beyond}")

    assert {run.id: run.due for run in app.runs.find()} == {latest: last, beyond: last}


@pytest.mark.parametrize("items", [None, 7, "text", [7], {"image_id": 1}, [None]])
def test_what_is_no_list_of_arguments_is_refused(job: Any, items: Any) -> None:
    with pytest.raises(UsageError, match="arguments of each run by name"):
        job.enqueue_many(items)


def test_many_may_come_from_a_generator(job: Any) -> None:
    items = ({"image_id": number} for number in range(3))

    answers = job.using(key=lambda a: f"img-{a['image_id']}").enqueue_many(items)

    assert [answer.key for answer in answers] == ["img-0", "img-1", "img-2"]


@pytest.mark.parametrize(
    "asked",
    [
        {"limit": "5"},
        {"limit": 2.5},
        {"limit": True},
        {"limit": 0},
        {"limit": 10_001},
        {"state": "bogus"},
        {"state": None},
        {"key": "\ud800"},
        {"job": 7},
        {"schedule": "a\0b"},
    ],
)
def test_a_look_that_cannot_be_right_is_refused(asked: Any) -> None:
    """P8: a misspelt state is no empty list, and the store's host does not even exist."""
    app = App("postgresql://nobody.invalid/shop")

    with pytest.raises(UsageError):
        app.runs.find(**asked)
    if "limit" in asked:
        with pytest.raises(UsageError):
            app.effects.unknown(**asked)


def test_runs_are_found_by_state_and_by_outcome(app: App, job: Any) -> None:
    run = job.enqueue(1)
    app.runs.cancel(run.run_id)

    assert [found.id for found in app.runs.find(state="cancelled")] == [run.run_id]
    assert [found.id for found in app.runs.find(state="ended")] == [run.run_id]
    assert app.runs.find(state="timed out") == app.runs.find(state="running") == []
