"""Group 1: N replicas, N runs. What each minute's mail does, however many processes want it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import timedelta

import pytest

from cases.conftest import MONDAY, Begin, Place
from cases.timeline import Simulated
from onejob import App, AsyncRun
from onejob.commands import schedules, views
from onejob.commands.schedules import Fire, Step
from onejob.core.keys import fire_key
from onejob.core.time import MINUTE, Instant, Span, instant


class Effects(list[str]):
    """A table with a row for each visible effect."""

    def add(self, run: AsyncRun) -> None:
        self.append(f"{run.fire_time:%H:%M:%S}")


def mailing(place: Place, effects: Effects, every: str = "1m", **options: object) -> App:
    """Return an App whose job mails at each fire time."""
    app = place.app(**options)

    @app.every(every)
    async def mail(run: AsyncRun) -> None:
        effects.add(run)

    return app


def test_four_processes_that_register_one_schedule_send_one_mail_a_minute(
    place: Place, begin: Begin
) -> None:
    """A01: all four see the minute come; three of them lose it, and say so without an error."""
    effects, timeline = Effects(), begin()
    timeline.fleet(lambda: mailing(place, effects), 4)
    timeline.latency = Span(2_000)

    timeline.go("3m30s")

    assert effects == ["12:01:00", "12:02:00", "12:03:00"]
    told = timeline.told()
    assert (told["tick.fired"], told["tick.lost"]) == (3, 9)
    assert told["run.failed"] == told["store.trouble"] == told["loop.error"] == 0
    assert len(place.app().runs.find(job="mail")) == 3


def test_a_replica_that_wakes_too_early_makes_no_second_run(place: Place, begin: Begin) -> None:
    """A09: its clock is fast by 160 ms a minute, so it looks before the minute, and again on it."""
    effects, timeline = Effects(), begin()
    looks: list[timedelta] = []

    def count(replica: Simulated, command: object) -> None:
        if getattr(command, "name", "") == "schedule_due":
            looks.append(timeline.now() - MONDAY)

    timeline.replica(mailing(place, effects), drift_ppm=2_667, trouble=count)

    timeline.go("3m30s")

    assert effects == ["12:01:00", "12:02:00", "12:03:00"]
    early = [at for at in looks if timedelta(0) < -at % timedelta(minutes=1) < timedelta(seconds=1)]
    assert early, "nobody looked early, so nothing was shown"


def test_a_short_task_is_over_before_the_others_look_and_still_runs_once(
    place: Place, begin: Begin
) -> None:
    """A14, D10: exclusion is by fire time and outlives the run; no lock is there to be freed."""
    effects, timeline = Effects(), begin()
    for drift in (-4_000, 0, 4_000):
        timeline.replica(mailing(place, effects), drift_ppm=drift)

    timeline.go("5m30s")

    assert effects == [f"12:0{n}:00" for n in range(1, 6)]


def test_another_scheduler_takes_over_from_a_killed_one(place: Place, begin: Begin) -> None:
    """A15: whoever fired last dies between two fire times; none is lost and none doubled."""
    effects, timeline = Effects(), begin()
    fleet = timeline.fleet(lambda: mailing(place, effects), 3)

    for _ in range(2):
        fired = timeline.told()["tick.fired"]
        timeline.go("1m30s")
        assert timeline.told()["tick.fired"] > fired
        max(fleet, key=lambda replica: replica.told["tick.fired"]).kill()
        fleet = [replica for replica in fleet if not replica.main.dead]
    timeline.go("2m30s")

    assert len(fleet) == 1
    assert effects == [f"12:0{n}:00" for n in range(1, 6)]


def test_an_old_process_cannot_bring_its_schedule_back(place: Place, begin: Begin) -> None:
    """A16: it starts again after the newer one has stored its own, and keeps out of the way."""
    effects, timeline = Effects(), begin()
    old = timeline.replica(mailing(place, effects, "1m", version=1))
    timeline.go("1m30s")
    timeline.replica(mailing(place, effects, "2m", version=2))
    timeline.go("30s")
    old.kill()
    restarted = timeline.replica(mailing(place, effects, "1m", version=1))

    timeline.go("6m30s")

    assert effects == ["12:01:00", "12:02:00", "12:04:00", "12:06:00", "12:08:00"]
    assert restarted.told["schedule.left"] > 0
    assert timeline.schedule("mail").version == "2"


@pytest.mark.parametrize("fresh_every", [1_000, 50])
def test_ten_thousand_due_computations_make_one_run(sqlite_place: Place, fresh_every: int) -> None:
    """A17: a scheduler gone mad: its clock stands still, and it even reads the revision anew."""
    app = sqlite_place.app()
    at = instant(MONDAY, what="at")
    new = schedules.NewSchedule("daily", "mail", "{}", "{}", "d1", "", "", at)
    assert app.store.run(schedules.define(new, revision=0, now=at))
    fire = Fire(fire_key("daily", Instant(at)), at, "mail", "{}", "default", 0, "retry")
    revision = 1

    for n in range(10_000):
        if n % fresh_every == 0:
            [known] = app.store.run(schedules.read(["daily"], now=at)).schedules
            revision = known.revision
        step = Step("daily", revision, last=at, next_fire=at, fires=(fire,))
        app.store.run(schedules.tick([step], replica="mad", now=at))

    assert len(app.runs.find(job="mail")) == 1


def test_processes_that_a_restart_left_behind_are_harmless_and_visible(
    place: Place, begin: Begin
) -> None:
    """A18: three of the old version live on beside the new one."""
    effects, timeline = Effects(), begin()
    for version in (1, 1, 1, 2):
        timeline.replica(mailing(place, effects, version=version))

    timeline.go("2m30s")

    assert effects == ["12:01:00", "12:02:00"]
    seen = timeline.ask(views.replicas())
    assert sorted(one.version for one in seen) == ["1", "1", "1", "2"]
    assert all(one.started for one in seen)


def test_a_rolling_update_moves_a_run_and_refuses_the_old_replicas_late_word(
    place: Place, begin: Begin
) -> None:
    """A21: the old one ignores its grace period; what it says afterwards finds nobody."""
    timeline = begin()
    begun: list[str] = []
    ended: list[str] = []

    def version(number: int, seconds: float) -> App:
        app = place.app(version=number, grace="1s")

        @app.every("1m")
        async def mail(run: AsyncRun) -> None:
            begun.append(f"{number} attempt {run.attempt}")
            await asyncio.sleep(seconds)
            ended.append(f"{number} attempt {run.attempt}")

        return app

    old = timeline.replica(version(1, 20))
    timeline.go("1m1s")
    timeline.replica(version(2, 1))
    timeline.go("1s")

    old.stop()
    timeline.go("30s")

    assert begun == ["1 attempt 1", "2 attempt 1"]
    [run] = place.app().runs.find(job="mail")
    assert (run.outcome, run.interrupted) == ("succeeded", 1)
    assert "2 attempt 1" in ended


def test_a_job_longer_than_its_interval_is_not_started_beside_itself(
    place: Place, begin: Begin
) -> None:
    """A22: its start is recorded before the work, so the next minutes are skipped, and listed."""
    timeline, running, most = begin(), [0], [0]
    begun: list[str] = []

    def make() -> App:
        app = place.app()

        @app.every("1m")
        async def backup(run: AsyncRun) -> None:
            begun.append(f"{run.fire_time:%H:%M}")
            running[0] += 1
            most[0] = max(most[0], running[0])
            await asyncio.sleep(150)
            running[0] -= 1

        return app

    timeline.fleet(make, 2)

    timeline.go("7m30s")

    assert begun == ["12:01", "12:04", "12:07"]
    assert most == [1]
    skipped = timeline.ask(views.events(schedule="backup"))
    assert sum(event.kind == "tick.skipped" for event in skipped) == 4


def test_replicas_started_at_different_moments_share_one_interval_grid(
    place: Place, begin: Begin
) -> None:
    """A23: seven, eleven and thirteen seconds apart, and thirty-second ticks stay what they are."""
    effects, timeline = Effects(), begin(MONDAY + timedelta(seconds=3))
    for wait in (7, 11, 13):
        timeline.replica(mailing(place, effects, "30s"))
        timeline.go(wait)

    timeline.go("2m")

    assert effects == ["12:00:30", "12:01:00", "12:01:30", "12:02:00", "12:02:30"]


def test_jitter_is_the_same_in_every_process_and_after_a_restart() -> None:
    """A24: drawn from the schedule's name; never from a clock or from chance at import."""
    text = (
        "from onejob.core.schedule import stable_jitter as j; from onejob.core.time import Span;"
        f"print([j(name, Span({int(MINUTE)})) for name in ('x', 'nightly', 'ü')])"
    )

    printed = {
        subprocess.run(
            [sys.executable, "-c", text],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(5)
    }

    assert len(printed) == 1
