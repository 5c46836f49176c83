"""The worker: what it takes on, what it finds again, and when it looks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onejob.commands import replicas, runs
from onejob.core.run import Again, Claim, Outcome, ReplicaId, RunId, Token
from onejob.core.time import DAY, SECOND
from onejob.core.watermark import full_probes
from onejob.runtime.attempt import Attempt
from onejob.runtime.membership import Membership
from onejob.runtime.worker import RECONCILE_LEASES, Worker
from runtime.stage import LEASE, Host, Job, Stage, Trouble


class Shift:
    """A worker on a stage with one job, that settles too."""

    def __init__(self, stage: Stage, handler: Any, **settings: Any) -> None:
        self.stage, self.host = stage, Host(stage.wire)
        self.ran: list[tuple[str, int]] = []
        self.looks = 0

        async def noted(attempt: Attempt) -> None:
            self.ran.append((attempt.run.key, attempt.run.attempt))
            await handler(attempt)

        executables: Any = {"report": Job("report", noted)}
        self.worker = Worker(
            stage.wire,  # type: ignore[arg-type]  # the part of a store that loops use
            self.host,
            executables,
            stage.settings(**settings),
            clock=stage.clock,
            random=stage.random,
            events=stage.events,
            look=self._look,
        )
        self.serving = stage.begin(self.worker.serve())
        stage.begin(self.worker.settler.serve())
        self.member: Membership = stage.member(lease=DAY, jobs=("report",))
        self.worker.joined(self.member)

    def _look(self) -> None:
        self.looks += 1


async def at_once(attempt: Attempt) -> None:
    pass


async def for_ever(attempt: Attempt) -> None:
    await asyncio.get_running_loop().create_future()


async def a_second(attempt: Attempt) -> None:
    await asyncio.sleep(1)


def outcomes(stage: Stage) -> list[str]:
    return [end.outcome for end in stage.store.tables.history.values()]


def test_due_runs_are_claimed_and_executed_in_the_order_of_priority_and_due(stage: Stage) -> None:
    async def scene() -> Shift:
        stage.enqueue("report", "last", priority=9)
        stage.enqueue("report", "second", "third", priority=5)
        stage.enqueue("report", "first", priority=0)
        shift = Shift(stage, at_once, concurrency=1)
        await stage.passes(1)
        return shift

    shift = stage.play(scene())

    assert [key for key, _ in shift.ran] == ["first", "second", "third", "last"]
    assert outcomes(stage) == ["succeeded"] * 4


def test_no_more_is_claimed_than_there_is_room_for(stage: Stage) -> None:
    """A long run that waits here is one that another replica could have started."""

    async def scene() -> Shift:
        stage.enqueue("report", *(str(place) for place in range(10)))
        shift = Shift(stage, for_ever, concurrency=3)
        await stage.passes(30)
        return shift

    shift = stage.play(scene())

    assert len(shift.ran) == 3
    assert sum(run.state == "running" for run in stage.store.tables.runs.values()) == 3


def test_an_idle_worker_asks_less_than_once_a_second(stage: Stage) -> None:
    async def scene() -> Shift:
        shift = Shift(stage, at_once)
        await stage.passes(60)
        return shift

    stage.play(scene())

    assert len(stage.wire.sent) < 60
    assert stage.store.tables.replicas["me"].idle == 1


def test_an_idle_worker_looks_once_more_after_it_has_said_so(stage: Stage) -> None:
    """F04: whoever enqueued between the claim and the announcement has notified nobody."""

    async def scene() -> Shift:
        def meanwhile(command: Any) -> None:
            if command.name == "replica_idle":
                stage.wire.before = lambda command: None
                stage.enqueue("report", "between")

        stage.wire.before = meanwhile
        shift = Shift(stage, at_once)
        await stage.passes(0.1)
        return shift

    assert stage.play(scene()).ran == [("between", 1)]


def test_a_run_due_later_starts_at_its_time_when_somebody_has_looked(stage: Stage) -> None:
    async def scene() -> Shift:
        shift = Shift(stage, at_once, poll=600 * SECOND)
        await stage.passes(1)
        stage.enqueue("report", "later", delay=5 * SECOND)
        shift.worker.waker.at(stage.clock.now() + 5 * SECOND)
        await stage.passes(5.1)
        return shift

    assert stage.play(scene()).ran == [("later", 1)]


def test_a_hint_without_a_due_run_asks_for_a_look(stage: Stage) -> None:
    async def scene() -> Shift:
        shift = Shift(stage, at_once, poll=600 * SECOND)
        await stage.passes(1)
        shift.worker.hinted()
        await stage.passes(1)
        return shift

    assert stage.play(scene()).looks == 1


def test_an_outage_ends_no_worker_and_is_not_hammered(stage: Stage) -> None:
    """C31."""

    async def scene() -> Shift:
        stage.wire.down = True
        shift = Shift(stage, at_once)
        await stage.passes(60)
        stage.enqueue("report", "one")
        stage.wire.down = False
        await stage.passes(3)
        return shift

    shift = stage.play(scene())

    assert shift.ran == [("one", 1)]
    assert 30 < stage.wire.count("run_claim") < 180


# What a lost reply left


def test_a_claim_whose_reply_was_lost_is_taken_on_at_once(stage: Stage) -> None:
    """P3: it committed all the same; nobody else would ever free these runs."""

    async def scene() -> Shift:
        stage.wire.plan("run_claim", Trouble(lost=True))
        stage.enqueue("report", "one", "two")
        shift = Shift(stage, at_once)
        await stage.passes(1)
        return shift

    shift = stage.play(scene())

    assert sorted(shift.ran) == [("one", 1), ("two", 1)]
    assert outcomes(stage) == ["succeeded"] * 2
    assert stage.names("run.found") == ["run.found"] * 2


def test_an_orphan_that_nobody_noticed_is_found_on_a_bounded_period(stage: Stage) -> None:
    bound = RECONCILE_LEASES * LEASE / SECOND

    async def scene() -> Shift:
        shift = Shift(stage, at_once)
        await stage.passes(1)
        stage.enqueue("report", "orphan")
        claim = runs.claim(
            full_probes(["default"]), jobs=["report"], replica=shift.member.id, limit=1
        )
        assert stage.store.run(claim)
        await stage.passes(bound + 5)
        return shift

    assert stage.play(scene()).ran == [("orphan", 1)]
    assert outcomes(stage) == ["succeeded"]


def test_what_is_executed_here_is_not_found_again(stage: Stage) -> None:
    async def scene() -> Shift:
        stage.enqueue("report", "one")
        shift = Shift(stage, for_ever)
        await stage.passes(10 * RECONCILE_LEASES * LEASE / SECOND)
        return shift

    assert stage.play(scene()).ran == [("one", 1)]
    assert stage.wire.count("run_held") >= 9


def test_what_is_being_settled_while_the_answer_is_on_its_way_is_not_found_again(
    stage: Stage,
) -> None:
    """It is still running in that answer; executed again it would run twice."""

    async def scene() -> Shift:
        stage.enqueue("report", "one")
        # Asked before the run ends, answered after its settlement is written.
        stage.wire.plan("run_held", Trouble(back=5 * SECOND))
        shift = Shift(stage, a_second)
        await stage.passes(0.1)
        shift.worker._reconcile_at = 0
        shift.worker.waker.wake()
        await stage.passes(20)
        return shift

    shift = stage.play(scene())

    assert shift.ran == [("one", 1)]
    assert stage.wire.count("run_held") == 1
    assert stage.names() == ["run.ended"]


def test_what_ended_and_waits_to_be_settled_is_not_found_again(stage: Stage) -> None:
    async def scene() -> Shift:
        stage.enqueue("report", "one")
        stage.wire.plan("run_settle", Trouble(there=20 * SECOND))
        shift = Shift(stage, at_once)
        await stage.passes(0.1)
        shift.worker._reconcile_at = 0
        shift.worker.waker.wake()
        await stage.passes(30)
        return shift

    shift = stage.play(scene())

    assert stage.wire.count("run_held") >= 1
    assert shift.ran == [("one", 1)]
    assert outcomes(stage) == ["succeeded"]


# A lease that is lost


def test_an_older_attempt_that_ends_late_does_not_hide_the_newer_one(stage: Stage) -> None:
    """P2: the run came back to this very process while its old handler was still cleaning up."""

    async def slow_to_go(attempt: Attempt) -> None:
        try:
            await asyncio.sleep(2 * RECONCILE_LEASES * LEASE / SECOND)
        except asyncio.CancelledError:
            await asyncio.sleep(10)
            raise

    async def scene() -> Shift:
        shift = Shift(stage, slow_to_go)
        first = shift.member
        stage.enqueue("report", "one")
        await stage.passes(3)
        [held] = stage.store.run(runs.held(first.id))
        first.lost = "could not renew"
        shift.worker.lost(first)
        stage.store.run(replicas.leave(first.id))
        stage.store.run(runs.settle([(held.claim, Again(0, Outcome.FAILED))], keep=DAY))
        shift.worker.joined(stage.member("again", lease=DAY, jobs=("report",)))
        await stage.passes(RECONCILE_LEASES * LEASE / SECOND + 20)
        return shift

    assert stage.play(scene()).ran == [("one", 1), ("one", 2)]


def test_a_lost_membership_stops_claiming_until_the_next_one(stage: Stage) -> None:
    async def scene() -> Shift:
        shift = Shift(stage, at_once)
        await stage.passes(1)
        stage.store.run(replicas.leave(shift.member.id))
        shift.member.lost = "declared dead"
        shift.worker.lost(shift.member)
        stage.enqueue("report", "one")
        sent = stage.wire.count("run_claim")
        await stage.passes(60)
        assert stage.wire.count("run_claim") == sent
        shift.worker.joined(stage.member("again", jobs=("report",)))
        await stage.passes(0.1)
        return shift

    assert stage.play(scene()).ran == [("one", 1)]


def test_nothing_is_claimed_past_the_deadline_even_before_anybody_says_so(stage: Stage) -> None:
    """P6: the keeper's thread may be late; the deadline is not."""

    async def scene() -> Shift:
        shift = Shift(stage, at_once)
        shift.member.deadline = stage.clock.now() + SECOND
        await stage.passes(1)
        stage.enqueue("report", "one")
        await stage.passes(60)
        return shift

    assert stage.play(scene()).ran == []


