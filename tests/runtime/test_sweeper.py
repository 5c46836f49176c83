"""The sweeper: who may judge, what is given back, and what is told to the other loops."""

from __future__ import annotations

from typing import Any

import pytest

from onejob.commands import replicas, runs
from onejob.core.run import ClaimedRun
from onejob.core.time import DAY, SECOND
from onejob.core.watermark import full_probes
from onejob.runtime.sweeper import Outlook, Sweeper
from onejob.stores.memory import tables
from runtime.stage import LEASE, Host, Stage, Trouble

LEASE_SECONDS = LEASE / SECOND


class Watch:
    """A sweeper on a stage, whose own lease is renewed while time passes."""

    def __init__(self, stage: Stage, **settings: Any) -> None:
        self.stage = stage
        self.outlooks: list[Outlook] = []
        self.released = 0
        self.sweeper = Sweeper(
            Host(stage.wire),
            stage.settings(**settings),
            jobs=("report",),
            schedules=(),
            clock=stage.clock,
            random=stage.random,
            events=stage.events,
            outlook=self.outlooks.append,
            released=self._released,
        )
        self.member = stage.member(jobs=("report",))
        stage.begin(self.sweeper.serve())
        self.sweeper.joined(self.member)

    def _released(self) -> None:
        self.released += 1

    async def passes(self, seconds: int, *, also: tuple[str, ...] = ()) -> None:
        """Let time go by; the store hears of this replica and of ``also`` while it can."""
        for _ in range(seconds):
            await self.stage.passes(1)
            if not self.stage.wire.down:
                for id in ("me", *also):
                    self.stage.store.run(replicas.renew(id, lease=LEASE))  # type: ignore[arg-type]
                self.member.deadline = self.stage.clock.now() + LEASE


def claimed(stage: Stage, by: str, *keys: str, on_loss: str = "retry") -> list[ClaimedRun]:
    """Let another replica claim runs, and be heard of no more."""
    other = stage.member(by, jobs=("report",))
    stage.enqueue("report", *keys, on_loss=on_loss)
    command = runs.claim(full_probes(["default"]), jobs=["report"], replica=other.id, limit=100)
    return list(stage.store.run(command))


def dead(stage: Stage) -> list[str]:
    return [replica.id for replica in stage.store.tables.replicas.values() if replica.dead_at]


def test_a_dead_replicas_runs_are_due_again_within_the_lease_and_a_sweep(stage: Stage) -> None:
    """P3, B07, B16: bounded by the lease, not by how long the job takes."""

    async def scene() -> Watch:
        watch = Watch(stage)
        await watch.passes(20)
        claimed(stage, "other", "one", "two")
        await watch.passes(14)
        return watch

    watch = stage.play(scene())

    for id in (1, 2):
        run = stage.run(id)
        assert (run.state, run.attempt, run.deaths) == ("scheduled", 1, 1)
    assert dead(stage) == ["other"]
    assert stage.names() == ["replica.judged", "run.abandoned", "run.abandoned"]
    assert watch.outlooks[-1].alone > 0


def test_a_live_replica_is_left_alone(stage: Stage) -> None:
    async def scene() -> None:
        watch = Watch(stage)
        claimed(stage, "other", "one")
        await watch.passes(60, also=("other",))

    stage.play(scene())

    assert dead(stage) == []
    assert stage.run(1).state == "running"


def test_nobody_is_judged_in_the_first_lease(stage: Stage) -> None:
    """It has not looked soundly for a whole lease yet."""

    async def scene() -> list[str]:
        stage.member("gone", lease=SECOND)
        watch = Watch(stage)
        await watch.passes(11)
        early = dead(stage)
        await watch.passes(6)
        return early

    assert stage.play(scene()) == []
    assert dead(stage) == ["gone"]


def test_after_an_outage_the_others_get_one_lease_to_be_heard_of_again(stage: Stage) -> None:
    """Their leases lapsed while nobody could renew: judged at once, healthy replicas would die."""

    async def scene() -> None:
        watch = Watch(stage)
        await watch.passes(20, also=("other",))
        claimed(stage, "other", "one")
        stage.wire.down = True
        await watch.passes(30)
        stage.wire.down = False
        watch.member.punctual_since = stage.clock.now()
        await watch.passes(8)
        assert dead(stage) == []
        await watch.passes(20, also=("other",))

    stage.play(scene())

    assert dead(stage) == []
    assert stage.run(1).state == "running"


