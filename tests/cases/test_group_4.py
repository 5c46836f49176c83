"""Group 4: clocks and schedules, as the store and production's scheduler carry them out."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import onejob
from cases.conftest import MONDAY, Begin, Place
from cases.timeline import Simulated, Timeline, fire_times
from onejob import App, AsyncRun
from onejob.commands import views
from onejob.commands.command import Command
from onejob.core.schedule import Every
from onejob.core.time import HOUR, MINUTE, Instant, Span, instant


def ticking(place: Place, expression: str, tz: str | None = None, **options: object) -> App:
    """Return an App whose job ``tick`` fires by a cron expression, and does nothing."""
    given = {key: options.pop(key) for key in ("lease", "poll") if key in options}
    app = place.app(**{"lease": "6h", "poll": "6h", "keep": "900d", **given})

    @app.cron(expression, tz=tz, overlap="allow", **options)
    async def tick(run: AsyncRun) -> None: ...

    return app


def utc(text: str) -> datetime:
    """Read a short instant."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def missed(timeline: Timeline, schedule: str) -> int:
    """Return how many fire times the store lists as missed."""
    events = timeline.ask(views.events(schedule=schedule))
    return sum(json.loads(e.detail)["count"] for e in events if e.kind == "tick.missed")


CLOCK_CHANGES = [
    # The hour that comes twice: the first of the two, once (D01).
    ("30 1 * * *", "Europe/London", "2025-10-25 12:00", "2025-10-27 12:00",
     ["10-26T00:30:00Z", "10-27T01:30:00Z"]),
    ("0 2 * * *", "Europe/Copenhagen", "2018-10-27 12:00", "2018-10-29 12:00",
     ["10-28T00:00:00Z", "10-29T01:00:00Z"]),
    # The hour that never comes: the first instant after the gap (D02).
    ("30 2 * * *", "America/New_York", "2025-03-08 12:00", "2025-03-10 12:00",
     ["03-09T07:00:00Z", "03-10T06:30:00Z"]),
    # A wildcard goes on in real time through the repeated hour (D03).
    ("*/30 * * * *", "Europe/London", "2025-10-25 23:45", "2025-10-26 02:15",
     ["10-26T00:00:00Z", "10-26T00:30:00Z", "10-26T01:00:00Z", "10-26T01:30:00Z",
      "10-26T02:00:00Z"]),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "tz", "start", "end", "expected"), CLOCK_CHANGES)
def test_a_clock_change_neither_doubles_nor_drops_a_run(
    place: Place, begin: Begin, expression: str, tz: str, start: str, end: str, expected: list[str]
) -> None:
    """D01, D02, D03: two replicas through the night, and the runs that are in the store after."""
    timeline = begin(utc(start))
    for _ in range(2):
        app = timeline.replica(ticking(place, expression, tz)).app

    timeline.to(utc(end))

    assert fire_times(app.runs.find(schedule="tick")) == expected


def test_a_time_that_the_clocks_took_is_listed_where_the_policy_leaves_it_out(
    place: Place, begin: Begin
) -> None:
    """D02: skipped on purpose, and never in silence."""
    timeline = begin(utc("2025-03-08 00:00"))
    for _ in range(2):
        app = timeline.replica(ticking(place, "30 2 * * *", "America/New_York", on_gap="skip")).app

    timeline.to(utc("2025-03-10 12:00"))

    assert fire_times(app.runs.find(schedule="tick")) == [
        "03-08T07:30:00Z",
        "03-10T06:30:00Z",
    ]
    [event] = [e for e in timeline.ask(views.events(schedule="tick")) if e.kind == "tick.missed"]
    assert json.loads(event.detail)["newest"] == [{"at": "2025-03-09T07:00:00Z", "reason": "gap"}]
    assert missed(timeline, "tick") == 1


MONTHS = [
    ("0 9 15 * 1", "2025-08-31", "2025-10-01", [1, 8, 15, 22, 29]),  # either; the 15th once
    ("0 0 */3 * 1-5", "2024-03-31", "2024-05-01", [1, 4, 10, 16, 19, 22, 25]),  # both
    ("0 0 L * *", "2024-02-01", "2024-04-15", [29, 31]),
    ("0 0 31 2 *", "2024-02-01", "2024-04-15", []),
]


@pytest.mark.parametrize(("expression", "start", "end", "days"), MONTHS)
def test_days_of_month_and_week_fire_as_cron_says(
    sqlite_place: Place,
    begin_sqlite: Begin,
    expression: str,
    start: str,
    end: str,
    days: list[int],
) -> None:
    """D14, D15, D16, D22: as runs in the store, over whole months; an impossible date never."""
    timeline = begin_sqlite(utc(f"{start} 12:00"), beat=Span(6 * HOUR))
    app = timeline.replica(ticking(sqlite_place, expression, lease="2d", poll="2d")).app

    timeline.to(utc(f"{end} 00:00") - timedelta(seconds=1))

    assert [int(at[3:5]) for at in fire_times(app.runs.find(schedule="tick"))] == days


