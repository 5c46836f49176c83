"""The scheduler: who declares, what a tick fires, and what stops alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onejob.commands import replicas, schedules
from onejob.commands.schedules import Schedule
from onejob.core.schedule import CatchUp, Every, Overlap, Policy
from onejob.core.time import DAY, SECOND, Instant, Span
from onejob.runtime.scheduler import Scheduler
from onejob.runtime.settings import Declared
from runtime.stage import LEASE, STORE_START, Host, Stage, Trouble

#: On the grid: the stage opens at a full minute by the store's clock.
EVERY_SECONDS = 10


def report(name: str = "report", *, definition: str = "v1", **changes: Any) -> Declared:
    return Declared(
        **{
            "name": name,
            "job": name,
            "timing": Every(Span(EVERY_SECONDS * SECOND), Instant(0)),
            "policy": Policy(overlap=Overlap.ALLOW),
            "definition": definition,
            "timing_text": "{}",
            "policy_text": "{}",
            **changes,
        }
    )


class Broken:
    """A timing whose arithmetic fails, as a zone database that has lost a zone would."""

    def after(self, at: Instant) -> Instant:
        return Instant(at + SECOND)

    def due(self, after: Instant, until: Instant, *, keep: int) -> Any:
        raise TypeError("can't compare offset-naive and offset-aware datetimes")


class Desk:
    """A scheduler on a stage, in the fleet under a lease that lasts."""

    def __init__(
        self, stage: Stage, *declared: Declared, id: str = "me", version: str = ""
    ) -> None:
        self.stage, self.fired = stage, 0
        self.host = Host(stage.wire)
        self.scheduler = Scheduler(
            self.host,
            declared,
            stage.settings(version=version),
            clock=stage.clock,
            events=stage.events,
            fired=self._fired,
        )
        self.serving = stage.begin(self.scheduler.serve())
        new = replicas.NewReplica(
            id,  # type: ignore[arg-type]  # a short id for a test
            "shop",
            "here",
            1,
            version,
            ("report",),
            {one.name: one.definition for one in declared},
            DAY,
        )
        assert stage.store.run(replicas.join(new))
        self.member = stage.member(id, lease=DAY)
        self.scheduler.joined(self.member)

    def _fired(self) -> None:
        self.fired += 1

    def leave(self) -> None:
        self.serving.cancel()
        self.stage.store.run(replicas.leave(self.member.id))


def fire_times(stage: Stage, name: str = "report") -> list[int]:
    """Return the fire times that became runs, in seconds since the stage opened."""
    runs = stage.store.tables.runs.values()
    return [(run.fire_time - STORE_START) // SECOND for run in runs if run.schedule == name]


def stored(stage: Stage, name: str = "report") -> Schedule:
    [schedule] = stage.store.run(schedules.read([name])).schedules
    return schedule


def test_a_schedule_is_declared_and_fires_from_then_on(stage: Stage) -> None:
    async def scene() -> Desk:
        desk = Desk(stage, report())
        await stage.passes(35)
        return desk

    desk = stage.play(scene())

    assert fire_times(stage) == [10, 20, 30]
    assert desk.fired == 3
    assert stage.names() == ["tick.fired"] * 3
    assert stage.told[0].fields["fire_time"] == "2026-03-29T01:00:10Z"


def test_a_fire_time_becomes_a_run_at_its_moment(stage: Stage) -> None:
    async def scene() -> None:
        Desk(stage, report())
        await stage.passes(15)

    stage.play(scene())

    [run] = stage.store.tables.runs.values()
    assert run.created - run.fire_time < SECOND // 10


def test_three_schedulers_fire_each_time_once(stage: Stage) -> None:
    """A01, A15: any number of them is the normal case."""

    async def scene() -> None:
        for id in ("a", "b", "c"):
            Desk(stage, report(), id=id)
        await stage.passes(105)

    stage.play(scene())

    assert fire_times(stage) == list(range(10, 101, 10))


def test_another_goes_on_when_one_leaves(stage: Stage) -> None:
    """A15."""

    async def scene() -> None:
        first = Desk(stage, report(), id="a")
        Desk(stage, report(), id="b")
        await stage.passes(15)
        first.leave()
        await stage.passes(30)

    stage.play(scene())

    assert fire_times(stage) == [10, 20, 30, 40]


@pytest.mark.parametrize("early", [160_000, 1])
def test_waking_early_makes_no_second_run(stage: Stage, early: int) -> None:
    """A09: the identity of a run is its fire time and not the wake-up."""

    async def scene() -> None:
        desk = Desk(stage, report())
        await stage.passes(5)
        desk.scheduler.next_fire(stage.clock.now() + 5 * SECOND - early)
        await stage.passes(7)

    stage.play(scene())

    assert fire_times(stage) == [10]
    assert stage.names() == ["tick.fired"]


def test_ten_thousand_ticks_at_one_instant_fire_once(stage: Stage) -> None:
    """A17: a broken due-loop can make one run a fire time, and no more."""

    async def scene() -> None:
        desk = Desk(stage, report())
        await stage.passes(10.5)
        for _ in range(10_000):
            await desk.scheduler._tick(desk.member)

    stage.play(scene())

    assert fire_times(stage) == [10]


def test_a_lost_reply_to_a_tick_fires_nothing_twice(stage: Stage) -> None:
    async def scene() -> None:
        stage.wire.plan("schedule_tick", Trouble(lost=True))
        Desk(stage, report())
        await stage.passes(25)

    stage.play(scene())

    assert fire_times(stage) == [10, 20]


def test_a_scheduler_that_loses_the_race_says_so_and_fires_nothing(stage: Stage) -> None:
    async def scene() -> None:
        stage.wire.plan("schedule_tick", Trouble(there=2 * SECOND))
        Desk(stage, report(), id="a")
        Desk(stage, report(), id="b")
        await stage.passes(15)

    stage.play(scene())

    assert fire_times(stage) == [10]
    assert sorted(stage.names("tick")) == ["tick.fired", "tick.lost"]


def test_what_was_missed_in_an_outage_is_told(stage: Stage) -> None:
    """P7."""

    async def scene() -> None:
        Desk(stage, report(policy=Policy(catch_up=CatchUp.LATEST, overlap=Overlap.ALLOW)))
        await stage.passes(5)
        stage.wire.down = True
        await stage.passes(60)
        stage.wire.down = False
        await stage.passes(4)

    stage.play(scene())

    assert fire_times(stage) == [60]
    [missed] = [event for event in stage.told if event.name == "tick.missed"]
    told = json.loads(str(missed.fields["missed"]))
    assert told["count"] == 5
    assert [one["reason"] for one in told["newest"]] == ["catch_up"] * 5


def test_a_schedule_whose_arithmetic_fails_stops_alone_and_visibly(stage: Stage) -> None:
    """D13."""

    async def scene() -> None:
        nine = [report(f"fine{place}") for place in range(9)]
        Desk(stage, *nine[:5], report("ill", timing=Broken()), *nine[5:])
        await stage.passes(25)

    stage.play(scene())

    assert [fire_times(stage, f"fine{place}") for place in range(9)] == [[10, 20]] * 9
    assert fire_times(stage, "ill") == []
    assert "TypeError: can't compare" in stored(stage, "ill").broken
    assert stage.names("schedule.broken") == ["schedule.broken"]


def test_a_schedule_that_has_no_first_fire_time_to_compute_stops_alone_too(stage: Stage) -> None:
    """D13: broken before it was ever stored."""

    class Hopeless(Broken):
        def after(self, at: Instant) -> Instant:
            raise OverflowError("date value out of range")

    async def scene() -> None:
        Desk(stage, report("ill", timing=Hopeless()), report())
        await stage.passes(15)

    stage.play(scene())

    assert fire_times(stage) == [10]
    assert stored(stage, "ill").broken == "OverflowError: date value out of range"


# Two versions of the code


def test_a_new_definition_replaces_the_old_one_and_fires_from_now_on(stage: Stage) -> None:
    """A16: each fire time once while both versions live, the newer one's definition in force."""
    five = Every(Span(5 * SECOND), Instant(0))
    faster = report(definition="v2", timing=five, timing_text="every 5 s")

    async def scene() -> None:
        Desk(stage, report(), id="old")
        await stage.passes(12)
        Desk(stage, faster, id="new")
        await stage.passes(200)

    stage.play(scene())

    assert stored(stage).definition == "v2"
    assert fire_times(stage) == [10, *range(15, 211, 5)]
    assert "schedule.left" in stage.names()