@pytest.mark.parametrize("step", [-3_600 * SECOND, 3_600 * SECOND], ids=["back", "forward"])
def test_after_a_step_of_the_stores_clock_nobody_is_judged_for_a_lease(
    stage: Stage, step: int
) -> None:
    async def scene() -> list[str]:
        watch = Watch(stage)
        claimed(stage, "other", "one")
        await watch.passes(20, also=("other",))
        stage.store_clock.offset += step
        await watch.passes(8)
        early = dead(stage)
        await watch.passes(30, also=("other",))
        return early

    assert stage.play(scene()) == []
    assert dead(stage) == []


def test_a_replica_that_was_not_punctual_itself_judges_nobody_for_a_lease(stage: Stage) -> None:
    async def scene() -> list[str]:
        watch = Watch(stage)
        await watch.passes(20)
        claimed(stage, "other", "one")
        await watch.passes(11)
        watch.member.punctual_since = stage.clock.now()
        await watch.passes(8)
        early = dead(stage)
        await watch.passes(8)
        return early

    assert stage.play(scene()) == []
    assert dead(stage) == ["other"]


def test_what_a_replica_that_left_still_held_is_given_back_without_judging(stage: Stage) -> None:
    """Runs of *every* replica that is not live, not only of those judged in this pass."""

    async def scene() -> None:
        watch = Watch(stage)
        await watch.passes(1)
        [run] = claimed(stage, "other", "one")
        stage.store.run(replicas.leave(run.replica))
        await watch.passes(4)

    stage.play(scene())

    assert stage.run(1).state == "scheduled"


def test_a_row_that_was_locked_in_one_pass_is_given_back_in_a_later_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = {1}
    held = tables.Tables.held

    def skipping(self: Any, id: int, token: int, replica: str) -> Any:
        return None if id in locked else held(self, id, token, replica)

    monkeypatch.setattr(tables.Tables, "held", skipping)

    async def scene() -> tuple[str, str]:
        watch = Watch(stage)
        await watch.passes(20)
        claimed(stage, "other", "one", "two")
        await watch.passes(20)
        first = stage.run(1).state, stage.run(2).state
        locked.clear()
        await watch.passes(4)
        return first

    assert stage.play(scene()) == ("running", "scheduled")
    assert stage.run(1).state == "scheduled"


@pytest.mark.parametrize(
    ("on_loss", "state", "outcome"),
    [
        ("retry", "scheduled", None),
        ("fail", "ended", "abandoned"),
        ("unknown", "unknown", None),
    ],
)
def test_what_becomes_of_a_dead_replicas_run_is_its_jobs_policy(
    stage: Stage, on_loss: str, state: str, outcome: str | None
) -> None:
    """F11."""

    async def scene() -> None:
        watch = Watch(stage)
        [run] = claimed(stage, "other", "one", on_loss=on_loss)
        stage.store.run(replicas.leave(run.replica))
        await watch.passes(4)

    stage.play(scene())

    run = stage.run(1)
    assert (run.state, run.outcome) == (state, outcome)
    assert "died, or lost its lease, during attempt 1" in (run.error or "")


def test_the_third_death_is_the_last_one(stage: Stage) -> None:
    """B04, B06: attempts count at the claim, deaths in a counter of their own."""

    async def scene() -> None:
        watch = Watch(stage)
        [run] = claimed(stage, "first", "one")
        for name in ("second", "third", ""):
            stage.store.run(replicas.leave(run.replica))
            await watch.passes(10)
            if name:
                other = stage.member(name, jobs=("report",))
                command = runs.claim_alone(["default"], jobs=["report"], replica=other.id)
                [run] = stage.store.run(command)

    stage.play(scene())

    run = stage.run(1)
    assert (run.state, run.outcome, run.attempt) == ("ended", "abandoned", 3)
    assert "worker lost 3 times" in (run.error or "")


