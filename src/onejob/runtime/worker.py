"""The worker: claim as much as there is room for, execute it, and look again in time.

The next claim is on its way while handlers run. Claims start at a watermark; a full claim, now and
then and whenever there is nothing else to do, finds what lies behind it. A claim whose reply is
lost has been carried out all the same: before the next one, and on a bounded period, what runs
under this replica's id is read and taken on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random

from onejob.commands import overlap, replicas, runs
from onejob.core.run import Claim, ClaimedRun, End, Outcome, Settlement
from onejob.core.solitude import Next, Solitude
from onejob.core.watermark import Watermark, full_probes
from onejob.errors import OutcomeUnknown, StoreError
from onejob.runtime.attempt import Attempt, Executable
from onejob.runtime.clock import Clock
from onejob.runtime.events import Events
from onejob.runtime.executor import Executor
from onejob.runtime.lane import KeeperHost
from onejob.runtime.membership import Membership
from onejob.runtime.settings import Settings
from onejob.runtime.settler import Settler
from onejob.runtime.waker import Waker
from onejob.stores.protocol import AsyncStore

#: The pause after the store could not be reached.
TROUBLE_PAUSE = 500_000
#: What runs under our id is compared with what we hold at least once in so many leases.
RECONCILE_LEASES = 3
#: Whether somebody has cancelled what runs here is asked at most, and at least, once in such spans.
RECALL_PAUSE = 500_000
RECALL_LEASES = 0.25
#: Stop claiming while more settlements than this wait for the store.
BACKLOG_MOST = 2_000


class Worker:
    """Claims and executes for one replica."""

    def __init__(
        self,
        store: AsyncStore,
        host: KeeperHost,
        executables: Mapping[str, Executable],
        settings: Settings,
        *,
        clock: Clock,
        random: Random,
        events: Events,
        look: Callable[[], None],
    ) -> None:
        self._look = look
        self._store, self._host, self._settings = store, host, settings
        self._clock, self._random, self._events = clock, random, events
        self._jobs = tuple(sorted(executables))
        self.waker = Waker(clock)
        self.settler = Settler(store, settings, clock=clock, events=events, settled=self._settled)
        self.executor = Executor(
            executables,
            slots=settings.concurrency,
            clock=clock,
            random=random,
            events=events,
            finished=self._finished,
            freed=self._freed,
        )
        self._watermark = Watermark(settings.queues)
        self._solitude = Solitude(settings.lease)
        self._membership: Membership | None = None
        self._reconcile_at = 0
        self._recall_at = 0
        self._recalled = 0
        self._announced_idle = False
        self._wants_room = False
        self._hinted = False
        self._stopping = False

    def joined(self, membership: Membership) -> None:
        """Work under this membership from now on."""
        self._membership, self._announced_idle = membership, False
        self._reconcile_at = self._clock.now() + RECONCILE_LEASES * self._settings.lease
        self.waker.wake()

    def lost(self, membership: Membership) -> None:
        """Stop everything under a membership that is over."""
        if self._membership is membership:
            self._membership = None
        self.executor.lose(membership)

    def alone(self, due: int) -> None:
        """Hear that a run which has outlived a replica is due at ``due`` (local; 0: none)."""
        self._solitude.announce(due)
        if due:
            self.waker.at(due)

    def hinted(self) -> None:
        """Hear that something has changed in the store: runs to claim now, or due soon."""
        self._hinted = True
        self._recall_at = min(self._recall_at, self._recalled + RECALL_PAUSE)
        if self.executor.held:
            self.waker.at(self._recall_at)
        self.waker.wake()

    def stop(self) -> None:
        """Claim no more. A claim that is on its way is still taken over: it may have been done."""
        self._stopping = True
        self.waker.wake()

    async def serve(self) -> None:
        """Claim until stopped."""
        while not self._stopping:
            membership = self._membership
            if membership is None or not membership.valid(self._clock.now()):
                await self.waker.wait(self._settings.poll)
                continue
            try:
                await self._round(membership)
            except OutcomeUnknown as error:
                self._events.emit("store.trouble", doing="claim", error=str(error))
                self._reconcile_at = 0
            except StoreError as error:
                self._events.emit("store.trouble", doing="claim", error=str(error))
                await self._clock.sleep(self._jittered(TROUBLE_PAUSE))

    async def drain(self, grace: int) -> bool:
        """Stop executing; see :meth:`Executor.drain`. Returns whether work was left."""
        left = await self.executor.drain(grace)
        await asyncio.wait([asyncio.ensure_future(self.settler.flushed())], timeout=5)
        return left

    async def _round(self, membership: Membership) -> None:
        """Claim once, or wait for a reason to."""
        now = self._clock.now()
        if now >= self._reconcile_at:
            await self._reconcile(membership)
        if now >= self._recall_at and self.executor.held:
            await self._recall()
        held = self.executor.held
        match self._solitude.next(now, held=held):
            case Next.ALONE:
                await self._claim_alone(membership)
                return
            case Next.NOTHING:
                await self.waker.wait(self._settings.lease // 4)
                return
            case Next.ANYTHING:
                pass
        room = self.executor.capacity.room(held)
        if room == 0 or len(self.settler) > BACKLOG_MOST:
            self._wants_room = True
            await self.waker.wait(self._settings.poll)
            self._wants_room = False
            return
        probes = self._watermark.probes(now)
        full = probes == full_probes(self._settings.queues)
        got = await self._claim(membership, room, full)
        if got == 0 and full:
            await self._rest(membership)
        elif got == 0:
            # Nothing behind the marks: the next full claim sees whether there is anything at all.
            await self.waker.wait(self._watermark.full_due_at - self._clock.now())

    async def _claim(self, membership: Membership, room: int, full: bool) -> int:
        """Claim up to ``room`` runs; over the lane while there is nothing else to do."""
        sent = self._clock.now()
        command = runs.claim(
            self._watermark.probes(sent) if not full else full_probes(self._settings.queues),
            jobs=self._jobs,
            replica=membership.id,
            limit=room,
        )
        quiet = self.executor.held == 0 and len(self.settler) == 0
        claimed = await (self._host.run(command) if quiet else self._store.run(command))
        self._watermark.claimed(claimed, full=full, wanted=room, sent=sent, now=self._clock.now())
        self._take(claimed, membership)
        if quiet and claimed:
            # The handlers first: the next claim would have the interpreter's lock before them.
            await asyncio.sleep(0)
        if len(claimed) == room and self._announced_idle and room > 1:
            await self._announce(membership, idle=False)
        return len(claimed)

    async def _claim_alone(self, membership: Membership) -> None:
        command = runs.claim_alone(self._settings.queues, jobs=self._jobs, replica=membership.id)
        claimed = await self._host.run(command)
        self._solitude.announce(0)
        if claimed:
            self._solitude.started(self._clock.now())
            self._take(claimed, membership)

    async def _rest(self, membership: Membership) -> None:
        """Nothing to claim: say so, look once more (LISTEN first, then read), then wait."""
        self._watermark.forget()
        if not self._announced_idle:
            await self._announce(membership, idle=True)
            return
        if self._hinted:
            # Not for now, then perhaps for later: a look tells when.
            self._hinted = False
            self._look()
        poll = self._settings.poll
        if self._host.listening:
            poll = max(poll, self._settings.listening_poll)
        await self.waker.wait(poll)

    async def _announce(self, membership: Membership, *, idle: bool) -> None:
        await self._host.run(replicas.idle(membership.id, idle=idle))
        self._announced_idle = idle

    async def _reconcile(self, membership: Membership) -> None:
        """Take on what the store says is ours and nobody here holds.

        Nobody held it before the question either: what was settled while the answer was on its way
        is still in that answer.
        """
        known = set(self.executor.attempts)
        for run in await self._host.run(runs.held(membership.id)):
            if run.id not in known and run.id not in self.executor.attempts:
                self._events.emit("run.found", run=run.id, token=run.token, replica=run.replica)
                self.executor.take(run, membership)
        self._reconcile_at = self._clock.now() + RECONCILE_LEASES * self._settings.lease

    async def _recall(self) -> None:
        """Stop what somebody has cancelled while it ran here; the store refuses it already."""
        held = [attempt.claim for attempt in self.executor.attempts.values()]
        self._recalled = self._clock.now()
        self._recall_at = self._recalled + int(RECALL_LEASES * self._settings.lease)
        self.waker.at(self._recall_at)
        for claim in await self._host.run(overlap.recalled(held)):
            # One that cancelled itself has ended here, and only waits to be forgotten.
            attempt = self.executor.attempts.get(claim.id)
            if attempt is None or attempt.claim != claim or claim in self.settler:
                continue
            self.executor.recall(attempt)
            if attempt.run.deaths:
                self._solitude.ended()

    def _take(self, claimed: tuple[ClaimedRun, ...], membership: Membership) -> None:
        for run in claimed:
            self.executor.take(run, membership)

    def _finished(self, attempt: Attempt, settlement: Settlement) -> None:
        if attempt.run.deaths:
            self._solitude.ended()
            self.waker.wake()
        if attempt.settled:
            if not isinstance(settlement, End) or settlement.outcome is not Outcome.SUCCEEDED:
                # It is complete, and stays so; what its handler did afterwards is told too.
                error = getattr(settlement, "error", None)
                self._events.emit("run.after_completion", run=attempt.run.id, error=error)
            self.executor.settled(attempt.claim)
        else:
            self.settler.add(attempt.claim, settlement)

    def _freed(self) -> None:
        if self._wants_room and self.executor.capacity.room(self.executor.held):
            self.waker.wake()

    def _settled(self, claim: Claim) -> None:
        self.executor.settled(claim)
        if self._wants_room:
            self.waker.wake()

    def _jittered(self, span: int) -> int:
        return int(span * (0.5 + self._random.random()))