def test_the_rarest_date_is_found_across_a_century(
    sqlite_place: Place, begin_sqlite: Begin
) -> None:
    """D22: 2100 is no leap year."""
    timeline = begin_sqlite(utc("2097-03-01 00:00"))
    timeline.replica(ticking(sqlite_place, "0 0 29 2 *"))

    timeline.go(10)

    assert timeline.schedule("tick").next_fire == instant(utc("2104-02-29 00:00"), what="at")


def test_a_store_whose_clock_is_set_back_repeats_no_fire_time(place: Place, begin: Begin) -> None:
    """D06: two hours back and right again; nothing comes twice, nobody is declared dead."""
    timeline = begin()
    fleet = [timeline.replica(ticking(place, "* * * * *", lease="12s")) for _ in range(2)]
    timeline.go("2m30s")

    timeline.clock.offset = -7_200_000_000
    timeline.go("2m")
    during = fire_times(place.app().runs.find(schedule="tick"))
    timeline.clock.offset = 0
    timeline.go("2m")

    times = fire_times(place.app().runs.find(schedule="tick"))
    assert during == ["03-05T12:01:00Z", "03-05T12:02:00Z"]
    assert times == [f"03-05T12:0{n}:00Z" for n in (1, 2, 4, 5, 6)]
    assert missed(timeline, "tick") == 1
    assert sum(replica.told["replica.lost"] for replica in fleet) == 0


WALL = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today"}


def test_nothing_that_decides_looks_at_this_machines_wall_clock() -> None:
    """D06, D07, D09, D11: whatever a replica's own clock says cannot make a run early or late."""
    package = Path(str(onejob.__file__)).parent
    looking = [
        f"{file.relative_to(package)}:{node.lineno}"
        for layer in ("core", "commands", "runtime")
        for file in sorted((package / layer).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in WALL
    ]

    assert looking == []


def test_no_replica_tells_the_store_what_time_it_is(place: Place, begin: Begin) -> None:
    """D09, D11: leases and due times are computed by the store; a replica sends spans."""
    timeline, told = begin(), []

    def listen(replica: Simulated, command: Command[object]) -> None:
        if command.parameters.get("now") is not None:
            told.append(command.name)

    for _ in range(2):
        timeline.replica(ticking(place, "* * * * *", lease="12s"), trouble=listen)
    timeline.go("2m30s")

    assert told == []
    assert timeline.told()["run.ended"] == 2


def test_a_thawed_scheduler_catches_up_once(place: Place, begin: Begin) -> None:
    """D08: an interval of a second, frozen for fifty; one run for all of them, the rest listed."""
    timeline, effects = begin(), []
    app = place.app(lease="60s", poll="60s")

    @app.every("1s")
    async def poll(run: AsyncRun) -> None:
        effects.append(run.fire_time)

    replica = timeline.replica(app)
    timeline.go(5.5)
    before = len(effects)

    replica.freeze()
    timeline.go(50)
    replica.thaw()
    timeline.go(0.1)

    assert len(effects) == before + 1
    assert missed(timeline, "poll") == 49


def test_a_late_replica_computes_the_next_fire_time_from_the_last_one(
    place: Place, begin: Begin
) -> None:
    """D11, D20: ten o'clock comes an hour late, is noted as that late, and eleven follows."""
    timeline = begin(utc("2040-03-05 09:30"))
    first = timeline.replica(ticking(place, "0 * * * *", lease="1m", poll="1m"))
    timeline.go("29m")
    first.kill()
    timeline.to(utc("2040-03-05 10:59:00"))
    app = timeline.replica(ticking(place, "0 * * * *", lease="1m", poll="1m")).app
    timeline.to(utc("2040-03-05 11:00:30"))

    newest, late = app.runs.find(schedule="tick")
    assert fire_times([late, newest]) == ["03-05T10:00:00Z", "03-05T11:00:00Z"]
    assert late.started is not None
    assert late.fire_time is not None
    assert timedelta(minutes=59) <= late.started - late.fire_time < timedelta(minutes=60)


def test_a_tick_seconds_late_still_fires(place: Place, begin: Begin) -> None:
    """D20: a heartbeat four seconds late; due is "not later than now", never "equal to now"."""
    timeline = begin(utc("2040-03-05 11:59:50"))
    replica = timeline.replica(ticking(place, "0 12 * * 1", lease="60s"))
    timeline.go(9)

    replica.freeze()
    timeline.go(5)
    replica.thaw()
    timeline.go(1)

    [run] = replica.app.runs.find(schedule="tick")
    assert run.started is not None
    assert run.fire_time is not None
    assert timedelta(seconds=4) <= run.started - run.fire_time < timedelta(seconds=5)


def test_the_environments_time_zone_changes_nothing() -> None:
    """D12: what TZ says is no schedule's business; a naive datetime is refused by name."""
    program = (
        "from datetime import datetime\nfrom onejob import App, UsageError\n"
        "from onejob.core.time import Instant\napp = App('memory://')\n"
        "@app.cron('0 2 * * *')\ndef nightly(): ...\n"
        "print(app._declared['nightly'].timing.after(Instant(1_780_000_000_000_000)))\n"
        "try: nightly.using(at=datetime(2026, 1, 1))\n"
        "except UsageError as error: print(error)\n"
    )

    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "TZ": tz},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for tz in ("UTC", "Asia/Calcutta")
    ]

    assert printed[0] == printed[1]
    assert "at=" in printed[0]


