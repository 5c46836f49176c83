"""Schedules as data, through ``app.schedules``."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onejob import App, AsyncRun, LeaseLost, Run, UsageError
from onejob.commands import schedules as commands
from onejob.core.time import DAY, SECOND

CRON: dict[str, Any] = {"cron": "0 6 * * 1", "tz": "America/New_York", "args": {"tenant": 42}}


@pytest.fixture
def report(app: App) -> Any:
    @app.job(queue="reports", priority=3)
    def report(tenant: int = 1) -> int:
        return tenant

    return report


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "one of cron=, every= and at=; given: none"),
        ({"cron": "* * * * *", "every": "5m"}, "given: cron, every"),
        ({"cron": "61 * * * *"}, "minute"),
        ({"cron": "0 6 * * *", "tz": "Mars/Olympus"}, "time zone"),
        ({"every": "5m", "tz": "UTC"}, "go with cron="),
        ({"every": "10ms"}, "interval"),
        ({"every": 0}, "moves|interval|shorter"),
        ({"cron": "0 6 * * *", "anchor": datetime(2026, 1, 1, tzinfo=UTC)}, "goes with every="),
        ({"at": datetime(2026, 1, 1)}, "naive"),  # noqa: DTZ001 - under test
        ({"at": datetime(1969, 7, 20, tzinfo=UTC)}, "before 1970"),
        ({"every": "5m", "overlap": "never"}, "overlap"),
        ({"every": "5m", "jitter": "-1s"}, "jitter"),
        ({"every": "5m", "jitter": ["1s"]}, "jitter"),
        ({"every": "1s", "jitter": "1h"}, "no longer than the interval"),
        ({"every": "1s", "jitter": "2s", "overlap": "cancel"}, "no longer than the interval"),
        ({"every": "5m", "catch_up": "all", "catch_up_cap": 10**30}, "1 to 10,000"),
        ({"every": "5m", "args": {"tennant": 1}}, "tennant"),
        ({"every": "5m", "args": {"tenant": "one"}}, r"args\.tenant"),
        ({"every": "5m", "job": "unheard of"}, "no job of this App"),
        ({"every": "5m", "name": ""}, "schedule name"),
        ({"every": "5m", "name": "code"}, "declared in this code"),
    ],
)
def test_a_bad_schedule_is_refused_before_any_io(options: dict[str, Any], match: str) -> None:
    """P8"""
    app = App("postgresql://nobody@127.0.0.1:1/nowhere")
    app.job()(_report)
    app.cron("0 0 * * *", name="code")(_other)
    given = {"name": "weekly", "job": "_report", **options}

    with pytest.raises(UsageError, match=match):
        app.schedules.put(given.pop("name"), **given)


def _report(tenant: int = 1) -> None: ...


def _other() -> None: ...


def test_what_is_put_is_listed_as_it_is_and_put_again_changes_nothing(
    app: App, report: Any
) -> None:
    first = app.schedules.put("weekly", job=report, **CRON, jitter="1m")
    again = asyncio.run(app.schedules.aput("weekly", job="report", **CRON, jitter="1m"))

    assert first == again
    assert (first.name, first.job, first.args) == ("weekly", "report", {"tenant": 42})
    assert first.timing == {"cron": "0 6 * * 1", "tz": "America/New_York"}
    assert (first.dynamic, first.declared, first.orphaned) == (True, 0, True)
    assert first.next_fire is not None
    assert first.next_fire > datetime.now(UTC)
    assert app.schedules.get("weekly") == first
    assert revision(app, "weekly") == 1


def revision(app: App, name: str) -> int:
    [stored] = app.store.run(commands.read([name])).schedules
    return stored.revision


def test_another_timing_starts_anew_from_now_and_tells_what_was_due(app: App, report: Any) -> None:
    """P7: nothing is filled in, and nothing is dropped in silence."""
    app.schedules.put("poll", job=report, every="1s")
    became_due(app, "poll")

    changed = app.schedules.put("poll", job=report, every="1h")

    assert changed.next_fire is not None
    assert changed.next_fire > datetime.now(UTC)
    assert changed.missed == 1
    assert app.runs.find() == []


def became_due(app: App, name: str, ago: int = 10 * SECOND) -> None:
    """Let a schedule have been due for some time, with nobody there to tick it."""
    found = app.store.run(commands.read([name]))
    [stored] = found.schedules
    paused = app.store.run(commands.pause(name))
    assert paused
    assert app.store.run(
        commands.resume(name, revision=stored.revision + 1, last=0, next_fire=found.now - ago)
    )


def test_another_argument_or_policy_keeps_what_is_due(app: App, report: Any) -> None:
    """A deploy over the fire time must not cost it: the catch-up rule decides."""
    app.schedules.put("poll", job=report, every="1h")
    became_due(app, "poll")
    due = app.schedules.get("poll")

    changed = app.schedules.put("poll", job=report, every="1h", args={"tenant": 7})

    assert due is not None
    assert (changed.next_fire, changed.args, changed.missed) == (due.next_fire, {"tenant": 7}, 0)


def test_names_of_code_and_of_data_do_not_replace_each_other(app: App, report: Any) -> None:
    app.cron("0 2 * * *", name="nightly")(_other)
    joined = threading.Event()
    app.events.listen(lambda event: joined.set() if event.name == "schedule.left" else None)
    app.schedules.put("taken", job=report, every="1h")
    app.every("1h", name="taken")(_report)
    app.start()
    assert joined.wait(10)
    until(lambda: app.schedules.get("nightly") is not None)
    app.stop()
    # Another release, whose code does not have it any more.
    del app._declared["nightly"]

    with pytest.raises(UsageError, match="was declared by code"):
        app.schedules.put("nightly", job=report, every="1h")
    taken = app.schedules.get("taken")
    assert taken is not None
    assert taken.dynamic


def test_of_many_who_put_one_name_at_once_all_are_heard(app: App, report: Any) -> None:
    def put(writer: int) -> list[Any]:
        every = [f"{writer * 10 + n + 1}m" for n in range(6)]
        return [app.schedules.put("race", job=report, every=span).next_fire for span in every]

    with ThreadPoolExecutor(8) as pool:
        heard = [fire for fires in pool.map(put, range(8)) for fire in fires]

    assert len(heard) == 48
    assert None not in heard


def test_what_passed_while_paused_is_missed_and_nothing_is_caught_up(app: App, report: Any) -> None:
    app.schedules.put("poll", job=report, every="1s", catch_up="all")
    became_due(app, "poll", ago=90 * SECOND)

    paused = app.schedules.pause("poll")
    resumed = app.schedules.resume("poll")

    assert (paused.paused, resumed.paused) == (True, False)
    assert resumed.next_fire is not None
    assert resumed.next_fire > datetime.now(UTC) - timedelta(seconds=1)
    assert 90 <= resumed.missed <= 95
    assert app.schedules.resume("poll") == app.schedules.get("poll")
    with pytest.raises(LookupError, match="no schedule 'other'"):
        app.schedules.resume("other")


def test_a_schedule_is_triggered_by_hand_whatever_it_waits_for(app: App, report: Any) -> None:
    app.schedules.put("weekly", job=report, **CRON)
    app.schedules.pause("weekly")

    fresh = app.schedules.trigger("weekly")
    keyed = [asyncio.run(app.schedules.atrigger("weekly", key="now")) for _ in range(2)]

    assert (fresh.created, [one.created for one in keyed]) == (True, [True, False])
    run = app.runs.get(fresh.run_id)
    assert run is not None
    assert (run.job, run.queue, run.priority, run.schedule) == ("report", "reports", 3, None)
    with pytest.raises(LookupError, match="no schedule"):
        app.schedules.trigger("other")


def test_what_was_put_can_be_deleted_and_what_live_code_declares_cannot(
    app: App, report: Any
) -> None:
    app.cron("0 2 * * *", name="nightly")(_other)
    app.schedules.put("weekly", job=report, **CRON)
    app.start()
    until(lambda: app.schedules.get("nightly") is not None)

    assert [app.schedules.delete("weekly") for _ in range(2)] == [True, False]
    with pytest.raises(UsageError, match="declared by code that is live"):
        app.schedules.delete("nightly")
    app.stop()
    assert app.schedules.delete("nightly")


def test_many_are_put_together_and_listed_a_page_at_a_time(app: App, report: Any) -> None:
    items = [
        {"name": f"tenant-{n:04d}", "job": report, "every": "1h", "args": {"tenant": n}}
        for n in range(1_203)
    ]

    first = app.schedules.put_many(items)
    items[7]["every"] = "2h"
    again = asyncio.run(app.schedules.aput_many(items))

    assert (first.created, first.changed, first.unchanged) == (1_203, 0, 0)
    assert (again.created, again.changed, again.unchanged) == (0, 1, 1_202)
    page = app.schedules.list(prefix="tenant-", limit=1_000)
    rest = app.schedules.list(prefix="tenant-", after=page[-1].name)
    assert [len(page), len(rest)] == [1_000, 203]
    assert len(app.schedules.list(prefix="tenant-000")) == 10
    assert app.schedules.list(job="other") == []


@pytest.mark.parametrize(
    ("items", "match"),
    [
        ([{"name": "a", "job": "report", "every": "1h"}] * 2, "comes twice"),
        ([{"name": "a", "job": "report", "evry": "1h"}], r"put\(\) got .*by their names"),
        (["a"], "by name"),
    ],
)
def test_many_are_checked_before_anything_is_sent(
    app: App, report: Any, items: Any, match: str
) -> None:
    with pytest.raises(UsageError, match=match):
        app.schedules.put_many(items)

    assert app.schedules.list() == []


def test_a_schedule_is_put_with_the_callers_transaction_or_not_at_all(
    postgres_app: App, postgres_url: str
) -> None:
    import psycopg

    app = postgres_app
    app.job(name="report")(_report)
    with closing(psycopg.connect(postgres_url)) as connection:
        app.schedules.put("gone", job="report", every="1h", within=connection)
        app.schedules.trigger("gone", key="k", within=connection)
        connection.rollback()
        app.schedules.put("kept", job="report", every="1h", within=connection)
        paused = app.schedules.pause("kept", within=connection)
        resumed = app.schedules.resume("kept", within=connection)
        app.schedules.put("dropped", job="report", every="1h", within=connection)
        assert app.schedules.delete("dropped", within=connection)
        before = app.schedules.list()
        connection.commit()

    assert (before, paused.paused, resumed.paused) == ([], True, False)
    assert [schedule.name for schedule in app.schedules.list()] == ["kept"]
    assert app.runs.find() == []


def test_one_instant_fires_once_and_never_again(app: App) -> None:
    ran: list[Any] = []
    done = threading.Event()

    @app.job()
    def remind(run: Run, who: str) -> None:
        ran.append((who, run.fire_time))
        done.set()

    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    app.start()
    app.schedules.put("once", job=remind, at=at, args={"who": "ada"})
    assert done.wait(10)
    until(lambda: (found := app.schedules.get("once")) is not None and found.next_fire is None)
    app.stop()

    assert ran == [("ada", at)]


def test_an_earlier_instant_and_another_job_fire_too(app: App) -> None:
    """Two machines that put the time that it is, their clocks a little apart."""
    seen: list[str] = []
    fired = threading.Semaphore(0)

    @app.job()
    def remind(who: str) -> None:
        seen.append(who)
        fired.release()

    @app.job()
    def warn(who: str) -> None:
        seen.append(who)
        fired.release()

    at = datetime.now(UTC)
    app.start()
    for job, when, who in (
        (remind, at, "ada"),
        (remind, at - timedelta(milliseconds=100), "bob"),
        (remind, datetime(1970, 1, 1, tzinfo=UTC), "eve"),
        (warn, at, "cyd"),
    ):
        app.schedules.put("once", job=job, at=when, args={"who": who}, overlap="allow")
        assert fired.acquire(timeout=20), who

    assert seen == ["ada", "bob", "eve", "cyd"]


def test_an_overlap_that_cancels_stops_the_running_handler_and_runs_the_next(app: App) -> None:
    """B06: the older one is refused in the store at once, and hears of it."""
    stopped, running = threading.Event(), threading.Event()
    seen: list[str] = []

    @app.job()
    def endless(run: Run) -> None:
        seen.append(run.key)
        running.set()
        while True:
            try:
                run.check()
            except LeaseLost:
                stopped.set()
                raise
            stopped.wait(0.02)
            if len(seen) > 1 and run.key == seen[-1]:
                return

    app.start()
    app.schedules.put("endless", job=endless, every="1s", overlap="cancel")
    assert running.wait(10)
    assert stopped.wait(10)
    app.schedules.pause("endless")
    until(lambda: len(seen) > 1)
    until(lambda: not app.runs.find(state="running"))
    app.stop()

    first = [run for run in app.runs.find(schedule="endless", limit=50) if run.key == seen[0]]
    assert [(run.outcome, run.attempt) for run in first] == [("cancelled", 1)]


def test_a_running_async_handler_is_cancelled_by_a_person(app: App) -> None:
    """B06"""
    began, ended = threading.Event(), threading.Event()

    @app.job()
    async def endless(run: AsyncRun) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    app.start()
    id = endless.enqueue().run_id
    assert began.wait(10)

    assert app.runs.cancel(id) is True
    assert ended.wait(5)
    app.stop()

    run = app.runs.get(id)
    assert run is not None
    assert (run.state, run.outcome, run.attempt) == ("ended", "cancelled", 1)
    assert app.runs.cancel(id) is False


def until(condition: Any) -> None:
    """Wait for what another thread writes to the store, where no event tells of it."""
    from time import monotonic, sleep

    ends = monotonic() + 10
    while not condition():
        assert monotonic() < ends, "it never came"
        sleep(0.02)


def test_a_job_says_within_what_its_runs_are_expected(app: App) -> None:
    @app.job(expect_within="1h")
    def slow() -> None: ...

    id = slow.enqueue().run_id
    stored: Any = app.store
    with pytest.raises(UsageError, match="expect_within"):
        app.job(expect_within="1ms")

    from onejob.commands import overlap, views

    now = stored.run(views.clock())
    assert stored.run(overlap.late(limit=10, now=now)) == ()
    [late] = stored.run(overlap.late(limit=10, now=now + DAY))
    assert (late.id, late.job) == (id, "slow")
