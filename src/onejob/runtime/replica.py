"""A replica: all its loops put together, from joining the fleet to leaving it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from random import Random
from typing import Any

from onejob.runtime.attempt import Executable
from onejob.runtime.clock import Clock, SystemClock
from onejob.runtime.events import Events, log
from onejob.runtime.keeper import Keeper
from onejob.runtime.lane import KeeperHost
from onejob.runtime.membership import Membership
from onejob.runtime.scheduler import Scheduler
from onejob.runtime.settings import Declared, Settings, Target
from onejob.runtime.sweeper import Outlook, Sweeper
from onejob.runtime.worker import Worker
from onejob.stores.protocol import AsyncStore

#: How often the loop says that it is alive.
BEAT = 1_000_000
#: How long a stopping replica waits for the answer to its last claim.
CLAIM_SECONDS = 5
#: A loop that failed for a reason nobody foresaw is started again after this long.
RESTART_PAUSE = 1_000_000


class Replica:
    """One process of the fleet. Make it inside the loop that will serve it."""

    def __init__(
        self,
        store: AsyncStore,
        host: KeeperHost,
        executables: Mapping[str, Executable],
        declared: Sequence[Declared],
        settings: Settings,
        *,
        events: Events,
        clock: Clock | None = None,
        random: Random | None = None,
        targets: Mapping[str, Target] | None = None,
        wall: Callable[[], int] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._settings, self._events = settings, events
        self._clock = clock or SystemClock()
        random = random or Random()
        self._host = host
        #: Set once this process has joined the fleet. Safe to wait for in any thread.
        self.ready = threading.Event()
        self.membership: Membership | None = None
        self._stopping = asyncio.Event()
        schedules = {d.name: d.definition for d in declared} if settings.schedule else {}
        jobs = tuple(sorted(executables)) if settings.work else ()
        targets = dict(targets or {}) if settings.schedule else {}
        self._worker = Worker(
            store,
            host,
            executables,
            settings,
            clock=self._clock,
            random=random,
            events=events,
            look=lambda: self._sweeper.waker.wake(),
        )
        self._scheduler = Scheduler(
            host,
            declared if settings.schedule else (),
            settings,
            clock=self._clock,
            events=events,
            fired=self._worker.waker.wake,
            targets=targets,
            random=random,
            asked=lambda: self._sweeper.waker.wake(),
            wall=wall,
        )
        self._sweeper = Sweeper(
            host,
            settings,
            jobs=jobs,
            schedules=tuple(schedules),
            ticks=tuple(sorted(targets)),
            clock=self._clock,
            random=random,
            events=events,
            outlook=self._outlook,
            released=self._worker.hinted,
        )
        self._keeper = Keeper(
            host,
            settings,
            jobs=jobs,
            schedules=schedules,
            ticks=tuple(sorted(targets)),
            clock=self._clock,
            random=random,
            events=events,
            joined=self._joined,
            lost=self._lost,
            hinted=self._worker.hinted,
        )

    def stop(self) -> None:
        """Begin the drain. Safe from any thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)

    def wake(self) -> None:
        """Say that there may be work. Safe from any thread."""
        self._loop.call_soon_threadsafe(self._worker.hinted)

    async def serve(self) -> bool:
        """Work until stopped; return whether work was left unfinished.

        Stopping, in order: claim and tick no more, let handlers finish for the grace period, give
        back what is left, write the last settlements, leave the fleet.
        """
        self._host.start(self._keeper.keep)
        settling = asyncio.create_task(self._kept_up("settler", self._worker.settler.serve))
        beating = asyncio.create_task(self._kept_up("beat", self._beat))
        loops = [
            asyncio.create_task(self._kept_up("sweeper", self._sweeper.serve)),
            asyncio.create_task(self._kept_up("scheduler", self._scheduler.serve)),
        ]
        working = asyncio.create_task(self._kept_up("worker", self._work))
        try:
            await self._stopping.wait()
        finally:
            self._worker.stop()
            await asyncio.wait([working], timeout=CLAIM_SECONDS)
            await _cancelled([*loops, working])
            left = await self._worker.drain(self._settings.grace)
            await _cancelled([settling])
            self._keeper.stop()
            await self._host.ended()
            await _cancelled([beating])
        return left

    async def _work(self) -> None:
        if self._settings.work:
            await self._worker.serve()

    async def _beat(self) -> None:
        """Say that this loop lives, and see to it that a lease over its time is over here too.

        The keeper tells when it is lost, but a keeper may itself be held up; its word comes first
        only where it is in time.
        """
        while True:
            self._keeper.beat()
            pause = BEAT
            membership = self.membership
            if membership is not None and not membership.lost:
                left = membership.deadline - self._clock.now()
                if left <= 0:
                    membership.lost = "its replica could not renew its lease in time"
                    self._lost(membership)
                else:
                    pause = min(BEAT, left)
            await self._clock.sleep(pause)

    async def _kept_up(self, name: str, serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a loop, and start it again should it fail for a reason nobody foresaw."""
        while True:
            try:
                await serve()
            except Exception as error:  # noqa: BLE001 - a loop's edge: told, and started again
                log.exception("the %s loop failed and is started again", name)
                self._events.emit("loop.error", loop=name, error=f"{type(error).__name__}: {error}")
                await self._clock.sleep(RESTART_PAUSE)
            else:
                return

    def _joined(self, membership: Membership) -> None:
        self.membership = membership
        self._worker.joined(membership)
        self._scheduler.joined(membership)
        self._sweeper.joined(membership)
        self.ready.set()

    def _lost(self, membership: Membership) -> None:
        if self.membership is membership:
            self.membership = None
            self._worker.lost(membership)

    def _outlook(self, outlook: Outlook) -> None:
        self._worker.alone(outlook.alone)
        if outlook.next_due:
            self._worker.waker.at(outlook.next_due)
        if outlook.next_fire:
            self._scheduler.next_fire(outlook.next_fire)


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