def test_two_sweepers_give_a_run_back_once(stage: Stage) -> None:
    async def scene() -> None:
        first, second = Watch(stage), None
        [run] = claimed(stage, "other", "one")
        second = Watch.__new__(Watch)
        stage.store.run(replicas.leave(run.replica))
        stage.wire.plan("run_settle", Trouble(there=SECOND), Trouble(there=SECOND))
        second.__init__(stage)  # type: ignore[misc]  # the same id twice: a second look
        await first.passes(10)

    stage.play(scene())

    assert stage.run(1).deaths == 1
    assert stage.names("run.abandoned") == ["run.abandoned"]


def test_runs_of_a_job_that_nobody_knows_are_parked_and_come_back_with_it(stage: Stage) -> None:
    """F14: visible, no attempt spent, and run by whoever knows it."""

    async def scene() -> tuple[str, Watch]:
        stage.enqueue("other", "one")
        watch = Watch(stage)
        await watch.passes(4)
        state = stage.run(1).state
        watch.sweeper._jobs = ("report", "other")
        stage.member("newer", jobs=("other",))
        await watch.passes(4)
        return state, watch

    state, watch = stage.play(scene())

    assert state == "parked"
    assert (stage.run(1).state, stage.run(1).attempt) == ("scheduled", 0)
    assert stage.names("run.parked") == ["run.parked"]
    assert watch.released == 1


def test_what_lies_ahead_is_told_on_the_local_clock(stage: Stage) -> None:
    async def scene() -> Watch:
        stage.store_clock.offset = -10 * DAY
        stage.enqueue("report", "later", delay=90 * SECOND)
        watch = Watch(stage)
        await watch.passes(1)
        return watch

    outlook = stage.play(scene()).outlooks[0]

    start = stage.clock.now() - SECOND
    assert (outlook.next_due, outlook.next_fire, outlook.alone) == (start + 90 * SECOND, 0, 0)


def test_a_sweeper_alone_in_its_fleet_asks_less_than_once_a_second(stage: Stage) -> None:
    async def scene() -> None:
        watch = Watch(stage)
        await watch.passes(120)

    stage.play(scene())

    assert stage.wire.count("replica_look") < 60


def test_ended_runs_past_their_time_are_purged_and_live_ones_never(stage: Stage) -> None:
    async def scene() -> None:
        [done] = claimed(stage, "other", "done")
        from onejob.core.run import End, Outcome

        stage.store.run(runs.settle([(done.claim, End(Outcome.SUCCEEDED))], keep=SECOND))
        stage.enqueue("report", "live")
        watch = Watch(stage)
        await watch.passes(90)

    stage.play(scene())

    assert stage.run(1) is None
    assert stage.run(2).state == "scheduled"
    assert [key for _, _, key in stage.store.tables.ledger] == ["live"]


def test_locks_and_fences_that_nobody_uses_any_more_are_purged(stage: Stage) -> None:
    """C05: without anybody's asking for it."""
    now = stage.store.clock()
    for name, expires in (("dead", 1), ("alive", now + DAY)):
        lease = tables.Lease("shop", name, expires=expires, changed=1)
        stage.store.tables.leases["shop", name] = lease
    stage.store.tables.fences = {("shop", "dead"): (7, 1), ("shop", "alive"): (8, now)}

    async def scene() -> None:
        await Watch(stage).passes(90)

    stage.play(scene())

    assert [name for _, name in stage.store.tables.leases] == ["alive"]
    assert [name for _, name in stage.store.tables.fences] == ["alive"]


def test_a_look_that_fails_starts_the_lease_of_soundness_anew(stage: Stage) -> None:
    async def scene() -> list[str]:
        watch = Watch(stage)
        await watch.passes(20)
        claimed(stage, "other", "one")
        await watch.passes(11)
        stage.wire.plan("replica_look", Trouble(unsent=True))
        await watch.passes(9)
        early = dead(stage)
        await watch.passes(12)
        return early

    assert stage.play(scene()) == []
    assert dead(stage) == ["other"]
