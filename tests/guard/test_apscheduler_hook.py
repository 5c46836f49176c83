"""APScheduler's hook in this process: which ticks it asks for, and what becomes of its jobs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from guard.ticks import Noted
from onejob import UsageError
from onejob.integrations import apscheduler as hook
from onejob.permits import Later, Leave

SOON = 5.0


class Ends(Noted):
    """Tells when a run's end has been recorded."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.told = threading.Semaphore(0)

    def done(self, permit: object) -> None:
        super().done(permit)
        self.told.release()

    def failed(self, permit: object, error: BaseException) -> None:
        super().failed(permit, error)
        self.told.release()

    def give_back(self, permit: object, why: str) -> None:
        super().give_back(permit, why)
        self.told.release()


@pytest.fixture
def guard() -> Ends:
    return Ends()


@pytest.fixture
def scheduler(guard: Ends) -> Iterator[BackgroundScheduler]:
    scheduler = BackgroundScheduler(timezone="Europe/Berlin")
    hook.attach(scheduler, guard)
    scheduler.start(paused=True)
    yield scheduler
    scheduler.shutdown()


def nothing() -> None: ...


def due(scheduler: BackgroundScheduler, job: object, at: datetime) -> None:
    """Let a job be due at an instant, and the scheduler see it."""
    job.modify(next_run_time=at, misfire_grace_time=None)
    scheduler._lookup_executor("default").submit_job(scheduler.get_job(job.id), [at])


TWO = datetime(2026, 1, 15, 1, tzinfo=UTC)


def test_a_run_time_is_the_key_and_its_end_is_recorded(
    scheduler: BackgroundScheduler, guard: Ends
) -> None:
    ran: list[int] = []
    job = scheduler.add_job(ran.append, "cron", args=[1], hour=2, id="nightly")

    due(scheduler, job, TWO)

    assert guard.told.acquire(timeout=SOON)
    assert ran == [1]
    assert guard.ended == [("done", "apscheduler:nightly@2026-01-15T01:00:00Z")]


def test_a_job_that_raises_has_run(scheduler: BackgroundScheduler, guard: Ends) -> None:
    job = scheduler.add_job(lambda: 1 / 0, "cron", hour=2, id="nightly")

    due(scheduler, job, TWO)

    assert guard.told.acquire(timeout=SOON)
    assert guard.ended == [("done", "apscheduler:nightly@2026-01-15T01:00:00Z")]


def test_a_refused_tick_does_not_run(scheduler: BackgroundScheduler, guard: Ends) -> None:
    ran: list[int] = []
    job = scheduler.add_job(ran.append, "cron", args=[1], hour=2, id="nightly")
    guard.answers = [Leave]

    due(scheduler, job, TWO)

    assert ran == []
    assert guard.ended == []


def test_a_tick_that_was_taken_over_runs_however_late(
    scheduler: BackgroundScheduler, guard: Ends
) -> None:
    """misfire_grace_time is a second by default, and a lease is longer."""
    ran: list[int] = []
    job = scheduler.add_job(ran.append, "cron", args=[1], hour=2, id="nightly")
    job.modify(misfire_grace_time=1)
    guard.answers = [Later]
    scheduler._lookup_executor("default").submit_job(scheduler.get_job("nightly"), [TWO])
    assert ran == []

    guard.look_later()

    assert guard.told.acquire(timeout=SOON)
    assert ran == [1]


def test_a_run_that_came_too_late_for_its_own_scheduler_is_left_to_others(
    scheduler: BackgroundScheduler, guard: Ends
) -> None:
    ran: list[int] = []
    scheduler.add_job(ran.append, "cron", args=[1], hour=2, id="nightly", misfire_grace_time=1)

    scheduler._lookup_executor("default").submit_job(scheduler.get_job("nightly"), [TWO])

    assert guard.told.acquire(timeout=SOON)
    assert ran == []
    assert guard.ended == [("given back", "apscheduler:nightly@2026-01-15T01:00:00Z")]


