"""Jobs inside a test: enqueued into memory, executed by the production path when the test says."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from onejob import App, AsyncRun, LeaseLost, Retry, RetryLater, Run, UsageError, current_run
from onejob.errors import UnsupportedByStore
from onejob.testing import Inline, inline


class Shop:
    """What an application has at module level: an App over a server that tests don't have."""

    def __init__(self) -> None:
        self.app = app = App("postgresql://127.0.0.1:1/nowhere", name="shop")
        self.sent: list[Any] = []

        @app.job(retry=Retry(attempts=3, base="15s"))
        def send(to: str, amount: Decimal = Decimal(0)) -> str:
            self.sent.append((to, amount))
            if to.startswith("bad"):
                raise ConnectionError("the mail server is away")
            return f"sent to {to}"

        @app.job(queue="slow")
        async def fetch(run: AsyncRun, page: int) -> None:
            await asyncio.sleep(0)
            self.sent.append((run.attempt, page))

        @app.cron("0 2 * * *", tz="Europe/Berlin")
        def nightly(run: Run) -> None:
            self.sent.append(run.fire_time)

        self.send, self.fetch, self.nightly = send, fetch, nightly


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def jobs(shop: Shop) -> Iterator[Inline]:
    before = set(threading.enumerate())
    with inline(shop.app) as inside:
        yield inside
    assert set(threading.enumerate()) <= before, "no thread outlives the block"


def test_what_is_enqueued_waits_in_memory_until_it_is_drained(shop: Shop, jobs: Inline) -> None:
    shop.send.enqueue("ada", Decimal("9.90"))

    assert shop.sent == []
    [run] = jobs.drain()

    assert shop.sent == [("ada", Decimal("9.90"))]
    assert (run.job, run.state, run.outcome, run.result) == (
        "send",
        "ended",
        "succeeded",
        "sent to ada",
    )
    assert jobs.drain() == []


def test_arguments_go_through_the_real_codec(shop: Shop, jobs: Inline) -> None:
    """F17: what could not be stored in production is refused in the test as well."""
    with pytest.raises(UsageError, match=r"send: args\.amount"):
        shop.send.enqueue("ada", object())  # type: ignore[arg-type]

    assert jobs.enqueued() == []


def test_sync_jobs_run_in_the_tests_thread_and_see_no_loop(shop: Shop, jobs: Inline) -> None:
    seen: list[object] = []

    @shop.app.job()
    def look() -> None:
        seen.append(threading.current_thread())
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        seen.append(current_run().job)

    look.enqueue()
    jobs.drain()

    assert seen == [threading.current_thread(), "look"]


def test_async_jobs_run_and_one_after_the_other_by_priority(shop: Shop, jobs: Inline) -> None:
    shop.fetch.using(priority=5).enqueue(page=1)
    shop.fetch.using(priority=1).enqueue(page=2)

    runs = jobs.drain()

    assert shop.sent == [(1, 2), (1, 1)]
    assert [run.priority for run in runs] == [1, 5]


def test_what_a_job_enqueues_is_drained_too(shop: Shop, jobs: Inline) -> None:
    @shop.app.job()
    def split(names: list[str]) -> None:
        for name in names:
            shop.send.enqueue(name)

    split.enqueue(["ada", "bob"])

    assert [run.job for run in jobs.drain()] == ["split", "send", "send"]


def test_a_retry_waits_for_its_time_which_is_the_policys_own(shop: Shop, jobs: Inline) -> None:
    shop.send.enqueue("bad address")

    [first] = jobs.drain()
    jobs.travel("14s")
    assert jobs.drain() == []
    jobs.travel("1s")
    [second] = jobs.drain()
    jobs.travel("30s")
    [last] = jobs.drain()

    assert (first.state, second.attempt) == ("scheduled", 2)
    assert (last.outcome, last.error) == ("failed", "ConnectionError: the mail server is away")


def test_a_run_that_is_due_later_is_drained_later(shop: Shop, jobs: Inline) -> None:
    shop.send.using(delay="1h").enqueue("ada")

    assert jobs.drain() == []
    jobs.travel("1h")

    assert [run.outcome for run in jobs.drain()] == ["succeeded"]


def test_a_schedule_fires_when_its_time_has_come(shop: Shop, jobs: Inline) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    jobs.travel(to=datetime(2026, 3, 29, 1, 0, tzinfo=berlin))
    assert jobs.drain() == []

    jobs.travel(to=datetime(2026, 3, 29, 3, 0, tzinfo=berlin))
    [run] = jobs.drain()

    assert run.schedule == "nightly"
    assert shop.sent == [datetime(2026, 3, 29, 3, 0, tzinfo=berlin)]
    jobs.assert_enqueued(shop.nightly, count=0)


