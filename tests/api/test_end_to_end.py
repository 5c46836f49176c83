"""An App as a replica: in a background thread, and in an ASGI host's loop."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from onejob import App, AsyncRun, NotSent, Retry, RetryLater, Run, RunInfo, current_run


def test_a_started_app_fires_schedules_and_executes_runs(app: App) -> None:
    fired: list[datetime | None] = []
    twice = threading.Event()

    @app.every("1s")
    def tick(run: Run) -> None:
        fired.append(run.fire_time)
        if len(fired) == 2:
            twice.set()

    @app.job()
    def double(run: Run, number: int) -> int:
        assert current_run() is run
        run.progress(1, 1, "done")
        return 2 * number

    @app.job()
    async def triple(run: AsyncRun, number: int) -> int:
        assert current_run() is run
        await run.progress(1)
        return await run.effect("multiply", lambda: 3 * number)

    app.start()
    doubled = app.runs.wait(double.enqueue(number=21).run_id, timeout=10)
    tripled = app.runs.wait(triple.enqueue(14).run_id, timeout=10)

    assert (doubled.outcome, doubled.result) == ("succeeded", 42)
    assert (tripled.outcome, tripled.result) == ("succeeded", 42)
    assert twice.wait(10)
    assert app.stop() is False
    moments = [at for at in fired if at is not None]
    assert len(set(moments)) == len(fired)
    assert all(at.microsecond == 0 and at.tzinfo is not None for at in moments)
    assert str(app.status()) == "not running here: not started"


def test_an_app_lives_in_the_loop_of_its_host(app: App) -> None:
    async def scenario() -> tuple[Any, Any]:
        ticked = asyncio.Event()

        @app.every("1s")
        async def tick(run: AsyncRun) -> None:
            ticked.set()

        @app.job()
        async def double(number: int) -> int:
            return 2 * number

        async with app.lifespan(host=object()):
            answer = await double.aenqueue(21)
            run = await app.runs.await_(answer.run_id, timeout=10)
            await asyncio.wait_for(ticked.wait(), 10)
            return run, app.status()

    run, status = asyncio.run(scenario())

    assert (run.outcome, run.result) == ("succeeded", 42)
    assert status.running
    assert not app.status().running


def test_a_run_completed_in_its_transaction_ends_once(app: App) -> None:
    @app.job()
    def bill(run: Run) -> str:
        with run.transaction(complete=True):
            pass
        return "not kept"

    app.start()
    ended = app.runs.wait(bill.enqueue().run_id, timeout=10)
    app.stop()

    assert (ended.outcome, ended.result, ended.attempt) == ("succeeded", None, 1)


def test_an_unknown_effect_stops_its_run_until_somebody_says(app: App) -> None:
    calls = []

    def charge() -> None:
        calls.append(1)
        raise TimeoutError("read timed out")

    @app.job()
    def bill(run: Run) -> Any:
        return run.effect("charge", charge)

    app.start()
    unknown = threading.Event()
    app.events.listen(lambda event: unknown.set() if event.name == "run.unknown" else None)
    answer = bill.using(key="7").enqueue()
    until_state(app, answer.run_id, "unknown")
    app.effects.resolve("bill/7", "charge", "done", result="r-1")
    ended = app.runs.wait(answer.run_id, timeout=10)
    app.stop()

    assert (ended.outcome, ended.result) == ("succeeded", "r-1")
    assert calls == [1]


def test_an_effect_that_repeats_is_tried_again_by_the_retry_policy(app: App) -> None:
    keys: list[str] = []

    def charge(*, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        if len(keys) == 1:
            raise TimeoutError("read timed out")
        return "r-1"

    @app.job(retry=Retry(attempts=3, base="10ms"))
    def bill(run: Run) -> str:
        return run.effect(
            "charge",
            charge,
            if_unknown="repeat",
            pass_key_as="idempotency_key",
            provider_keeps="24h",
        )

    app.start()
    ended = app.runs.wait(bill.enqueue().run_id, timeout=10)
    app.stop()

    assert (ended.outcome, ended.result, ended.attempt) == ("succeeded", "r-1", 2)
    assert len(set(keys)) == 1


def test_retry_later_and_a_timeout_are_the_jobs_own(app: App) -> None:
    seen: list[Any] = []

    @app.job(timeout="1h", retry=Retry(attempts=2))
    def later(run: Run) -> None:
        seen.append((run.attempt, run.deadline, run.remaining()))
        if run.attempt == 1:
            raise RetryLater("10ms")

    app.start()
    ended = app.runs.wait(later.enqueue().run_id, timeout=10)
    app.stop()

    assert (ended.outcome, ended.attempt) == ("succeeded", 2)
    assert 3_500 < seen[0][2] <= 3_600
    assert 3_500 < (seen[0][1] - datetime.now(UTC)).total_seconds() <= 3_600


def test_two_apps_on_one_store_share_the_work_and_not_the_ticks(app: App) -> None:
    """A01, A15: any number of replicas with the same schedule make one run for each fire time."""
    other = App(
        app._url.target if app.store.dialect != "sqlite" else f"sqlite:///{app.store.where}",
        schema=app.schema,
        name="shop",
        lease="6s",
    )
    fired: list[datetime | None] = []
    thrice = threading.Event()

    for one in (app, other):

        @one.every("1s", name="tick")
        def tick(run: Run) -> None:
            fired.append(run.fire_time)
            if len(fired) >= 3:
                thrice.set()

    app.start()
    other.start()
    assert thrice.wait(10)
    other.close()
    app.stop()

    assert len(set(fired)) == len(fired)


def until_state(app: App, run_id: int, state: str) -> RunInfo:
    import time

    ends = time.monotonic() + 10
    while True:
        run = app.runs.get(run_id)
        if run is not None and run.state == state:
            return run
        assert time.monotonic() < ends, run
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def stopped(app: App) -> Any:
    yield
    app.stop()


def test_a_replica_whose_thread_ended_by_itself_can_be_started_again(sqlite_app: App) -> None:
    """An interrupt that a handler raises in the loop ends the thread without a word."""
    app = sqlite_app
    job = app.job(name="double")(lambda: 42)
    app.start()
    ended = app._background
    assert ended is not None
    ended.stop(10)

    dead = app.status()
    app.start()
    run = app.runs.wait(job.enqueue().run_id, timeout=10)
    app.stop()

    assert not dead.running
    assert "ended by itself" in str(dead)
    assert run.outcome == "succeeded"


def mail_to(broken: dict[str, Exception]) -> Any:
    def send(user: str, *, idempotency_key: str = "") -> str:
        if user in broken:
            raise broken[user]
        return user

    return send


def test_a_run_whose_loop_left_an_item_unknown_waits_for_a_word_on_it(app: App) -> None:
    """P5, P7: the rest is done, and the run's state says that this is not."""
    broken: dict[str, Exception] = {"b": TimeoutError("read timed out")}

    @app.job()
    def nightly(run: Run) -> int:
        return run.each("abc", mail_to(broken), key=str).seen

    app.start()
    answer = nightly.using(key="7").enqueue()
    waiting = until_state(app, answer.run_id, "unknown")
    app.effects.resolve("nightly/7", "b", "done")
    ended = app.runs.wait(answer.run_id, timeout=20)
    app.stop()

    assert "0 of 3 items set aside, 1 unknown: b: unknown" in (waiting.error or "")
    assert (ended.outcome, ended.result, ended.attempt) == ("succeeded", 3, 2)


