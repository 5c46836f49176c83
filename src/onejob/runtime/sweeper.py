"""The sweeper: look at the fleet, give back what dead replicas held, and keep the store small.

Any replica sweeps, none is the leader. Judging is guarded twice: by this replica's own soundness
(``core.lease.may_judge``) and by the store, where a lease that was renewed meanwhile is not lapsed.
What is given back is guarded by (id, token, replica) like every other way out of *running*, so two
sweepers, or a sweeper and a late completion, cannot both get through. One look serves all the
loops here: it also tells when the next run and the next fire time are due.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from onejob.commands import events as told
from onejob.commands import fences, leases, ledger, overlap, replicas, runs
from onejob.core import lease as rules
from onejob.core.hold import KEEP_UNUSED
from onejob.core.lease import Look
from onejob.core.retry import Bury, GiveBack, Settle, after_death
from onejob.core.run import Again, Claim, End, LeaveUnknown, Outcome, Settlement
from onejob.errors import StoreError
from onejob.runtime.clock import Clock
from onejob.runtime.events import Events
from onejob.runtime.lane import KeeperHost
from onejob.runtime.membership import Membership
from onejob.runtime.settings import Settings
from onejob.runtime.waker import Waker

#: Most runs given back, and most rows purged, in one command.
BATCH = 500
#: Look this long after the first lease ends that nobody has renewed.
LAPSE_SLACK = 20_000
#: Purge once in so many leases.
PURGE_LEASES = 5


@dataclass(frozen=True, slots=True)
class Outlook:
    """What lies ahead, on the local clock; 0 means nothing."""

    alone: int
    next_due: int
    next_fire: int


class Sweeper:
    """Looks, judges, gives back and purges for one replica."""

    def __init__(
        self,
        host: KeeperHost,
        settings: Settings,
        *,
        jobs: tuple[str, ...],
        schedules: tuple[str, ...],
        ticks: tuple[str, ...] = (),
        clock: Clock,
        random: Random,
        events: Events,
        outlook: Callable[[Outlook], None],
        released: Callable[[], None],
    ) -> None:
        self._host, self._settings = host, settings
        self._jobs, self._schedules, self._ticks = jobs, schedules, ticks
        self._clock, self._random, self._events = clock, random, events
        self._outlook, self._released = outlook, released
        self._membership: Membership | None = None
        self._previous: Look | None = None
        self._looking_since = clock.now()
        self._purge_at = clock.now() + int(PURGE_LEASES * settings.lease * random.random())
        self.waker = Waker(clock)

    def joined(self, membership: Membership) -> None:
        """Sweep under this membership."""
        self._membership = membership
        self.waker.wake()

    async def serve(self) -> None:
        """Look until cancelled."""
        while True:
            # Not all at the same moment; what lapses sooner is looked at when it does.
            usual = rules.sweep_every(self._settings.lease)
            pause = int(usual * (1 + 0.25 * self._random.random()))
            membership = self._membership
            if membership is not None and membership.valid(self._clock.now()):
                try:
                    pause = min(pause, await self._sweep(membership))
                except StoreError as error:
                    self._previous = None
                    self._events.emit("store.trouble", doing="sweep", error=str(error))
            await self.waker.wait(pause)

    async def _sweep(self, membership: Membership) -> int:
        """Look once, do what there is to do, and return how long to wait."""
        asked = replicas.look(
            jobs=self._jobs,
            queues=self._settings.queues,
            schedules=self._schedules,
            ticks=self._ticks,
        )
        view = await self._host.run(asked)
        now = self._clock.now()
        self._note(Look(view.now, now))
        due_alone = self._local(view.alone, view.now, now)
        if view.lapsed and self._may_judge(membership, now):
            for id in await self._host.run(replicas.judge()):
                self._events.emit("replica.judged", replica=id, by=membership.id)
            view = await self._host.run(asked)
        if view.lost:
            due_alone = await self._give_back(due_alone)
        if view.unknown and await self._host.run(runs.park_unknown()):
            self._events.emit("run.parked", count=view.unknown)
        if view.parked and await self._host.run(runs.unpark(self._jobs)):
            self._released()
        if view.cancels:
            await self._cancel()
        if view.freed and await self._host.run(overlap.release()):
            self._released()
        if view.late:
            await self._tell_late()
        if now >= self._purge_at:
            await self._purge(view.now)
        self._outlook(
            Outlook(
                due_alone,
                self._local(view.next_due, view.now, now),
                self._local(view.next_fire, view.now, now),
            )
        )
        if view.lapsed and not self._may_judge(membership, now):
            return rules.sweep_every(self._settings.lease)
        next_lapse = self._local(view.next_lapse, view.now, now)
        return (
            max(LAPSE_SLACK, next_lapse - now + LAPSE_SLACK) if next_lapse else self._settings.lease
        )

    def _note(self, look: Look) -> None:
        if not rules.sound(self._previous, look, lease=self._settings.lease):
            self._looking_since = look.local
        self._previous = look

    def _may_judge(self, membership: Membership, now: int) -> bool:
        return rules.may_judge(
            looking_since=self._looking_since,
            renewing_since=membership.punctual_since,
            now=now,
            lease=self._settings.lease,
        )

    async def _give_back(self, due_alone: int) -> int:
        """Give back every run whose replica is gone; return when the first of them is due here."""
        batch: list[tuple[Claim, Settlement]] = []
        for lost in await self._host.run(replicas.lost(limit=BATCH)):
            settlement = self._after_death(lost)
            batch.append((lost.claim, settlement))
        answer = await self._host.run(runs.settle(batch, keep=self._settings.keep))
        done = set(answer)
        now = self._clock.now()
        for claim, settlement in batch:
            if claim not in done:
                continue
            self._events.emit(
                "run.abandoned", run=claim.id, token=claim.token, replica=claim.replica
            )
            if isinstance(settlement, Again):
                due = now + settlement.delay
                due_alone = min(due_alone, due) if due_alone else due
        return due_alone

    def _after_death(self, lost: replicas.Lost) -> Settlement:
        why = f"replica {lost.claim.replica} died, or lost its lease, during attempt {lost.attempt}"
        decision = after_death(
            deaths=lost.deaths + 1, on_loss=lost.on_loss, jitter=self._random.random()
        )
        match decision:
            case GiveBack(delay):
                return Again(delay, Outcome.ABANDONED, why)
            case Bury(reason):
                return End(Outcome.ABANDONED, error=f"{why}: {reason}")
            case Settle():
                return LeaveUnknown(why, lost=True)

    async def _cancel(self) -> None:
        """Carry out what somebody has asked for; a locked row keeps its request for later."""
        asked = await self._host.run(overlap.asked(limit=BATCH))
        for id in await self._host.run(overlap.cancel(asked, keep=self._settings.keep)):
            self._events.emit("run.cancelled", run=id)
        self._released()

    async def _tell_late(self) -> None:
        for late in await self._host.run(overlap.late(limit=BATCH)):
            self._events.emit("run.late", run=late.id, job=late.job, key=late.key, state=late.state)

    async def _purge(self, store_now: int) -> None:
        lease = self._settings.lease
        self._purge_at = self._clock.now() + int(
            PURGE_LEASES * lease * (0.5 + self._random.random())
        )
        for command in (
            runs.purge(limit=BATCH),
            ledger.purge(limit=BATCH),
            told.purge(before=store_now - self._settings.keep, limit=BATCH),
            replicas.forget(before=store_now - self._settings.keep, limit=BATCH),
            leases.purge(unused=KEEP_UNUSED, limit=BATCH),
            fences.purge(unused=self._settings.keep_effects, limit=BATCH),
        ):
            if await self._host.run(command) >= BATCH:
                self._purge_at = self._clock.now() + lease // 4

    @staticmethod
    def _local(at: int, store_now: int, now: int) -> int:
        """Translate an instant of the store's clock into the local clock; 0 stays 0."""
        return now + at - store_now if at else 0