# Runs that have outlived a replica


def survivor(stage: Stage, key: str) -> None:
    """Make a run whose first replica has died."""
    from onejob.core.run import Again, Outcome

    stage.enqueue("report", key)
    dead = stage.member("dead", jobs=("report",))
    claim = runs.claim(full_probes(["default"]), jobs=["report"], replica=dead.id, limit=1)
    [run] = stage.store.run(claim)
    stage.store.run(runs.settle([(run.claim, Again(0, Outcome.ABANDONED, "died"))], keep=DAY))


@pytest.mark.parametrize("handler", [a_second, for_ever], ids=["it ends", "it goes on"])
def test_a_run_that_outlived_a_replica_runs_alone_first(stage: Stage, handler: Any) -> None:
    """B04: it may be what killed it; nothing starts beside it until it ends, or for one lease."""

    async def scene() -> tuple[Shift, list[str], float]:
        survivor(stage, "survivor")
        stage.enqueue("report", "one", "two")
        shift = Shift(stage, handler)
        shift.worker.alone(stage.clock.now())
        await stage.passes(0.5)
        beside = [key for key, _ in shift.ran]
        while len(shift.ran) < 3:
            await stage.passes(0.5)
        return shift, beside, stage.now

    shift, beside, ended = stage.play(scene())

    assert beside == ["survivor"]
    assert shift.ran[0] == ("survivor", 2)
    assert ended <= (1.5 if handler is a_second else 1.5 * LEASE / SECOND)