def test_the_old_version_writes_nothing_over_the_new_one(stage: Stage) -> None:
    """A16."""

    async def scene() -> int:
        Desk(stage, report(), id="old")
        await stage.passes(1)
        Desk(stage, report(definition="v2"), id="new")
        await stage.passes(1)
        defined = stage.wire.count("schedule_define")
        await stage.passes(20 * LEASE / SECOND)
        return defined

    defined = stage.play(scene())

    assert stage.wire.count("schedule_define") == defined == 2
    assert stored(stage).definition == "v2"


def test_a_rollback_returns_when_the_newer_version_has_gone(stage: Stage) -> None:
    """A16."""

    async def scene() -> None:
        Desk(stage, report(), id="old")
        await stage.passes(1)
        new = Desk(stage, report(definition="v2"), id="new")
        await stage.passes(30)
        new.leave()
        await stage.passes(2 * LEASE / SECOND + 10)

    stage.play(scene())

    assert stored(stage).definition == "v1"
    assert fire_times(stage)[-1] == (stage.loop.micros // SECOND) // 10 * 10


def test_a_higher_version_wins_whatever_is_live(stage: Stage) -> None:
    async def scene() -> None:
        Desk(stage, report(definition="two"), id="two", version="2")
        await stage.passes(1)
        Desk(stage, report(definition="one"), id="one", version="1")
        await stage.passes(5 * LEASE / SECOND)

    stage.play(scene())

    assert stored(stage).definition == "two"


def test_two_that_declare_at_once_agree_after_a_second_look(stage: Stage) -> None:
    async def scene() -> None:
        stage.wire.plan("schedule_define", Trouble(there=SECOND), Trouble(there=SECOND))
        Desk(stage, report(), id="a")
        Desk(stage, report(), id="b")
        await stage.passes(25)

    stage.play(scene())

    assert stored(stage).revision >= 1
    assert fire_times(stage) == [10, 20]


def test_an_outage_at_the_declaration_is_tried_again(stage: Stage) -> None:
    async def scene() -> None:
        stage.wire.down = True
        Desk(stage, report())
        await stage.passes(7)
        stage.wire.down = False
        await stage.passes(8)

    stage.play(scene())

    assert fire_times(stage) == [10]
    assert stage.wire.count("schedule_read") < 20


def test_fire_times_that_were_due_under_the_old_definition_are_told(stage: Stage) -> None:
    """P7: nobody was there to fire them, and the new definition starts from now."""

    async def scene() -> None:
        Desk(stage, report()).leave()
        await stage.passes(0)
        first = Desk(stage, report(), id="first")
        await stage.passes(5)
        first.leave()
        await stage.passes(20)
        Desk(stage, report(definition="v2", timing_text="another"), id="second")
        await stage.passes(1)

    stage.play(scene())

    [event] = [e for e in stage.store.tables.events if e.kind == "tick.missed"]
    assert json.loads(event.detail)["newest"][0]["reason"] == "redefined"


def test_what_was_due_stays_due_when_a_deploy_changes_anything_but_the_timing(
    stage: Stage,
) -> None:
    """A deploy over the fire time must not cost a night: the catch-up rule decides."""

    async def scene() -> None:
        first = Desk(stage, report(), id="first")
        await stage.passes(5)
        first.leave()
        await stage.passes(20)
        Desk(stage, report(definition="v2"), id="second")
        await stage.passes(1)

    stage.play(scene())

    assert fire_times(stage) == [20]
    assert stored(stage).definition == "v2"


def test_a_replica_without_a_lease_ticks_nothing(stage: Stage) -> None:
    async def scene() -> None:
        desk = Desk(stage, report())
        await stage.passes(5)
        desk.member.lost = "declared dead"
        await stage.passes(60)

    stage.play(scene())

    assert fire_times(stage) == []


def test_a_scheduler_with_nothing_to_do_asks_less_than_once_a_second(stage: Stage) -> None:
    async def scene() -> None:
        Desk(stage, report(timing=Every(Span(DAY), Instant(0))))
        await stage.passes(600)

    stage.play(scene())

    assert len(stage.wire.sent) < 300
