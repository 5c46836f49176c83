"""A simulated process: a production replica with its two threads, its clock and its ways to die."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from onejob.core.time import SECOND, Span
from onejob.prove.diary import Diary
from onejob.prove.host import SimHost
from onejob.prove.provider import Provider
from onejob.prove.server import Link, Server
from onejob.prove.virtual import Strand, VirtualClock, VirtualLoop
from onejob.prove.workload import Job, Scene, SimJob, Workload
from onejob.runtime.attempt import Attempt
from onejob.runtime.events import Events
from onejob.runtime.replica import Replica
from onejob.runtime.settings import Settings

#: How long a crashed process takes to be started again.
RESTART_SPAN = 1 * SECOND


class Process:
    """One place in the fleet (``a``, ``b`` …), and the replica that lives there now."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        server: Server,
        provider: Provider,
        workloads: Sequence[Workload],
        *,
        lease: int,
        seed: int,
        drift_ppm: int,
        concurrency: int,
        listens: bool,
        version: int,
        versioned: bool,
        diary: Diary,
    ) -> None:
        self.name, self.version, self._versioned = name, version, versioned
        self._loop, self._server, self._provider = loop, server, provider
        self._workloads, self._lease, self._diary = workloads, lease, diary
        self._concurrency, self._listens = concurrency, listens
        self._random = Random(f"process {seed} {name}")
        start = self._random.randrange(10**12)
        self._clock = VirtualClock(loop, start=start, drift_ppm=drift_ppm)
        self._replica: Replica | None = None
        self._host: SimHost | None = None
        self._main: Strand | None = None
        self._keeper: Strand | None = None
        self._births = 0
        self._parted_until = 0
        self._graves: list[object] = []

    def start(self) -> None:
        """Start a new replica here."""
        self._births += 1
        label = f"{self.name}{self._births}"
        self._main = Strand(self._loop, f"{label} main")
        self._keeper = Strand(self._loop, f"{label} keeper")
        self._main.start(self._live(self._main, self._keeper))

    async def _live(self, main: Strand, keeper: Strand) -> None:
        events = Events()
        events.listen(self._diary.event)
        patience = self._lease // 3
        lane = self._server.store.lane(patience=Span(patience))
        self._host = SimHost(
            self._loop,
            self._server,
            self._link(main, patience=patience),
            lane,
            keeper=keeper,
            others=main,
            listens=self._listens,
        )
        link = self._link(main)
        settings = Settings(
            name=self.name,
            host="simulated",
            pid=self._births,
            version=str(self.version) if self._versioned else "",
            lease=Span(self._lease),
            poll=Span(SECOND),
            listening_poll=Span(3 * SECOND),
            grace=Span(2 * SECOND),
            concurrency=self._concurrency,
        )
        declared = [d for w in self._workloads for d in w.schedules(self.version)]
        replica = Replica(
            link,
            self._host,
            self._executables(link, events),
            declared,
            settings,
            events=events,
            clock=self._clock,
            random=self._random,
        )
        self._replica = replica
        await replica.serve()
        if self._main is main:
            # The process ends, and with it whatever handlers did not end in time.
            main.die()
            keeper.die()
            self._bury()
            self._loop.later(RESTART_SPAN, self.ensure)

    def _executables(self, link: Link, events: Events) -> Mapping[str, SimJob]:
        def scene(attempt: Attempt, args: Mapping[str, Any]) -> Scene:
            return Scene(
                attempt, args, link, self, self._provider, self._diary, events, self._lease
            )

        def executable(job: Job) -> SimJob:
            return SimJob(job.name, job.handler, scene, job.retry, job.timeout)

        jobs = [job for workload in self._workloads for job in workload.jobs()]
        return {job.name: executable(job) for job in jobs if self.version in job.versions}

    @property
    def alive(self) -> bool:
        """Tell whether a replica lives here now."""
        return self._main is not None

    def believes(self, replica: str) -> bool:
        """Tell whether the replica of this id lives here and trusts its lease."""
        membership = self._replica.membership if self._replica else None
        if membership is None or membership.id != replica:
            return False
        return membership.valid(self._clock.now())

    def crash(self) -> None:
        """End without a word; it is started again a little later."""
        if self._main is None or self._keeper is None:
            return
        self._diary.died(self.name)
        self._main.die()
        self._keeper.die()
        self._bury()
        self._loop.later(RESTART_SPAN, self.ensure)

    def part(self, span: int) -> None:
        """Lose the way to the store for ``span``; everything else goes on."""
        self._parted_until = max(self._parted_until, self._loop.micros + span)

    def _link(self, main: Strand, *, patience: int = 0) -> Link:
        return Link(
            self._server,
            self.name,
            crash=self._crasher(main),
            parted=lambda: self._loop.micros < self._parted_until,
            patience=patience,
        )

    def _crasher(self, main: Strand) -> Callable[[], None]:
        def crash() -> None:
            if self._main is main:
                self.crash()

        return crash

    def _bury(self) -> None:
        # Kept until the end: a coroutine that is collected runs its last lines at a random moment.
        self._graves += [self._replica, self._host]
        if self._host is not None:
            self._host.close()
        self._replica = self._host = self._main = self._keeper = None

    def ensure(self) -> None:
        """Start a replica unless one lives here."""
        if not self.alive:
            self.start()

    async def block(self, span: int) -> None:
        """Keep the main thread busy for ``span``."""
        if self._main is None:
            return
        busy: asyncio.Future[None] = self._loop.create_future()

        def done() -> None:
            if not busy.done():
                busy.set_result(None)

        self.freeze(span, keeper=False, then=done)
        await busy

    def freeze(
        self, span: int, *, keeper: bool = True, then: Callable[[], Any] = lambda: None
    ) -> None:
        """Take no turns for ``span`` while time goes on."""
        strands = [s for s in (self._main, self._keeper if keeper else None) if s]
        for strand in strands:
            strand.freeze()

        def thaw() -> None:
            then()
            for strand in strands:
                strand.thaw()

        self._loop.later(span, thaw)

    def suspend(self, span: int) -> None:
        """Close the lid for ``span``: no turns, and no timer moves."""
        strands = [s for s in (self._main, self._keeper) if s]
        for strand in strands:
            strand.suspend()

        def resume() -> None:
            for strand in strands:
                strand.resume(span)

        self._loop.later(span, resume)

    def redeploy(self, version: int) -> None:
        """Stop in order, and start again with another version of the code."""
        self.version = version
        if self._replica is not None:
            self._replica.stop()
