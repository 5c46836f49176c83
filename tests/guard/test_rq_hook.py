"""RQ's hook in this process: which ticks it asks for, and whose schedulers it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import rq.cron
from redis import Redis
from rq.cron import CronJob, CronScheduler

from guard.ticks import Noted
from onejob import UsageError
from onejob.integrations import rq as hook
from onejob.permits import Later, Leave

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)


@pytest.fixture
def guard() -> Noted:
    return Noted()


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What jobs were enqueued; no server is asked. Everything is put back afterwards."""
    done: list[str] = []
    monkeypatch.setattr(CronJob, "enqueue", lambda job, connection: done.append(job.func_name))
    for owner, name in (
        (CronScheduler, "enqueue_jobs"),
        (CronScheduler, "calculate_sleep_interval"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    yield done
    vars(rq.cron).pop(hook.HOOK, None)


def work(*args: object) -> None: ...


def scheduler() -> CronScheduler:
    return CronScheduler(Redis())


def due(job: CronJob, at: datetime = NOON) -> None:
    job.next_enqueue_time = at


def test_a_cron_job_is_asked_for_by_its_own_fire_time(guard: Noted, enqueued: list[str]) -> None:
    one = scheduler()
    hook.attach(one, guard)
    job = one.register(work, "default", cron="0 12 * * *")
    due(job)

    one.enqueue_jobs()

    assert guard.keys == [f"rq:{__name__}.work 0 12 * * * to default@2026-01-15T12:00:00Z"]
    assert guard.asked[0].keep == timedelta(days=2) // timedelta(microseconds=1)
    assert enqueued == [f"{__name__}.work"]
    assert job.next_enqueue_time > NOON


def test_a_name_that_was_given_is_the_name(guard: Noted, enqueued: list[str]) -> None:
    one = scheduler()
    hook.attach(one, guard)
    due(one.register(work, "default", cron="0 12 * * *", name="report"))

    one.enqueue_jobs()

    assert guard.asked[0].schedule == "rq:report"


def test_an_interval_keeps_its_distance(guard: Noted, enqueued: list[str]) -> None:
    """A23"""
    one = scheduler()
    hook.attach(one, guard)
    one.register(work, "default", interval=60)

    one.enqueue_jobs()

    assert guard.keys == [f"rq:{__name__}.work every 60 s to default@every"]
    assert guard.asked[0].spacing == 59_000_000


def test_a_refused_job_is_not_enqueued_and_moves_on(guard: Noted, enqueued: list[str]) -> None:
    one = scheduler()
    hook.attach(one, guard)
    job = one.register(work, "default", cron="0 12 * * *")
    due(job)
    guard.answers = [Leave]

    one.enqueue_jobs()

    assert enqueued == []
    assert job.next_enqueue_time > NOON


def test_what_waits_is_looked_at_in_time(guard: Noted, enqueued: list[str]) -> None:
    one = scheduler()
    hook.attach(one, guard)
    due(one.register(work, "default", cron="0 12 * * *"))
    guard.answers = [Later]
    one.enqueue_jobs()
    assert one.calculate_sleep_interval() <= 1

    guard.now += 2_000_000
    one.enqueue_jobs()

    assert enqueued == [f"{__name__}.work"]


def test_the_module_stands_for_every_scheduler_of_the_process(
    guard: Noted, enqueued: list[str]
) -> None:
    """What ``rq cron`` starts is made after the configuration was read."""
    hook.attach(rq.cron, guard)
    one = scheduler()
    due(one.register(work, "default", cron="0 12 * * *"))

    one.enqueue_jobs()

    assert len(guard.asked) == 1


def test_a_scheduler_that_nobody_guards_is_left_alone(guard: Noted, enqueued: list[str]) -> None:
    mine, other = scheduler(), scheduler()
    hook.attach(mine, guard)
    due(other.register(work, "default", cron="0 12 * * *"))

    other.enqueue_jobs()

    assert guard.asked == []
    assert enqueued == [f"{__name__}.work"]


def test_two_jobs_that_nobody_can_tell_apart_are_refused(guard: Noted, enqueued: list[str]) -> None:
    one = scheduler()
    hook.attach(one, guard)
    for _ in range(2):
        due(one.register(work, "default", cron="0 12 * * *", args=(object(),)))

    with pytest.raises(UsageError, match="Say name="):
        one.enqueue_jobs()