# Draining


def test_a_drained_worker_has_written_all_it_ended(stage: Stage) -> None:
    """B15: given back without spending an attempt."""

    async def scene() -> bool:
        stage.enqueue("report", "one", "two")
        shift = Shift(stage, for_ever, concurrency=1)
        await stage.passes(1)
        shift.serving.cancel()
        return await shift.worker.drain(SECOND)

    assert stage.play(scene()) is True
    for id in (1, 2):
        run = stage.run(id)
        assert (run.state, run.attempt) == ("scheduled", 0)
    assert stage.run(1).interrupted == 1


def test_a_run_completed_in_its_own_transaction_is_not_settled_again(stage: Stage) -> None:
    async def completing(attempt: Attempt) -> None:
        from onejob.core.run import End, Outcome

        claim = Claim(RunId(attempt.run.id), Token(attempt.run.token), ReplicaId("me"))
        assert stage.store.run(runs.settle([(claim, End(Outcome.SUCCEEDED))], keep=DAY))
        attempt.settled = True

    async def scene() -> Shift:
        stage.enqueue("report", "one")
        shift = Shift(stage, completing)
        await stage.passes(1)
        return shift

    shift = stage.play(scene())

    assert stage.wire.count("run_settle") == 0
    assert shift.worker.executor.attempts == {}
    assert stage.names("run.stale") == []
