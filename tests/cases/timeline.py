"""Replicas of real Apps on virtual time, over a real store: days pass in milliseconds.

The replicas are production's own, loops and all; the store is a real SQLite file or PostgreSQL
schema, told the virtual time with each command. Handlers must be async: there is one thread.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

from onejob import App, RunInfo
from onejob.commands import schedules
from onejob.commands.command import Command
from onejob.commands.schedules import Schedule
from onejob.core.time import SECOND, Instant, Span, duration, instant, moment
from onejob.errors import StoreError
from onejob.prove.virtual import StoreClock, Strand, VirtualClock, VirtualLoop
from onejob.runtime.events import Event
from onejob.runtime.replica import Replica
from onejob.stores.protocol import Store

T = TypeVar("T")

#: Called with each command before it is carried out (and its replica); may raise a StoreError.
Trouble = Callable[["Simulated", Command[Any]], StoreError | None]


class Timeline:
    """One store and its clock, which stands still until :meth:`to` or :meth:`go` moves it."""

    def __init__(self, store: Store, start: datetime) -> None:
        self.loop = VirtualLoop()
        self.clock = StoreClock(self.loop, start=instant(start, what="start"), drift_ppm=0)
        self.store = store
        self.dialect, self.where = store.dialect, store.where
        self.replicas: list[Simulated] = []
        #: How long a request takes to reach the store.
        self.latency = Span(0)

    def now(self) -> datetime:
        """Return the store's time."""
        return moment(Instant(self.clock.now()))

    def ask(self, command: Command[T]) -> T:
        """Carry a command out at the store's present time."""
        parameters = command.parameters
        if "now" in parameters:
            command = replace(command, parameters={**parameters, "now": self.clock.now()})
        return self.store.run(command)

    def go(self, span: str | float | timedelta) -> None:
        """Let time pass."""
        self.loop.run_until_complete(asyncio.sleep(duration(span, what="span") / SECOND))
        assert not self.loop.troubles, self.loop.troubles

    def to(self, at: datetime) -> None:
        """Let time pass until an instant of the store's clock."""
        self.go(timedelta(microseconds=instant(at, what="at") - self.clock.now()))

    def replica(self, app: App, **options: Any) -> Simulated:
        """Start a replica of an App over this store."""
        simulated = Simulated(self, app, **options)
        self.replicas.append(simulated)
        return simulated

    def fleet(self, make: Callable[[], App], count: int, **options: Any) -> list[Simulated]:
        """Start so many replicas, each with an App of its own."""
        return [self.replica(make(), **options) for _ in range(count)]

    def told(self) -> Counter[str]:
        """Count the events of every replica, by name."""
        return sum((replica.told for replica in self.replicas), Counter[str]())

    def schedule(self, name: str) -> Schedule:
        """Read a schedule as the store has it."""
        [schedule] = self.ask(schedules.read([name])).schedules
        return schedule

    def close(self) -> None:
        """End every replica where it stands."""
        self.loop.end()


class Simulated:
    """One process of the fleet: its loop and its keeper, each a strand that can be stopped."""

    def __init__(
        self,
        timeline: Timeline,
        app: App,
        *,
        drift_ppm: int = 0,
        trouble: Trouble = lambda replica, command: None,
    ) -> None:
        self.timeline, self.app, self._trouble = timeline, app, trouble
        self.main = Strand(timeline.loop, "main")
        self.keeper = Strand(timeline.loop, "keeper")
        self.clock = VirtualClock(timeline.loop, start=7 * SECOND, drift_ppm=drift_ppm)
        self.events: list[Event] = []
        self.replica: Replica | None = None
        #: What ``serve`` returned: whether work was left. None while it serves.
        self.left: bool | None = None
        self.dialect, self.where = timeline.dialect, timeline.where
        app.events.listen(self.events.append)
        self.main.start(self._live())

    @property
    def told(self) -> Counter[str]:
        """Count what this replica's events were, by name."""
        return Counter(event.name for event in self.events)

    def kill(self) -> None:
        """End it as SIGKILL does."""
        self.main.die()
        self.keeper.die()

    def freeze(self) -> None:
        """Stop it as SIGSTOP does."""
        self.main.freeze()
        self.keeper.freeze()

    def thaw(self) -> None:
        """Let it go on as SIGCONT does."""
        self.main.thaw()
        self.keeper.thaw()

    def stop(self) -> None:
        """Drain it as SIGTERM does."""
        assert self.replica is not None
        self.timeline.loop.call_soon(self.replica.stop, context=self.main.context)

    async def run(self, command: Command[T], within: object = None) -> T:
        """Carry out a command as this process's store."""
        await asyncio.sleep(self.timeline.latency / SECOND)
        if (error := self._trouble(self, command)) is not None:
            raise error
        return self.timeline.ask(command)

    async def _live(self) -> None:
        app = self.app
        services = app._services()
        known = {"default", *(job.options.queue for job in app.jobs.values())}
        settings = replace(app._settings, host="virtual", pid=1, queues=tuple(sorted(known)))
        self.replica = Replica(
            self,
            LoopHost(self),
            {name: job.handler(services, app._zones) for name, job in app.jobs.items()},
            tuple(app._declared.values()),
            settings,
            events=app.events,
            clock=self.clock,
            random=Random(len(self.timeline.replicas)),
        )
        self.left = await self.replica.serve()


class LoopHost:
    """A keeper's place in the same loop, on a strand of its own. It hears no hints."""

    listening = False

    def __init__(self, process: Simulated) -> None:
        self._process, self._loop = process, process.timeline.loop
        self._woken, self._over = asyncio.Event(), asyncio.Event()

    def start(self, keep: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            await keep()
            self._over.set()

        self._process.keeper.start(main())

    async def own(self, command: Command[T]) -> T:
        return await self._process.run(command)

    async def run(self, command: Command[T]) -> T:
        asked = self._loop.create_task(self.own(command), context=self._process.keeper.context)
        return await asked

    async def pause(self, span: int) -> bool:
        try:
            await asyncio.wait_for(self._woken.wait(), max(0, span) / SECOND)
        except TimeoutError:
            pass
        self._woken.clear()
        return False

    def wake(self) -> None:
        self._woken.set()

    def tell(self, call: Callable[..., None], *arguments: object) -> None:
        self._loop.call_soon(call, *arguments, context=self._process.main.context)

    async def ended(self) -> None:
        await self._over.wait()


def fire_times(runs: Iterable[RunInfo]) -> list[str]:
    """Return the fire times of runs in their order, as short text in UTC."""
    times = sorted(run.fire_time for run in runs if run.fire_time is not None)
    return [f"{at:%m-%dT%H:%M:%SZ}" for at in times]
