"""The hook of ``schedule`` in this process: which ticks it asks for, and when jobs are next due."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
import schedule

from guard.ticks import Noted
from onejob import UsageError
from onejob.core.time import DAY, HOUR, MINUTE, SECOND
from onejob.integrations import schedule as hook
from onejob.permits import Later, Leave


@pytest.fixture
def guard() -> Noted:
    return Noted()


@pytest.fixture
def scheduler(guard: Noted) -> schedule.Scheduler:
    scheduler = schedule.Scheduler()
    hook.attach(scheduler, guard)
    return scheduler


def work(*args: object) -> None: ...


def due(job: schedule.Job) -> schedule.Job:
    """Let a job be due since its last time on the wall."""
    job.next_run -= job.period if hasattr(job, "period") else timedelta(**{job.unit: job.interval})
    return job


def test_a_time_on_the_wall_is_the_key(scheduler: schedule.Scheduler, guard: Noted) -> None:
    job = due(scheduler.every().day.at("02:00").do(work, 7))
    wanted = job.next_run.astimezone()

    scheduler.run_pending()

    tick = guard.asked[0]
    assert tick.schedule == f"schedule:{__name__}.work(7) every 1 days at 02:00:00"
    assert datetime.fromisoformat(tick.key.rpartition("@")[2]) == wanted
    assert job.next_run > datetime.now()  # noqa: DTZ005 - as the library has it


@pytest.mark.parametrize(
    ("every", "spacing"),
    [
        (lambda s: s.every(10).seconds, 10 * SECOND - SECOND // 2),
        (lambda s: s.every(5).to(10).seconds, 5 * SECOND - SECOND // 4),
        (lambda s: s.every(30).minutes, 30 * MINUTE - SECOND),
        (lambda s: s.every().day, DAY - SECOND - HOUR),
        (lambda s: s.every(3).days.at("10:00"), 3 * DAY - SECOND - HOUR),
        (lambda s: s.every().monday, 7 * DAY - SECOND - HOUR),
    ],
    ids=["10 s", "5 to 10 s", "30 m", "day", "3 days", "monday"],
)
def test_what_counts_from_its_own_start_keeps_its_distance(
    scheduler: schedule.Scheduler, guard: Noted, every: object, spacing: int
) -> None:
    """A23; a day may have 23 hours on the wall."""
    job = every(scheduler).do(work)
    job.next_run = datetime(2026, 1, 15)  # noqa: DTZ001 - as the library has it

    scheduler.run_pending()

    assert guard.asked[0].key.endswith("@every")
    assert guard.asked[0].spacing == spacing


def test_a_refused_job_does_not_run_and_is_next_due_as_if_it_had(
    scheduler: schedule.Scheduler, guard: Noted
) -> None:
    ran: list[int] = []
    job = due(scheduler.every().hour.do(ran.append, 1))
    guard.answers = [Leave]

    scheduler.run_pending()
    scheduler.run_pending()

    assert ran == []
    assert len(guard.asked) == 1
    assert not job.should_run


def test_a_job_that_waits_runs_in_the_same_loop_later(
    scheduler: schedule.Scheduler, guard: Noted
) -> None:
    ran: list[int] = []
    due(scheduler.every().hour.do(ran.append, 1))
    guard.answers = [Later]
    scheduler.run_pending()
    assert ran == []

    guard.now += 2 * SECOND
    scheduler.run_pending()

    assert ran == [1]
    assert [how for how, _ in guard.ended] == ["done"]


def test_a_job_that_was_cancelled_while_it_waited_is_left_to_others(
    scheduler: schedule.Scheduler, guard: Noted
) -> None:
    ran: list[int] = []
    job = due(scheduler.every().hour.do(ran.append, 1))
    guard.answers = [Later]
    scheduler.run_pending()
    scheduler.cancel_job(job)

    guard.now += 2 * SECOND
    scheduler.run_pending()

    assert ran == []
    assert [how for how, _ in guard.ended] == ["given back"]


def test_a_refused_job_past_its_last_day_is_cancelled(
    scheduler: schedule.Scheduler, guard: Noted
) -> None:
    job = due(scheduler.every().hour.until(timedelta(minutes=5)).do(work))
    guard.answers = [Leave]

    scheduler.run_pending()

    assert job not in scheduler.jobs


def test_a_job_that_raises_has_run(scheduler: schedule.Scheduler, guard: Noted) -> None:
    due(scheduler.every().hour.do(lambda: 1 / 0))

    with pytest.raises(ZeroDivisionError):
        scheduler.run_pending()

    assert [how for how, _ in guard.ended] == ["done"]


def test_run_all_runs_what_somebody_asked_for_here(
    scheduler: schedule.Scheduler, guard: Noted
) -> None:
    ran: list[int] = []
    scheduler.every().hour.do(ran.append, 1)

    scheduler.run_all()

    assert ran == [1]
    assert guard.asked == []


def test_two_jobs_that_nobody_can_tell_apart_are_refused(scheduler: schedule.Scheduler) -> None:
    for _ in range(2):
        due(scheduler.every().hour.do(lambda: None))

    with pytest.raises(UsageError, match="two schedules can only be called"):
        scheduler.run_pending()