def test_a_process_that_is_busy_with_the_job_leaves_the_tick_to_others(
    scheduler: BackgroundScheduler, guard: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    """max_instances counts in one process; it is looked at before the claim, not after."""
    go = threading.Event()
    job = scheduler.add_job(go.wait, "cron", hour=2, id="nightly", max_instances=1)
    due(scheduler, job, TWO)

    with pytest.raises(Exception, match="maximum number of instances"):
        due(scheduler, job, TWO + timedelta(days=1))

    go.set()
    assert guard.told.acquire(timeout=SOON)
    assert len(guard.asked) == 1


def test_an_executor_that_breaks_leaves_no_tick_held(
    scheduler: BackgroundScheduler, guard: Ends
) -> None:
    go = threading.Event()
    job = scheduler.add_job(go.wait, "cron", hour=2, id="nightly")
    due(scheduler, job, TWO)

    scheduler._executors["default"]._run_job_error("nightly", RuntimeError("the pool broke"))
    go.set()

    assert guard.told.acquire(timeout=SOON)
    assert guard.ended[0] == ("failed", "apscheduler:nightly@2026-01-15T01:00:00Z")


@pytest.mark.parametrize(
    ("trigger", "name"),
    [
        (CronTrigger(hour=2, timezone="UTC"), "cron[hour='2'] UTC"),
        (IntervalTrigger(seconds=5), "interval[0:00:05]"),
    ],
)
def test_a_job_without_an_id_is_called_by_what_it_does_and_when(
    scheduler: BackgroundScheduler, guard: Ends, trigger: object, name: str
) -> None:
    """Its id is random in each process."""
    job = scheduler.add_job(nothing, trigger)

    due(scheduler, job, TWO)

    assert guard.asked[0].schedule.startswith(f"apscheduler:{__name__}.nothing {name}")


def test_an_interval_is_asked_by_its_distance_not_by_its_phase(
    scheduler: BackgroundScheduler, guard: Ends
) -> None:
    """A23: and jitter, which each process draws anew, takes nothing off it."""
    job = scheduler.add_job(nothing, "interval", seconds=30, jitter=15, id="often")

    due(scheduler, job, TWO)

    assert guard.asked[0].key == "apscheduler:often@every"
    assert guard.asked[0].spacing == 29_000_000


@pytest.mark.parametrize("seconds", [0, 0.1, 59, 60])
def test_jitter_is_taken_off_a_run_time(
    scheduler: BackgroundScheduler, guard: Ends, seconds: float
) -> None:
    """It is drawn in each process anew."""
    job = scheduler.add_job(nothing, "cron", hour=2, jitter=60, id="nightly")

    due(scheduler, job, TWO + timedelta(seconds=seconds))

    assert guard.keys == ["apscheduler:nightly@2026-01-15T01:00:00Z"]


def test_an_interval_with_a_jitter_of_more_than_half_of_it_is_refused(guard: Ends) -> None:
    scheduler = BackgroundScheduler()
    scheduler.add_job(nothing, "interval", seconds=30, jitter=16, id="often")

    with pytest.raises(UsageError, match="half the interval at most"):
        hook.attach(scheduler, guard)


def test_an_interval_in_a_combination_is_refused_at_the_start(guard: Ends) -> None:
    scheduler = BackgroundScheduler()
    both = OrTrigger([IntervalTrigger(seconds=5), CronTrigger(hour=2)])
    scheduler.add_job(nothing, both, id="both")

    with pytest.raises(UsageError, match="combines an interval"):
        hook.attach(scheduler, guard)


@pytest.mark.parametrize("make", [lambda: lambda: None, lambda: [].clear])
def test_two_jobs_that_nobody_can_tell_apart_are_refused_at_the_start(
    guard: Ends, make: Callable[[], Callable[[], None]]
) -> None:
    scheduler = BackgroundScheduler()
    kept = [make(), make()]
    for function in kept:
        scheduler.add_job(function, "cron", hour=2)

    with pytest.raises(UsageError, match=r"two schedules can only be called .* Say id="):
        hook.attach(scheduler, guard)


def test_two_jobs_that_are_the_same_count_as_one_and_this_is_said(
    guard: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    """Three processes that add it to one shared job store have it three times."""
    scheduler = BackgroundScheduler()
    for _ in range(2):
        scheduler.add_job(nothing, "cron", hour=2)

    with caplog.at_level(logging.WARNING, "onejob"):
        hook.attach(scheduler, guard)

    assert "they count as one" in caplog.text


def test_in_a_loop_the_store_is_asked_aside(guard: Ends) -> None:
    threads: list[str] = []

    class Slow(Ends):
        def ask(self, tick: object, *, again: bool = False) -> object:
            threads.append(threading.current_thread().name)
            return super().ask(tick, again=again)

    slow = Slow()

    async def main() -> list[int]:
        ran: list[int] = []
        scheduler = AsyncIOScheduler(timezone="UTC")
        hook.attach(scheduler, slow)

        async def work() -> None:
            ran.append(threading.get_ident())

        scheduler.add_job(work, "date", run_date=datetime.now(UTC) + timedelta(milliseconds=50))
        scheduler.start()
        await asyncio.to_thread(slow.told.acquire, timeout=SOON)
        scheduler.shutdown()
        return ran

    ran = asyncio.run(main())

    assert ran == [threading.get_ident()]
    assert threads[0].startswith("onejob-guard-aside")
    assert [how for how, _ in slow.ended] == ["done"]
