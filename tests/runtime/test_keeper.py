"""The keeper: a deadline that ends in time, one id a lease, nothing kept by a loop that is stuck.

The lease is 12 s: the local deadline 11 s after the request, a renewal every 4 s.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from onejob.commands import replicas
from onejob.core import lease as rules
from onejob.core.run import ReplicaId
from onejob.core.time import SECOND
from onejob.runtime.keeper import Keeper
from onejob.runtime.membership import Membership
from runtime.stage import LEASE, LOCAL_START, Stage, Trouble


class Kept:
    """A keeper on a stage, and all it has told."""

    def __init__(self, stage: Stage, **changes: Any) -> None:
        self.stage = stage
        self.joined: list[Membership] = []
        #: Each membership that was lost, why, and the second at which that was said.
        self.lost: list[tuple[ReplicaId, str, float]] = []
        self.hints = 0
        names = (f"{place:03}" for place in count())
        self.keeper = Keeper(
            stage.host(),
            stage.settings(**changes),
            jobs=("report",),
            schedules={},
            clock=stage.clock,
            random=stage.random,
            events=stage.events,
            joined=self.joined.append,
            lost=lambda m: self.lost.append((m.id, m.lost, stage.now)),
            hinted=self._hinted,
            new_id=lambda: ReplicaId(next(names)),
        )
        self.task = stage.begin(self.keeper.keep())

    def _hinted(self) -> None:
        self.hints += 1

    async def passes(self, seconds: int) -> None:
        """Let time go by while the replica's loop beats."""
        for _ in range(seconds):
            self.keeper.beat()
            await self.stage.passes(1)
        self.keeper.beat()

    @property
    def deadlines(self) -> list[float]:
        """The deadlines of all memberships, in seconds since the stage opened."""
        return [(m.deadline - LOCAL_START) / SECOND for m in self.joined]

    def lease_until(self, id: str) -> float:
        """When the store would let others in, in seconds since the stage opened."""
        replica = self.stage.store.tables.replicas[id]
        return (replica.lease_until - self.stage.store_clock.now()) / SECOND + self.stage.now


@pytest.mark.parametrize("there", [0, 3 * SECOND])
def test_the_deadline_counts_from_before_the_request_was_sent(stage: Stage, there: int) -> None:
    """P6: of a request that took 3 s on its way, those 3 s are not believed in."""

    async def scene() -> Kept:
        stage.wire.plan("replica_join", Trouble(there=there, back=SECOND))
        kept = Kept(stage)
        await kept.passes(4)
        return kept

    kept = stage.play(scene())

    assert kept.deadlines == [11.0]
    assert kept.lease_until("000") == there / SECOND + 12


def test_a_renewal_counts_from_before_its_own_request(stage: Stage) -> None:
    async def scene() -> Kept:
        stage.wire.plan("replica_renew", Trouble(there=SECOND, back=SECOND))
        kept = Kept(stage)
        await kept.passes(7)
        return kept

    kept = stage.play(scene())

    assert kept.deadlines == [4.0 + 11]
    assert kept.lease_until("000") == 4 + 1 + 12


def test_a_lease_is_renewed_every_third_of_itself(stage: Stage) -> None:
    async def scene() -> Kept:
        kept = Kept(stage)
        await kept.passes(61)
        return kept

    kept = stage.play(scene())

    assert len(kept.joined) == 1
    assert stage.wire.count("replica_renew") == 15
    assert kept.joined[0].valid(stage.clock.now())


def test_a_failed_renewal_is_tried_again_before_the_deadline(stage: Stage) -> None:
    async def scene() -> Kept:
        stage.wire.plan("replica_renew", Trouble(unsent=True), Trouble(lost=True))
        kept = Kept(stage)
        await kept.passes(9)
        return kept

    kept = stage.play(scene())

    assert kept.lost == []
    assert kept.deadlines[0] > 15
    assert stage.names("store") == ["store.trouble", "store.trouble"]


def test_a_store_that_is_away_past_the_deadline_loses_the_lease_before_the_store_does(
    stage: Stage,
) -> None:
    """P6: everybody here is told at the deadline, a second before another may be let in."""

    async def scene() -> tuple[Kept, float]:
        kept = Kept(stage)
        await kept.passes(1)
        stage.wire.down = True
        until = kept.lease_until("000")
        await kept.passes(14)
        return kept, until

    kept, until = stage.play(scene())

    [(id, why, when)] = kept.lost
    assert (id, why) == ("000", "its replica could not renew its lease in time")
    assert 11.0 <= when < until == 12.0
    assert not kept.joined[0].valid(stage.clock.now())


def test_it_joins_again_under_another_id_when_the_store_is_back(stage: Stage) -> None:
    async def scene() -> Kept:
        kept = Kept(stage)
        await kept.passes(1)
        stage.wire.down = True
        await kept.passes(40)
        stage.wire.down = False
        await kept.passes(8)
        return kept

    kept = stage.play(scene())

    assert kept.joined[0].lost
    assert kept.joined[1].valid(stage.clock.now())
    assert kept.joined[0].id != kept.joined[1].id
    assert 2 < stage.wire.count("replica_join") < 40


def test_a_reply_that_comes_after_the_deadline_does_not_bring_the_lease_back(
    stage: Stage,
) -> None:
    """P6: what everybody here has stopped believing in stays lost, even if the store says yes."""

    async def scene() -> Kept:
        stage.wire.plan("replica_renew", Trouble(back=8 * SECOND))
        kept = Kept(stage)
        await kept.passes(20)
        return kept

    kept = stage.play(scene())

    assert [(id, when) for id, _, when in kept.lost] == [("000", 12.0)]
    assert kept.joined[0].deadline == LOCAL_START + 11 * SECOND
    assert [m.id for m in kept.joined] == ["000", "001"]