def test_a_run_whose_loop_set_items_aside_has_failed_and_names_them(app: App) -> None:
    """P7: no success, and no second try of its own; a retry by hand calls what is left."""
    broken: dict[str, Exception] = {"b": NotSent("no route")}

    @app.job()
    async def nightly(run: AsyncRun) -> int:
        return (await run.each("abc", mail_to(broken), key=str)).skipped

    app.start()
    answer = nightly.using(key="7").enqueue()
    failed = app.runs.wait(answer.run_id, timeout=20)
    broken.clear()
    app.runs.retry(answer.run_id)
    ended = app.runs.wait(answer.run_id, timeout=20)
    app.stop()

    assert (failed.outcome, failed.attempt) == ("failed", 1)
    assert "1 of 3 items set aside, 0 unknown: b: error, NotSent: no route" in (failed.error or "")
    assert (ended.outcome, ended.result) == ("succeeded", 2)


def test_a_run_whose_items_the_policy_settles_comes_back_for_them(app: App) -> None:
    """P5: with the provider's key the next attempt tells the two apart."""
    broken: dict[str, Exception] = {"b": TimeoutError("read timed out")}

    @app.job(retry=Retry(attempts=3, base="10ms"))
    def nightly(run: Run) -> int:
        keyed: dict[str, Any] = {"pass_key_as": "idempotency_key", "provider_keeps": "24h"}
        result = run.each("abc", mail_to(broken), key=str, if_unknown="repeat", **keyed)
        broken.clear()
        return result.done

    app.start()
    ended = app.runs.wait(nightly.enqueue().run_id, timeout=20)
    app.stop()

    assert (ended.outcome, ended.result, ended.attempt) == ("succeeded", 1, 2)
