"""Celery beat, guarded and not, in real processes and in this one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.beat import EmbeddedService, Scheduler, Service
from celery.schedules import BaseSchedule, crontab, solar
from celery.signals import beat_init

from guard.fleet import assert_each_once, assert_spaced, fleet, kill_one_at_work
from guard.ticks import Noted
from onejob import App
from onejob.integrations import celery as hook
from onejob.permits import Later, Leave


@pytest.mark.slow
def test_three_unguarded_beats_send_each_tick_three_times(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A15, A16: two beats for availability, or one in each worker."""
    with fleet("celery_beat_program", app, tmp_path, url=sqlite_url, unguarded="1") as three:
        three.wait_for_three_at_once("minutely")


@pytest.mark.slow
def test_three_guarded_beats_send_each_tick_once(app: App, sqlite_url: str, tmp_path: Path) -> None:
    """A15, A16: one is killed while it sends, and another started."""
    with fleet("celery_beat_program", app, tmp_path, url=sqlite_url) as three:
        three.wait_for_effects(1)
        kill_one_at_work(three)
        three.wait_for_effects(5)

    assert_each_once(three, "celery:minutely", "minutely", every=60)


@pytest.mark.slow
def test_three_guarded_beats_keep_to_one_interval(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A23: each process counts from its own start, and yet there is one tick in an interval."""
    with fleet("celery_beat_program", app, tmp_path, url=sqlite_url, often="1") as three:
        three.wait_for_effects(1)
        kill_one_at_work(three)
        three.wait_for_effects(4)

    assert_spaced(three.effects("often"), least=0.6, most=4.0)


# In this process


BERLIN = ZoneInfo("Europe/Berlin")


class Clocked(BaseSchedule):
    """As django-celery-beat has it: once, at an instant."""

    def __init__(self, clocked_time: datetime) -> None:
        super().__init__()
        self.clocked_time = clocked_time


class Sun(solar):
    """One of the library's without the one that it asks for the sun."""

    def __init__(self) -> None:
        BaseSchedule.__init__(self)


def beat(guard: Noted, **timings: object) -> Scheduler:
    """Return a beat scheduler of the library's own, guarded, with tasks that note themselves."""
    celery = Celery("shop", broker="memory://", set_as_current=False)
    celery.conf.timezone = "Europe/Berlin"
    celery.conf.beat_schedule = {
        name: {"task": name, "schedule": timing} for name, timing in timings.items()
    }
    scheduler = Scheduler(celery)
    scheduler.sent = []
    scheduler.send_task = lambda task, *args, **options: scheduler.sent.append(task)
    hook.attach(scheduler, guard)
    return scheduler


def at(when: str) -> Callable[[], datetime]:
    moment = datetime.fromisoformat(when)
    return lambda: moment


@pytest.mark.parametrize(
    ("timing", "key"),
    [
        (
            crontab(minute=0, hour=2, nowfun=at("2026-01-15T02:00:03+01:00")),
            "celery:job@2026-01-15T01:00:00Z",
        ),
        (
            crontab(minute=0, hour=2, nowfun=at("2026-01-15T14:00:00+01:00")),
            "celery:job@2026-01-15T01:00:00Z",
        ),
        (
            crontab(minute=0, hour=2, nowfun=at("2026-03-29T03:00:00+02:00")),
            "celery:job@2026-03-29T01:00:00Z",
        ),
        (
            crontab(hour=9, minute=0, day_of_week="mon", nowfun=at("2026-01-14T00:00:00+01:00")),
            "celery:job@2026-01-12T08:00:00Z",
        ),
        (Clocked(datetime(2026, 1, 15, 2, tzinfo=BERLIN)), "celery:job@2026-01-15T01:00:00Z"),
        (60.0, "celery:job@every"),
        (timedelta(hours=1), "celery:job@every"),
        (Sun(), "celery:job@every"),
    ],
    ids=["cron", "cron, late", "cron in a gap", "weekday", "clocked", "seconds", "hour", "sun"],
)
def test_a_beat_entry_means_one_fire_time_in_every_process(timing: object, key: str) -> None:
    """A17: however often a broken due-loop asks, it asks for the same tick."""
    guard = Noted()
    scheduler = beat(guard, job=timing)

    scheduler.apply_async(scheduler.schedule["job"], advance=False)

    assert guard.keys == [key]
    assert scheduler.sent == ["job"]


@pytest.mark.parametrize(
    ("timing", "seconds"), [(60.0, 59), (timedelta(hours=1), 3_599), (Sun(), 43_199)]
)
def test_a_beat_interval_keeps_nearly_a_whole_one_between(timing: object, seconds: int) -> None:
    guard = Noted()
    scheduler = beat(guard, job=timing)

    scheduler.apply_async(scheduler.schedule["job"])

    assert guard.asked[0].spacing == seconds * 1_000_000


def test_a_refused_beat_entry_is_not_sent_and_moves_on() -> None:
    guard = Noted(answers=[Leave])
    scheduler = beat(guard, job=60.0)
    before = scheduler.schedule["job"].total_run_count

    assert scheduler.apply_async(scheduler.schedule["job"], advance=True) is None

    assert scheduler.sent == []
    assert scheduler.schedule["job"].total_run_count == before + 1


def test_a_beat_looks_in_time_at_what_waits_for_another() -> None:
    guard = Noted(answers=[Later])
    scheduler = beat(guard, job=60.0, never=3_600.0)
    scheduler.apply_async(scheduler.schedule["job"])
    assert scheduler.sent == []

    assert scheduler.tick() <= 1
    guard.now += 2_000_000
    scheduler.tick()

    assert scheduler.sent == ["job"]


def test_a_beat_schedule_that_has_no_fire_times_ends_beat_at_its_start() -> None:
    """A signal's receiver that raises is only logged: beat must not go on unguarded."""

    class Odd(BaseSchedule): ...

    celery = Celery("shop", broker="memory://", set_as_current=False)
    celery.conf.beat_schedule = {"odd": {"task": "odd", "schedule": Odd()}}
    hook.attach(celery, Noted())

    with pytest.raises(SystemExit, match="beat entry 'odd' has a schedule of"):
        beat_init.send(sender=Service(celery, scheduler_cls=Scheduler))


def test_a_beat_that_cannot_be_guarded_for_any_reason_ends_at_its_start() -> None:
    celery = Celery("shop", broker="memory://", set_as_current=False)
    hook.attach(celery, Noted())

    with pytest.raises(SystemExit, match="beat is not guarded"):
        beat_init.send(sender=type("Beat", (), {"app": celery}))


def test_the_beat_of_another_app_is_left_alone() -> None:
    mine, other = (Celery(name, broker="memory://", set_as_current=False) for name in "ab")
    hook.attach(mine, Noted())
    service = Service(other, scheduler_cls=Scheduler)

    beat_init.send(sender=service)

    assert "apply_async" not in vars(service.scheduler)


def test_a_beat_embedded_in_a_worker_is_guarded_too() -> None:
    """A16: ``worker -B`` in each of the autoscaled workers; here in a thread, as on Windows."""
    guard = Noted(answers=[Leave])
    celery = Celery("shop", broker="memory://", set_as_current=False)
    celery.conf.beat_schedule = {"often": {"task": "often", "schedule": 0.01}}
    hook.attach(celery, guard)
    embedded = EmbeddedService(celery, thread=True, scheduler_cls=Scheduler)
    embedded.start()
    try:
        while len(guard.asked) < 2:
            embedded.join(0.01)
            assert embedded.is_alive()
    finally:
        embedded.stop()

    assert {tick.schedule for tick in guard.asked} == {"celery:often"}