def test_what_was_due_on_the_way_follows_the_schedules_catch_up(shop: Shop, jobs: Inline) -> None:
    jobs.travel(to=datetime(2026, 5, 1, 12, 0, tzinfo=UTC))
    jobs.travel("3d")

    assert [run.schedule for run in jobs.drain()] == ["nightly"]


def test_the_processs_own_clock_travels_as_well(shop: Shop, jobs: Inline) -> None:
    lock = shop.app.lock("reindex", ttl="30s")
    lease = lock.__enter__()
    jobs.travel("1h")

    with pytest.raises(LeaseLost):
        lease.check()
    with pytest.raises(LeaseLost):
        lock.__exit__(None, None, None)


def test_the_clock_goes_where_it_is_sent(jobs: Inline) -> None:
    there = datetime(2030, 1, 1, tzinfo=UTC)
    jobs.travel(to=there)

    assert there <= jobs.now < there + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("span", "to", "says"),
    [
        (None, None, "how far or where to"),
        ("1h", datetime(2030, 1, 1, tzinfo=UTC), "how far or where to"),
        (None, datetime(2030, 1, 1), "naive"),  # noqa: DTZ001 - what is refused
        ("soon", None, "soon"),
    ],
)
def test_a_journey_that_makes_no_sense_is_refused(
    jobs: Inline, span: Any, to: Any, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        jobs.travel(span, to=to)


def test_an_assert_passes_for_what_was_enqueued(shop: Shop, jobs: Inline) -> None:
    shop.send.using(key="welcome-1").enqueue("ada", Decimal("9.90"))
    shop.send.enqueue("bob")
    jobs.drain()

    jobs.assert_enqueued(shop.send)
    jobs.assert_enqueued("send", count=2)
    jobs.assert_enqueued(shop.send, count=1, key="welcome-1", args={"to": "ada"})
    jobs.assert_enqueued(shop.send, args={"amount": Decimal("9.90")})
    jobs.assert_enqueued(shop.fetch, count=0)
    assert [run.args["to"] for run in jobs.enqueued(shop.send)] == ["ada", "bob"]


def test_a_failed_assert_shows_what_was_enqueued_instead(shop: Shop, jobs: Inline) -> None:
    with pytest.raises(AssertionError, match="Nothing was enqueued"):
        jobs.assert_enqueued(shop.send)
    shop.fetch.enqueue(page=3)
    shop.send.using(key="welcome-1").enqueue("ada")

    with pytest.raises(AssertionError) as failed:
        jobs.assert_enqueued(shop.send, args={"to": "bob"})

    first, second, *listed = str(failed.value).splitlines()
    assert first == "send with to='bob' should have been enqueued at least once, and was never."
    assert second == "What was enqueued:"
    assert listed[0].startswith("  send(to='ada') key='welcome-1' due=")
    assert listed[1].startswith("  fetch(page=3) due=")


def test_an_assert_about_a_job_or_argument_that_there_is_not_is_refused(
    shop: Shop, jobs: Inline
) -> None:
    with pytest.raises(UsageError, match="Those have: fetch, nightly, send"):
        jobs.assert_enqueued("sned", count=0)
    with pytest.raises(UsageError, match="It has: to, amount"):
        jobs.assert_enqueued(shop.send, count=0, args={"addressee": "ada"})


def test_an_interrupt_in_a_job_is_the_tests_own(shop: Shop, jobs: Inline) -> None:
    @shop.app.job()
    def stop() -> None:
        pytest.fail("this must not be called")

    stop.enqueue()

    with pytest.raises(pytest.fail.Exception, match="must not be called"):
        jobs.drain()


def test_jobs_without_an_end_are_told_of(
    shop: Shop, jobs: Inline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onejob.testing.drain.ATTEMPTS_MOST", 5)

    @shop.app.job()
    def again() -> None:
        again.enqueue()

    again.enqueue()

    with pytest.raises(UsageError, match="does a job enqueue itself"):
        jobs.drain()


def test_within_a_transaction_of_any_database_a_run_is_made_at_once(
    shop: Shop, jobs: Inline
) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("BEGIN")
    shop.send.using(within=connection).enqueue("ada")
    first = shop.app.first("digest", "ada", within=connection)
    again = shop.app.first("digest", "ada", within=connection)
    connection.rollback()
    connection.close()

    assert (first, again) == (True, False)
    jobs.assert_enqueued(shop.send, count=1)


def test_a_fenced_transaction_is_the_tests_own_to_give(
    shop: Shop, jobs: Inline, tmp_path: Path
) -> None:
    @shop.app.job(retry=Retry(attempts=1))
    def book(run: Run) -> None:
        with run.transaction(complete=True) as connection:
            connection.execute("INSERT INTO booked VALUES (1)")
            shop.send.using(within=connection).enqueue("ada")

    book.enqueue()
    [refused] = jobs.drain()
    connection = sqlite3.connect(tmp_path / "test.db", isolation_level=None)
    connection.execute("CREATE TABLE booked (id)")
    connection.execute("BEGIN")
    jobs.transactions = lambda: connection
    book.enqueue()
    done = jobs.drain()

    assert refused.error is not None
    assert refused.error.startswith(UnsupportedByStore.__name__)
    assert "onejob.transactions = engine.begin" in refused.error
    assert [(run.job, run.outcome) for run in done] == [
        ("book", "succeeded"),
        ("send", "succeeded"),
    ]
    assert connection.execute("SELECT count(*) FROM booked").fetchall() == [(1,)]
    connection.close()


def test_an_app_starts_nothing_inside_and_is_its_own_again_outside(shop: Shop) -> None:
    before = set(threading.enumerate())
    with inline(shop.app):
        shop.app.start()
        assert set(threading.enumerate()) == before
        assert not shop.app.status().running
        assert shop.app.store.dialect == "memory"
        shop.app.check()

    assert shop.app.store.dialect == "postgresql"


def test_an_app_that_is_a_replica_already_is_not_taken_from_under_it(sqlite_url: str) -> None:
    app = App(sqlite_url)
    app.store.init()  # type: ignore[attr-defined]  # every store in a database has it
    app.start()
    try:
        with pytest.raises(UsageError, match="Stop it before the test"), inline(app):
            pass
    finally:
        app.close()


def test_every_app_is_inside_where_none_is_named_also_one_made_later(shop: Shop) -> None:
    with inline() as jobs:
        later = Shop()
        shop.send.enqueue("ada")
        later.send.enqueue("bob")
        drained = jobs.drain()

        assert len(drained) == 2
        assert (shop.sent, later.sent) == ([("ada", 0)], [("bob", 0)])

    assert later.app.store.dialect == "postgresql"


def test_nothing_is_left_for_the_next_test(shop: Shop) -> None:
    with inline(shop.app):
        shop.send.enqueue("ada")

    with inline(shop.app) as jobs:
        assert jobs.enqueued() == []
        assert jobs.drain() == []


def test_an_async_test_awaits_the_twin(shop: Shop, jobs: Inline) -> None:
    async def test() -> list[str | None]:
        with pytest.raises(UsageError, match=r"await adrain\(\)"):
            jobs.drain()
        await shop.send.aenqueue("ada")
        await shop.fetch.aenqueue(page=1)
        return [run.outcome for run in await jobs.adrain()]

    assert asyncio.run(test()) == ["succeeded", "succeeded"]


def test_a_job_may_say_later_and_hold_locks_and_effects(shop: Shop, jobs: Inline) -> None:
    calls: list[int] = []

    @shop.app.job()
    def charge(run: Run) -> str:
        receipt = run.effect("charge", lambda: calls.append(1) or "receipt")
        if run.attempt == 1:
            raise RetryLater("10m")
        return receipt

    charge.enqueue()
    jobs.drain()
    jobs.travel("10m")
    [run] = jobs.drain()

    assert (run.result, calls) == ("receipt", [1])


def test_a_failed_attempt_logs_the_arguments_that_are_allowed_and_no_other(
    shop: Shop, jobs: Inline, caplog: pytest.LogCaptureFixture
) -> None:
    """G03: nothing by default; a field by its name."""

    @shop.app.job(log_fields=["order"])
    def pay(order: int, card: str) -> None:
        raise ConnectionError("https://shop:hunter2@bank.example is away")

    @shop.app.job()
    def quiet(order: int) -> None:
        raise ConnectionError

    with caplog.at_level("WARNING", "onejob"):
        pay.enqueue(4711, "4000-1234")
        quiet.enqueue(815)
        paid, _ = jobs.drain()

    lines = [record.getMessage() for record in caplog.records]
    assert any("with order=4711 failed: again in 15.0 s" in line for line in lines)
    assert not any("4000-1234" in line or "815" in line for line in lines)
    assert paid.error == "ConnectionError: https://shop:***@bank.example is away"
