"""What can be guarded, and what is refused when the program starts."""

from __future__ import annotations

import importlib.metadata
from types import SimpleNamespace

import huey
import pytest
import rq.cron
import schedule
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import BaseScheduler
from celery import Celery, current_app
from huey import MemoryHuey
from redis import Redis
from taskiq import InMemoryBroker, TaskiqScheduler
from taskiq.schedule_sources import LabelScheduleSource

from onejob import App, UsageError
from onejob.integrations.guard import MARK, TRIED, check_version


def taskiq() -> TaskiqScheduler:
    broker = InMemoryBroker()
    return TaskiqScheduler(broker, [LabelScheduleSource(broker)])


MAKERS = {
    "apscheduler": BackgroundScheduler,
    "celery": lambda: Celery("shop"),
    "huey": lambda: MemoryHuey("shop"),
    "rq": lambda: rq.cron.CronScheduler(Redis()),
    "schedule": schedule.Scheduler,
    "taskiq": taskiq,
}


@pytest.fixture
def nowhere() -> App:
    """An App whose store cannot be reached: guarding asks it nothing."""
    return App("postgresql://127.0.0.1:1/nowhere")


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_guarding_opens_nothing_and_twice_is_once(nowhere: App, make: object) -> None:
    scheduler = make()

    assert nowhere.guard(scheduler) is nowhere.guard(scheduler)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_second_guard_of_another_kind_is_refused(nowhere: App, make: object) -> None:
    scheduler = make()
    nowhere.guard(scheduler)

    with pytest.raises(UsageError, match="guarded already"):
        nowhere.guard(scheduler, on_unknown="fire")
    with pytest.raises(UsageError, match="guarded already"):
        App("memory://").guard(scheduler)


@pytest.mark.parametrize("module", [rq.cron, schedule], ids=["rq.cron", "schedule"])
def test_a_module_stands_for_its_schedulers(nowhere: App, module: object) -> None:
    target = schedule.default_scheduler if module is schedule else module
    vars(target).pop(MARK, None)
    try:
        assert nowhere.guard(module) is vars(target)[MARK]
    finally:
        for name in (MARK, f"{MARK}_hook", "_run_job", "run_pending"):
            vars(target).pop(name, None)


def test_what_a_proxy_stands_for_is_guarded(nowhere: App) -> None:
    shop = Celery("shop")

    assert nowhere.guard(current_app) is vars(shop)[MARK]


def test_flask_apschedulers_own_scheduler_is_guarded(nowhere: App) -> None:
    from flask_apscheduler import APScheduler

    scheduler = APScheduler()

    assert nowhere.guard(scheduler) is vars(scheduler.scheduler)[MARK]


@pytest.mark.parametrize("thing", [object(), huey, print, None, "scheduler"])
def test_what_is_unknown_is_refused_and_what_is_known_is_named(nowhere: App, thing: object) -> None:
    with pytest.raises(UsageError, match=r"does not know .*APScheduler 3 .*@app.once_per"):
        nowhere.guard(thing)


def test_an_apscheduler_that_was_never_tried_is_refused(nowhere: App) -> None:
    class TornadoScheduler(BaseScheduler):
        def wakeup(self) -> None: ...

        def shutdown(self, wait: bool = True) -> None: ...

    scheduler = TornadoScheduler()

    with pytest.raises(UsageError, match="never tried with TornadoScheduler"):
        nowhere.guard(scheduler)


@pytest.mark.parametrize("library", TRIED)
@pytest.mark.parametrize("version", ["0.0.1", "99.0", "unknown"])
def test_a_release_that_was_never_tried_is_refused(
    monkeypatch: pytest.MonkeyPatch, library: str, version: str
) -> None:
    from onejob.integrations import guard

    monkeypatch.setattr(guard, "version", lambda package: version)

    with pytest.raises(UsageError, match=f"{version} was never tried .* Install one from"):
        check_version(library)


@pytest.mark.parametrize("library", TRIED)
def test_the_installed_release_is_one_that_was_tried(library: str) -> None:
    package, _, _ = TRIED[library]
    assert importlib.metadata.version(package)

    check_version(library)


@pytest.mark.parametrize(
    ("library", "hook"),
    [
        ("apscheduler", "_lookup_executor"),
        ("huey", "read_periodic"),
        ("schedule", "_run_job"),
        ("taskiq", "on_ready"),
    ],
)
def test_a_hook_that_is_gone_is_refused(nowhere: App, library: str, hook: str) -> None:
    """Nothing runs unguarded in silence after an upgrade."""
    scheduler = MAKERS[library]()
    vars(scheduler)[hook] = None

    with pytest.raises(UsageError, match=rf"has no {hook}\(\) in this release"):
        nowhere.guard(scheduler)


def test_on_sqlite_a_fleet_is_refused(monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> None:
    """A12: a guard in a file of each container would guard nothing."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")

    with pytest.raises(UsageError, match="one of many instances"):
        App(sqlite_url).guard(BackgroundScheduler())


def test_a_disabled_process_fires_nothing_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], nowhere: App
) -> None:
    from onejob import opening

    monkeypatch.setenv("ONEJOB_DISABLED", "1")
    monkeypatch.setattr(opening, "_said", set())
    scheduler = schedule.Scheduler()
    guard = nowhere.guard(scheduler)
    ran: list[int] = []
    job = scheduler.every().second.do(ran.append, 1)
    job.next_run = job.next_run.replace(year=2020)

    scheduler.run_pending()

    assert ran == []
    assert guard.counts.disabled == 1
    assert "nothing fires here" in capsys.readouterr().err


def test_ticks_without_tables_are_skipped_with_what_to_do(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A12: a guard without its tables never becomes no guard."""
    app = App(sqlite_url)
    scheduler = schedule.Scheduler()
    guard = app.guard(scheduler)
    ran: list[int] = []
    job = scheduler.every().second.do(ran.append, 1)
    job.next_run = job.next_run.replace(year=2020)

    scheduler.run_pending()

    assert ran == []
    assert guard.counts.skipped_store_down == 1
    assert "onejob init" in caplog.text


def test_an_object_that_only_looks_like_one_is_refused(nowhere: App) -> None:
    with pytest.raises(UsageError, match=r"types\.SimpleNamespace"):
        nowhere.guard(SimpleNamespace(_run_job=print, run_pending=print))