def test_a_lost_lease_is_left_to_lapse_so_that_handlers_hear_of_it_first(stage: Stage) -> None:
    """P6: a word to the store would let others in while threads here still believe."""

    async def scene() -> Kept:
        stage.wire.plan("replica_renew", *[Trouble(unsent=True)] * 20)
        kept = Kept(stage)
        await kept.passes(13)
        return kept

    kept = stage.play(scene())

    assert [id for id, _, _ in kept.lost] == ["000"]
    assert stage.wire.count("replica_leave") == 0


def test_a_refused_renewal_loses_at_once_and_joins_under_another_id(stage: Stage) -> None:
    async def scene() -> Kept:
        kept = Kept(stage)
        await kept.passes(1)
        stage.store.run(replicas.judge(now=stage.store_clock.now() + 60 * SECOND))
        await kept.passes(5)
        return kept

    kept = stage.play(scene())

    assert kept.lost == [("000", "another replica declared this one dead", 4.0)]
    assert [m.id for m in kept.joined] == ["000", "001"]
    assert kept.joined[1].valid(stage.clock.now())


def test_a_lost_membership_says_so_before_it_is_told_or_logged(stage: Stage) -> None:
    """Handlers read it from their own threads: no moment in which only the log knows."""
    seen: list[str] = []

    async def scene() -> None:
        kept = Kept(stage)
        stage.events.listen(
            lambda event: seen.append(kept.joined[0].lost) if event.name == "replica.lost" else None
        )
        await kept.passes(1)
        stage.store.run(replicas.judge(now=stage.store_clock.now() + 60 * SECOND))
        await kept.passes(5)

    stage.play(scene())

    assert seen == ["another replica declared this one dead"]


def test_a_loop_that_is_silent_for_three_leases_keeps_the_lease(stage: Stage) -> None:
    """B14."""

    async def scene() -> Kept:
        kept = Kept(stage)
        await kept.passes(1)
        await stage.passes(3 * LEASE / SECOND)
        return kept

    kept = stage.play(scene())

    assert kept.lost == []
    assert kept.joined[0].valid(stage.clock.now())


def test_a_loop_that_is_silent_for_good_loses_the_lease_and_gets_no_new_one(stage: Stage) -> None:
    """A process whose loop is stuck for ever must not keep its runs from the others."""
    limit = rules.stall_limit(LEASE) / SECOND

    async def scene() -> tuple[Kept, int]:
        kept = Kept(stage)
        await kept.passes(1)
        await stage.passes(limit + 60)
        joined = len(kept.joined)
        kept.keeper.beat()
        await kept.passes(5)
        return kept, joined

    kept, joined_while_silent = stage.play(scene())

    [(id, why, when)] = kept.lost
    assert (id, why) == ("000", "its replica's loop has not answered for too long")
    assert limit < when <= 1 + limit + 4
    assert joined_while_silent == 1
    assert [m.id for m in kept.joined] == ["000", "001"]


def test_stopping_leaves_the_fleet_at_once(stage: Stage) -> None:
    """The others need not wait for the lease."""

    async def scene() -> Kept:
        kept = Kept(stage)
        await kept.passes(1)
        kept.keeper.stop()
        await kept.task
        return kept

    stage.play(scene())

    assert stage.now == 1.0
    assert stage.store.tables.replicas["000"].dead_at
    assert stage.names() == ["replica.joined", "replica.left"]


def test_a_hint_is_passed_on(stage: Stage) -> None:
    async def scene() -> Kept:
        kept = Kept(stage)
        await kept.passes(1)
        kept.keeper._host.wake()
        await kept.passes(1)
        return kept

    assert stage.play(scene()).hints == 1


def test_a_renewal_that_is_late_is_told_and_is_no_longer_punctual(stage: Stage) -> None:
    """B14: a third of the lease late, as after a freeze; its holder may not judge for a lease."""

    async def scene() -> Kept:
        stage.wire.plan("replica_renew", Trouble(), Trouble(unsent=True))
        kept = Kept(stage)
        await kept.passes(7)
        assert kept.joined[0].punctual_since == LOCAL_START
        await kept.passes(2)
        return kept

    kept = stage.play(scene())

    assert kept.joined[0].punctual_since == LOCAL_START + 8 * SECOND


def test_a_join_whose_reply_is_lost_leaves_an_id_that_nobody_uses(stage: Stage) -> None:
    async def scene() -> Kept:
        stage.wire.plan("replica_join", Trouble(lost=True))
        kept = Kept(stage)
        await kept.passes(5)
        return kept

    kept = stage.play(scene())

    assert [m.id for m in kept.joined] == ["001"]
    assert set(stage.store.tables.replicas) == {"000", "001"}


def test_a_mistake_that_nobody_foresaw_does_not_end_the_keeper(stage: Stage) -> None:
    """Without it this process would sit there for ever, in nobody's fleet, and say nothing."""

    async def scene() -> Kept:
        stage.wire.plan("replica_renew", Trouble(error=RuntimeError("a driver's own")))
        kept = Kept(stage)
        await kept.passes(20)
        return kept

    kept = stage.play(scene())

    assert not kept.task.done()
    assert kept.joined[-1].valid(stage.clock.now())
    assert "loop.error" in stage.names()