@dataclass(frozen=True, slots=True)
class Failing(Every):
    """An interval that cannot say what comes after a certain instant."""

    since: Instant = Instant(0)

    def after(self, at: Instant) -> Instant:
        """Fail, from some time on, as a zone that has vanished would make it."""
        if at >= self.since:
            raise LookupError("no time zone found with key Europe/Atlantis")
        return Every.after(self, at)

    def due(self, after: Instant, until: Instant, *, keep: int) -> object:
        """Answer as an interval does."""
        return Every(self.interval, self.anchor).due(after, until, keep=keep)


@pytest.mark.parametrize("since", [timedelta(0), timedelta(seconds=90)])
def test_a_schedule_that_cannot_be_computed_stops_alone(
    place: Place, begin: Begin, since: timedelta
) -> None:
    """D13: from the first look on, or later; nine others fire, the tenth is shown as broken."""
    timeline, effects = begin(), []
    app = place.app(lease="12s")
    for n in range(10):

        @app.every("1m", name=f"s{n}", overlap="allow")
        async def tick(run: AsyncRun) -> None:
            effects.append(run.job)

    fails = Failing(Span(MINUTE), Instant(0), instant(MONDAY + since, what="since"))
    app._declared["s3"] = replace(app._declared["s3"], timing=fails)
    replica = timeline.replica(app)

    timeline.go("3m30s")

    others = {f"s{n}": 3 for n in range(10) if n != 3}
    assert {name: effects.count(name) for name in others} == others
    assert replica.told["schedule.broken"] > 0
    assert replica.told["loop.error"] == 0
    shown = next(s for s in timeline.ask(views.schedules()) if s.name == "s3")
    assert "Atlantis" in shown.broken


OUTAGES = [
    ({"catch_up": "latest"}, 1),
    ({"catch_up": "all", "catch_up_cap": 10}, 10),
    ({"catch_up": "all"}, 24),
    ({"catch_up": "all", "max_lateness": "3h30m"}, 4),
    ({"catch_up": "none"}, 0),
]


@pytest.mark.parametrize(("policy", "caught_up"), OUTAGES)
def test_a_day_down_is_caught_up_by_policy_and_every_loss_is_counted(
    place: Place, begin: Begin, policy: dict[str, object], caught_up: int
) -> None:
    """D17, D18, D07: hourly, with nobody there for a day; what runs and what is listed add up."""
    timeline = begin(utc("2040-03-05 09:30"))
    timeline.replica(ticking(place, "0 * * * *", lease="30m", **policy)).kill()
    first = timeline.replica(ticking(place, "0 * * * *", lease="30m", **policy))
    timeline.go("20m")
    first.kill()
    timeline.to(utc("2040-03-06 09:10"))

    app = timeline.replica(ticking(place, "0 * * * *", lease="30m", **policy)).app
    timeline.go("10m")

    assert len(app.runs.find(schedule="tick")) == caught_up
    assert missed(timeline, "tick") == 24 - caught_up


@pytest.mark.parametrize(("outage", "lost"), [("31m", 30), ("4d", 5_759)])
def test_each_fire_time_of_an_outage_is_accounted_for(
    place: Place, begin: Begin, outage: str, lost: int
) -> None:
    """D18: a refresher each minute, dead for half an hour and for four days; one runs at once."""
    timeline = begin()
    first = timeline.replica(ticking(place, "* * * * *", lease="12s"))
    timeline.go("30s")
    first.kill()
    timeline.go(outage)

    timeline.replica(ticking(place, "* * * * *", lease="12s"))
    timeline.go(5)

    assert missed(timeline, "tick") == lost


def test_a_job_slower_than_its_interval_does_not_stretch_it(place: Place, begin: Begin) -> None:
    """D19: sixty-one seconds of work each minute; the next minute comes from the last one."""
    timeline, effects = begin(), []
    app = place.app(lease="30s")

    @app.every("1m", overlap="allow")
    async def heartbeat(run: AsyncRun) -> None:
        effects.append(f"{run.fire_time:%M:%S}")
        await asyncio.sleep(61)

    timeline.replica(app)
    timeline.go("10m30s")

    assert effects == [f"{n:02}:00" for n in range(1, 11)]
