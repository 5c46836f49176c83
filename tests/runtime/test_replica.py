"""All loops together: they join, lose, return, drain, and none ends the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onejob.commands import replicas
from onejob.core.time import SECOND
from onejob.runtime.attempt import Attempt
from onejob.runtime.replica import Replica
from runtime.stage import Host, Job, Stage, Trouble


class Process:
    """A replica on a stage."""

    def __init__(self, stage: Stage, *jobs: Job, **settings: Any) -> None:
        self.stage, self.host = stage, Host(stage.wire)
        executables: Any = {job.name: job for job in jobs}
        self.replica = Replica(
            stage.wire,  # type: ignore[arg-type]  # the part of a store that loops use
            self.host,
            executables,
            (),
            stage.settings(**settings),
            events=stage.events,
            clock=stage.clock,
            random=stage.random,
        )
        self.serving = stage.begin(self.replica.serve())

    @property
    def id(self) -> str:
        assert self.replica.membership is not None
        return self.replica.membership.id


def noting(ran: list[tuple[str, int]]) -> Job:
    async def handler(attempt: Attempt) -> None:
        ran.append((attempt.run.key, attempt.run.attempt))

    return Job("report", handler)


def lasting(ran: list[tuple[str, int]], seconds: float) -> Job:
    async def handler(attempt: Attempt) -> None:
        ran.append((attempt.run.key, attempt.run.attempt))
        await asyncio.sleep(seconds)

    return Job("report", handler)


@pytest.mark.parametrize(
    ("loop", "command"),
    [("worker", "run_claim"), ("sweeper", "replica_look"), ("settler", "run_settle")],
)
def test_a_mistake_that_nobody_foresaw_ends_one_pass_of_one_loop(
    stage: Stage, loop: str, command: str
) -> None:
    ran: list[tuple[str, int]] = []

    async def scene() -> None:
        stage.wire.plan(command, Trouble(error=RuntimeError("a driver's own")))
        process = Process(stage, noting(ran))
        stage.enqueue("report", "one")
        await stage.passes(60)
        stage.enqueue("report", "two")
        await stage.passes(6)
        assert not process.serving.done()

    stage.play(scene())

    assert [key for key, _ in ran] == ["one", "two"]
    assert [e.outcome for e in stage.store.tables.history.values()] == ["succeeded"] * 2
    [error] = [event for event in stage.told if event.name == "loop.error"]
    assert error.fields == {"loop": loop, "error": "RuntimeError: a driver's own"}


def test_a_replica_declared_dead_returns_under_another_id_and_works_on(stage: Stage) -> None:
    ran: list[tuple[str, int]] = []

    async def scene() -> tuple[str, str]:
        process = Process(stage, noting(ran))
        await stage.passes(1)
        first = process.id
        stage.store.run(replicas.judge(now=stage.store_clock.now() + 60 * SECOND))
        await stage.passes(5)
        stage.enqueue("report", "one")
        await stage.passes(6)
        return first, process.id

    first, second = stage.play(scene())

    assert first != second
    assert ran == [("one", 1)]


def test_a_handler_ends_before_another_replica_may_start_its_run(stage: Stage) -> None:
    """P6, P2: partitioned from its store, a replica stops while its lease is still standing."""
    spans: list[list[float]] = []

    async def handler(attempt: Attempt) -> None:
        span = [stage.now, 0.0]
        spans.append(span)
        try:
            await asyncio.sleep(60)
        finally:
            span[1] = stage.now

    async def scene() -> None:
        from runtime.stage import Wire

        near = Process(stage, Job("report", handler))
        await stage.passes(1)
        stage.enqueue("report", "one")
        await stage.passes(3)
        # The other process has a way to the store of its own.
        stage.wire.down, stage.wire = True, Wire(stage.store, stage.clock)
        Process(stage, Job("report", handler))
        await stage.passes(40)
        near.serving.cancel()

    stage.play(scene())

    first, second = spans[0], spans[1]
    assert first[1] < second[0] < first[0] + 12 + 4 + 12
    assert stage.run(1).attempt == 2


def test_a_keeper_that_is_held_up_costs_the_lease_in_time_all_the_same(stage: Stage) -> None:
    """P6: asked at 4 s and never answered; the lease asked for at 0 s is believed in until 11 s."""
    ends: list[float] = []

    async def handler(attempt: Attempt) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ends.append(stage.now)

    async def scene() -> Process:
        stage.enqueue("report", "one")
        stage.wire.plan("replica_renew", Trouble(back=50 * SECOND))
        process = Process(stage, Job("report", handler))
        await stage.passes(40)
        assert process.replica.membership is None
        # Then it is answered: lost all the same, and back under another id.
        await stage.passes(20)
        return process

    process = stage.play(scene())

    assert 11.0 <= ends[0] < 12.0
    assert process.id != stage.told[0].fields["replica"]


def test_a_drain_claims_no_more_and_leaves_the_fleet_last(stage: Stage) -> None:
    """F12, B15: settled and given back under its own id, and only then gone."""
    ran: list[tuple[str, int]] = []

    async def scene() -> bool:
        process = Process(stage, lasting(ran, 3), concurrency=1, grace=10 * SECOND)
        await stage.passes(1)
        stage.enqueue("report", "one", "two")
        process.replica.wake()
        await stage.passes(1)
        process.replica.stop()
        return bool(await process.serving)

    assert stage.play(scene()) is False
    assert ran == [("one", 1)]
    assert stage.run(1).outcome == "succeeded"
    assert (stage.run(2).state, stage.run(2).attempt) == ("scheduled", 0)
    assert stage.wire.sent[-1][0] == "replica_leave"


def test_a_drain_keeps_the_lease_through_a_long_grace_period(stage: Stage) -> None:
    ran: list[tuple[str, int]] = []

    async def scene() -> bool:
        process = Process(stage, lasting(ran, 50), grace=60 * SECOND)
        await stage.passes(1)
        stage.enqueue("report", "one")
        process.replica.wake()
        await stage.passes(1)
        process.replica.stop()
        return bool(await process.serving)

    assert stage.play(scene()) is False
    assert stage.run(1).outcome == "succeeded"
    assert stage.names("replica.lost") == []


def test_a_drain_while_the_store_is_away_ends_all_the_same(stage: Stage) -> None:
    """Nothing hangs: the lease lapses, and others give the runs back."""
    ran: list[tuple[str, int]] = []

    async def scene() -> None:
        process = Process(stage, lasting(ran, 600), grace=5 * SECOND)
        await stage.passes(1)
        stage.enqueue("report", "one")
        process.replica.wake()
        await stage.passes(1)
        stage.wire.down = True
        process.replica.stop()
        await process.serving

    stage.play(scene())

    assert stage.now < 30
    assert stage.run(1).state == "running"


def test_a_replica_that_only_schedules_claims_nothing(stage: Stage) -> None:
    ran: list[tuple[str, int]] = []

    async def scene() -> None:
        stage.enqueue("report", "one")
        Process(stage, noting(ran), work=False)
        await stage.passes(60)

    stage.play(scene())

    assert ran == []
    assert stage.wire.count("run_claim") == 0


def test_a_replica_with_nothing_to_do_asks_less_than_once_a_second(stage: Stage) -> None:
    ran: list[tuple[str, int]] = []

    async def scene() -> int:
        Process(stage, noting(ran)).host.listening = True
        await stage.passes(10)
        sent = len(stage.wire.sent)
        await stage.passes(120)
        return len(stage.wire.sent) - sent

    sent = stage.play(scene())
    print(f"an idle replica that listens: {sent / 120:.2f} commands a second")
    assert sent < 120
