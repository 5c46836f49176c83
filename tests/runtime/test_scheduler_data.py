"""The scheduler and schedules that were put as data: who fires them, in what order, and when."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from onejob.commands import overlap, replicas, runs, schedules, views
from onejob.commands.schedules import PutSchedule
from onejob.core.run import ReplicaId
from onejob.core.time import DAY, HOUR, SECOND
from onejob.core.watermark import full_probes
from onejob.runtime.scheduler import BATCH, Scheduler
from onejob.runtime.settings import Target
from runtime.stage import LEASE, STORE_START, Host, Stage, Trouble

EVERY_TEN = json.dumps({"every": 10 * SECOND, "anchor": 0})
LATEST = {"catch_up": "latest", "catch_up_cap": 100, "max_lateness": None, "overlap": "allow"}


def put(stage: Stage, *names: str, policy: dict[str, Any] | None = None, **changes: Any) -> None:
    """Put schedules of job ``report`` that fire every ten seconds."""
    batch = [
        PutSchedule(
            **{
                "name": name,
                "job": "report",
                "timing": EVERY_TEN,
                "policy": json.dumps({**LATEST, **(policy or {})}),
                "definition": name,
                "next_fire": STORE_START + 10 * SECOND,
                "args": json.dumps({"tenant": name}),
                "queue": "default",
                "priority": 0,
                "on_loss": "retry",
                "revision": 0,
                **changes,
            }
        )
        for name in names
    ]
    assert stage.store.run(schedules.put(batch)) == {*names}


class Desk:
    """A scheduler on a stage that knows jobs, and declares nothing."""

    def __init__(self, stage: Stage, *jobs: str, id: str = "me", **more: Any) -> None:
        self.asked = 0
        targets = {job: Target("reports", 3, "fail", 30 * SECOND) for job in jobs or ("report",)}
        self.scheduler = Scheduler(
            Host(stage.wire),
            (),
            stage.settings(),
            clock=stage.clock,
            events=stage.events,
            fired=lambda: None,
            targets=targets,
            random=Random(id),
            asked=self._asked,
            **more,
        )
        new = replicas.NewReplica(
            ReplicaId(id), "shop", "here", 1, "", list(targets), {}, DAY, list(targets)
        )
        assert stage.store.run(replicas.join(new))
        self.serving = stage.begin(self.scheduler.serve())
        self.member = stage.member(id, lease=DAY)
        self.scheduler.joined(self.member)

    def _asked(self) -> None:
        self.asked += 1


def fired(stage: Stage) -> list[tuple[str, int]]:
    """Return what became runs: the schedule, and the second of its fire time."""
    return sorted(
        (run.schedule, (run.fire_time - STORE_START) // SECOND)
        for run in stage.store.tables.runs.values()
    )


def test_whoever_knows_the_job_fires_what_was_put_each_time_once(stage: Stage) -> None:
    """A01, A15: no declaration is needed, and any number of replicas do it."""

    async def scene() -> None:
        put(stage, "a", "b")
        for id in ("x", "y", "z"):
            Desk(stage, id=id)
        await stage.passes(25)

    stage.play(scene())

    assert fired(stage) == [("a", 10), ("a", 20), ("b", 10), ("b", 20)]


def test_its_runs_are_made_of_the_options_that_the_code_at_hand_has(stage: Stage) -> None:
    async def scene() -> None:
        put(stage, "a")
        Desk(stage)
        await stage.passes(12)

    stage.play(scene())

    [run] = stage.store.tables.runs.values()
    assert (run.queue, run.priority, run.on_loss) == ("reports", 3, "fail")
    assert (run.job, json.loads(run.args)) == ("report", {"tenant": "a"})
    assert run.expect_by == run.fire_time + 30 * SECOND


def test_what_nobody_knows_the_job_of_is_orphaned_and_does_not_fire(stage: Stage) -> None:
    async def scene() -> None:
        put(stage, "lonely", job="gone")
        Desk(stage)
        await stage.passes(60)

    stage.play(scene())

    assert fired(stage) == []
    [view] = stage.store.run(views.schedules(name="lonely"))
    assert (view.declared, view.next_fire) == (0, STORE_START + 10 * SECOND)


def test_the_scheduler_sleeps_to_the_next_of_many(stage: Stage) -> None:
    """A tick tells when the next is due: none of them waits for a look."""

    async def scene() -> None:
        for second in range(1, 9):
            put(stage, f"s{second}", next_fire=STORE_START + second * SECOND)
        Desk(stage)
        await stage.passes(9.5)

    stage.play(scene())

    late = [
        run.created - run.fire_time for run in stage.store.tables.runs.values() if run.fire_time
    ]
    assert len(late) == 8
    assert max(late) < SECOND // 10


def test_more_than_a_batch_is_fired_in_one_go_and_each_once(stage: Stage) -> None:
    names = [f"s{n:04d}" for n in range(3 * BATCH + 7)]

    async def scene() -> None:
        put(stage, *names)
        for id in ("x", "y", "z"):
            Desk(stage, id=id)
        await stage.passes(11)

    stage.play(scene())

    assert fired(stage) == [(name, 10) for name in names]


def test_a_timing_that_nobody_here_can_read_is_broken_and_the_others_go_on(stage: Stage) -> None:
    """D13"""

    async def scene() -> None:
        put(stage, "strange", timing='{"moon":"full"}')
        put(stage, "no zone", timing='{"cron":"* * * * *","tz":"Mars/Olympus"}')
        put(stage, "no rule", policy={"overlap": "perhaps"})
        put(stage, "fine")
        Desk(stage)
        await stage.passes(12)

    stage.play(scene())

    assert fired(stage) == [("fine", 10)]
    views_ = stage.store.run(views.schedules())
    broken = {view.name: view.broken for view in views_ if view.broken}
    assert set(broken) == {"strange", "no zone", "no rule"}
    assert "Mars/Olympus" in broken["no zone"]


def test_jitter_shifts_when_a_run_is_due_and_not_its_fire_time(stage: Stage) -> None:
    """A24, D21: by the name, so equal in every process and after every restart."""

    async def scene() -> None:
        put(stage, "a", "b", policy={"jitter": 8 * SECOND})
        Desk(stage)
        await stage.passes(12)

    stage.play(scene())

    shifts = {run.schedule: run.due - run.fire_time for run in stage.store.tables.runs.values()}
    assert fired(stage) == [("a", 10), ("b", 10)]
    assert all(0 <= shift < 8 * SECOND for shift in shifts.values())
    assert shifts["a"] != shifts["b"]


def test_a_herd_on_one_minute_spreads_its_claims(stage: Stage) -> None:
    """D21: a hundred schedules of 60 s, after a restart; no second holds more than eight."""
    minute = json.dumps({"every": 60 * SECOND, "anchor": 0})

    async def scene() -> None:
        names = [f"poll-{n}" for n in range(100)]
        put(stage, *names, timing=minute, policy={"jitter": 60 * SECOND})
        Desk(stage)
        await stage.passes(12)

    stage.play(scene())

    made = list(stage.store.tables.runs.values())
    seconds = [(run.due - STORE_START) // SECOND for run in made]
    assert {run.fire_time for run in made} == {STORE_START + 10 * SECOND}
    assert len(made) == 100
    assert max(seconds.count(second) for second in set(seconds)) <= 8


def test_an_overlap_that_cancels_has_the_other_run_cancelled_at_once(stage: Stage) -> None:
    async def scene() -> Desk:
        put(stage, "a", policy={"overlap": "cancel"})
        desk = Desk(stage)
        await stage.passes(12)
        claim = runs.claim(
            full_probes(["reports"]), jobs=["report"], replica=desk.member.id, limit=1
        )
        assert len(stage.store.run(claim)) == 1
        await stage.passes(10)
        return desk

    desk = stage.play(scene())

    assert desk.asked == 1
    assert stage.names("tick") == ["tick.fired", "tick.queued"]
    assert stage.store.run(overlap.asked(limit=10)) == (1,)


def test_who_lost_a_fire_time_is_recorded_by_the_loser_afterwards(stage: Stage) -> None:
    """A06: the list shows one winner and two losers, each by its replica."""

    async def scene() -> None:
        put(stage, "a")
        stage.wire.plan("schedule_tick", Trouble(there=SECOND), Trouble(there=SECOND))
        for id in ("x", "y", "z"):
            Desk(stage, id=id)
        await stage.passes(25)

    stage.play(scene())

    told = [e for e in stage.store.tables.events if e.kind == "tick.lost" and e.run_id == 1]
    entry = next(e for e in stage.store.tables.ledger.values() if e.run_id == 1)
    assert fired(stage) == [("a", 10), ("a", 20)]
    assert sorted([entry.owner, *(event.replica for event in told)]) == ["x", "y", "z"]
    assert {json.loads(event.detail)["by"] for event in told} == {entry.owner}


def test_the_stores_clock_decides_and_a_wrong_one_here_is_told(stage: Stage) -> None:
    """D07: a machine a day ahead fires nothing early, and says so once."""

    async def scene() -> None:
        put(stage, "a")
        Desk(stage, wall=lambda: stage.store_clock.now() + DAY)
        await stage.passes(35)

    stage.play(scene())

    assert fired(stage) == [("a", 10), ("a", 20), ("a", 30)]
    [told] = [event for event in stage.told if event.name == "clock.off"]
    assert told.fields["seconds"] == DAY / SECOND
    assert "86400 s ahead of the store's" in str(told.fields["what"])


@pytest.mark.parametrize("step", [-2 * HOUR, DAY])
def test_a_step_of_the_stores_clock_fires_nothing_twice_and_loses_nothing_unsaid(
    stage: Stage, step: int
) -> None:
    """D06, D07: back, nothing fires again; forward, the newest fires and the rest is told."""

    async def scene() -> None:
        put(stage, "a")
        Desk(stage)
        await stage.passes(25)
        stage.store_clock.offset += step
        await stage.passes(40)

    stage.play(scene())

    seconds = [second for _, second in fired(stage)]
    told = [e for e in stage.store.tables.events if e.kind == "tick.missed"]
    missed = sum(json.loads(event.detail)["count"] for event in told)
    assert len(seconds) == len(set(seconds))
    assert seconds[:2] == [10, 20]
    if step < 0:
        assert (seconds, missed) == ([10, 20], 0)
        [stored] = stage.store.run(schedules.read(["a"])).schedules
        assert stored.next_fire == STORE_START + 30 * SECOND
    else:
        assert len(seconds) + missed == (seconds[-1] // 10)
        assert seconds[2] > step // SECOND


def test_a_process_that_was_suspended_fires_the_newest_and_tells_the_rest(stage: Stage) -> None:
    """D08, P7: ten minutes in which nobody ticked."""

    async def scene() -> None:
        put(stage, "a")
        desk = Desk(stage)
        await stage.passes(15)
        desk.serving.cancel()
        await stage.passes(600)
        Desk(stage, id="back")
        await stage.passes(1)

    stage.play(scene())

    assert fired(stage) == [("a", 10), ("a", 610)]
    [view] = stage.store.run(views.schedules(name="a"))
    assert view.missed == 59
    assert view.lateness > 0


@pytest.mark.parametrize("trouble", [Trouble(unsent=True), Trouble(lost=True)], ids=["no", "yes"])
def test_a_scheduler_that_dies_at_a_tick_leaves_both_writes_or_neither(
    stage: Stage, trouble: Trouble
) -> None:
    """A15: making the run and moving the schedule on are one command; there is no in between."""

    async def scene() -> tuple[int, int]:
        put(stage, "a")
        stage.wire.plan("schedule_tick", trouble)
        desk = Desk(stage)
        await stage.passes(10.4)
        desk.serving.cancel()
        [stored] = stage.store.run(schedules.read(["a"])).schedules
        made = len(stage.store.tables.runs)
        Desk(stage, id="next")
        await stage.passes(5)
        return made, stored.revision

    made, revision = stage.play(scene())

    assert (made, revision) in ((0, 1), (1, 2))
    assert fired(stage) == [("a", 10)]


def test_an_idle_scheduler_asks_no_more_the_more_schedules_there_are(stage: Stage) -> None:
    asked = []

    async def scene(names: list[str]) -> None:
        if names:
            put(stage, *names, next_fire=STORE_START + DAY)
        desk = Desk(stage)
        before = len(stage.wire.sent)
        await stage.passes(10 * LEASE / SECOND)
        asked.append(len(stage.wire.sent) - before)
        desk.serving.cancel()

    stage.play(scene([]))
    stage.play(scene([f"s{n}" for n in range(2_000)]))

    assert asked[0] == asked[1] < 60
