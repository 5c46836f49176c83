"""One play: a fleet, its store, its clients and everything that goes wrong, in one thread.

1. Chaos: clients order, processes work, faults happen.
2. Calm: faults cease, every process lives; the play ends when everything has ended, or when the
   stated bound is over.
3. The store is read once more, as it stands.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from onejob.commands import runs, views
from onejob.core.time import SECOND
from onejob.errors import StoreError
from onejob.prove.diary import Diary
from onejob.prove.faults import Ill, Mix, Plan, TimedFault
from onejob.prove.history import (
    Calm,
    Down,
    EffectStood,
    History,
    ScheduleStood,
    Stepped,
    Stood,
)
from onejob.prove.observe import Observer
from onejob.prove.process import Process
from onejob.prove.provider import Provider
from onejob.prove.server import Link, Server
from onejob.prove.verdict import Verdict, valid, violated
from onejob.prove.virtual import Deadlock, Livelock, StoreClock, VirtualLoop
from onejob.prove.workload import QUICK, Order, Workload
from onejob.stores.protocol import Store

#: The store's clock when a play begins: in May 2026.
STARTS: Final = 1_780_000_000 * SECOND

#: How often a client asks again until it has an answer.
ASKS_MOST: Final = 8
_ALL: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Setting:
    """The size of a play. Spans in microseconds."""

    processes: tuple[str, ...] = ("a", "b", "c")
    lease: int = 4 * SECOND
    chaos: int = 30 * SECOND
    concurrency: int = 4
    listens: bool = True
    versioned: bool = False


class World:
    """Everything of one play. ``store`` is made on the play's own clock."""

    def __init__(
        self,
        seed: int,
        setting: Setting,
        mix: Mix,
        plan: Plan,
        workloads: Sequence[Workload],
        make_store: Callable[[Callable[[], int]], Store],
    ) -> None:
        self.loop = VirtualLoop()
        self.history = History()
        self._seed, self._setting, self._plan = seed, setting, plan
        self._workloads = workloads
        random = self._random = Random(f"world {seed}")
        drift, versions = mix.drift_ppm, random.choice(((1,), (2,), (1, 2)))
        self._clock = StoreClock(
            self.loop, start=STARTS, drift_ppm=random.choice((-drift, 0, drift))
        )
        self.store = make_store(self._clock.now)
        observer = Observer(
            self.history, self.loop, self.store, self._clock, believes=self._believes
        )
        self.server = Server(self.loop, self.store, self._clock, plan, observer)
        provider = Provider(self.loop, self.history)
        diary = Diary(self.loop, self.history)
        self.events = diary.events
        self._processes = {
            name: Process(
                name,
                self.loop,
                self.server,
                provider,
                workloads,
                lease=setting.lease,
                seed=seed,
                drift_ppm=random.choice((-drift, 0, drift)),
                concurrency=setting.concurrency,
                listens=setting.listens,
                version=random.choice(versions),
                versioned=setting.versioned,
                diary=diary,
            )
            for name in setting.processes
        }
        self._clients: list[asyncio.Task[None]] = []

    def play(self) -> None:
        """Play from beginning to end."""
        # Collecting a coroutine of a dead process runs its last lines, at a moment of chance.
        collecting = gc.isenabled()
        gc.disable()
        try:
            self.loop.run_until_complete(self._main())
        except (Deadlock, Livelock) as error:
            self.loop.troubles.append({"message": "the play stopped", "exception": error})
        finally:
            self.loop.end()
            self.store.close()
            if collecting:
                gc.enable()

    def troubles(self) -> tuple[Verdict, ...]:
        """Say which errors nobody caught, and which loops failed in a way nobody foresaw."""
        found = [
            violated("no loop fails", f"{context.get('message')}: {context.get('exception')!r}", 0)
            for context in self.loop.troubles
            if not isinstance(context.get("future"), asyncio.Future)
            or isinstance(context.get("future"), asyncio.Task)
        ]
        found += [
            violated("no loop fails", f"{event}: {self.events[event]} times", 0)
            for event in ("loop.error", "handler.broken")
            if self.events[event]
        ]
        return tuple(found[:3]) or (valid("no loop fails"),)

    def _believes(self, replica: str) -> bool:
        return any(process.believes(replica) for process in self._processes.values())

    async def _main(self) -> None:
        for process in self._processes.values():
            self.loop.later(self._random.randrange(SECOND), process.start)
        for fault in self._plan.timed:
            self.loop.later(fault.at, self._happen, fault)
        orders: list[Order] = []
        for workload in self._workloads:
            random = Random(f"{workload.name} {self._seed}")
            setting = self._setting
            orders += workload.orders(random, chaos=setting.chaos, lease=setting.lease)
        self._clients = [self.loop.create_task(self._client(n, o)) for n, o in enumerate(orders)]
        await asyncio.sleep(self._setting.chaos / SECOND)
        bound = await self._calm(orders)
        deadline = self.loop.micros + bound + self._setting.lease
        while self.loop.micros < deadline and not self._ended():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(1.0)
        self._look()

    async def _calm(self, orders: Sequence[Order]) -> int:
        """Let faults cease; return within what everything that is due then must end."""
        lease = self._setting.lease
        # What has begun comes to its end first: pauses, outages, requests on their way.
        self._plan.over = True
        lasting = [fault for fault in self._plan.timed if fault.ill is not Ill.CLOCK]
        longest = max((fault.at + fault.span for fault in lasting), default=0)
        await asyncio.sleep(max(0, longest - self.loop.micros) / SECOND)
        for process in self._processes.values():
            process.ensure()
        # The longest handler of the workloads, and the longest hold, are two leases.
        await asyncio.sleep(2 * lease / SECOND)
        poisoned = sum(order.run.job == "poison" for order in orders)
        # One slot of one process could do all of it in so long.
        work = sum(map(_longest, orders))
        bound = (10 + 12 * poisoned) * lease + 40 * SECOND + work
        self.history.add(Calm(self.loop.micros, self._clock.now(), bound))
        return bound

    async def _client(self, number: int, order: Order) -> None:
        """Ask until answered, as clients do who have named what they want."""
        link = Link(self.server, f"client {number}", crash=lambda: None)
        await asyncio.sleep(order.at / SECOND)
        now = None
        if order.open_for:
            # The statement's time stays, the row is seen only after the commit.
            now = self._clock.now()
            await asyncio.sleep(order.open_for / SECOND)
        for _ in range(ASKS_MOST):
            try:
                await asyncio.wait_for(link.run(runs.enqueue([order.run], now=now)), 30)
            except (StoreError, TimeoutError):
                if not order.run.keyed:
                    return
                await asyncio.sleep(0.5)
            else:
                return

    def _happen(self, fault: TimedFault) -> None:
        self._plan.happens(fault)
        process = self._processes.get(fault.process)
        match fault.ill:
            case Ill.OUTAGE:
                self.server.go_down(fault.span)
                self.loop.later(fault.span, self._come_up)
            case Ill.CLOCK:
                self._clock.offset += fault.span
                self.history.add(Stepped(self.loop.micros, fault.span))
            case Ill.CRASHED if process:
                process.crash()
            case Ill.PAUSED if process:
                process.freeze(fault.span)
            case Ill.BLOCKED if process:
                process.freeze(fault.span, keeper=False)
            case Ill.PARTED if process:
                process.part(fault.span)
            case Ill.SUSPENDED if process:
                process.suspend(fault.span)
            case Ill.REDEPLOYED if process:
                process.redeploy(3 - process.version)
            case _:
                pass

    def _come_up(self) -> None:
        if span := self.server.outage:
            self.history.add(Down(self.loop.micros, span))

    def _ended(self) -> bool:
        """Tell whether nothing is left but what no schedule made and what waits with a reason."""
        if not all(client.done() for client in self._clients):
            return False
        known = self._known()
        return not any(
            run.state in ("scheduled", "running") or (run.state == "parked" and run.job in known)
            for run in self.store.run(views.runs(limit=_ALL))
            if not run.schedule
        )

    def _known(self) -> set[str]:
        """Return the jobs that somebody who lives can execute."""
        versions = {process.version for process in self._processes.values() if process.alive}
        return {
            job.name
            for workload in self._workloads
            for job in workload.jobs()
            if versions & set(job.versions)
        }

    def _look(self) -> None:
        """Read how everything stands."""
        at, now = self.loop.micros, self._clock.now()
        known = self._known()
        seen: set[int] = set()
        for run in self.store.run(views.runs(limit=_ALL)):
            if run.id in seen:
                continue  # an earlier end of a run that was brought back
            seen.add(run.id)
            self.history.add(
                Stood(at, run.id, run.job, run.state, run.due, run.outcome or "", run.job in known)
            )
        for made in sorted(seen):
            for effect in self.store.run(views.effects_of(made)):
                if effect.scope != "applied":
                    self.history.add(EffectStood(at, effect.scope, effect.key, made, effect.state))
        told = Counter(
            event.schedule
            for event in self.store.run(views.events(limit=_ALL))
            if event.kind == "tick.missed"
        )
        # A definition whose only replica has lapsed and is not judged yet holds its schedule up:
        # judges must first have looked soundly for a lease, and were suspended again and again.
        judged = all(r.dead_at or r.lease_until > r.now for r in self.store.run(views.replicas()))
        for schedule in self.store.run(views.schedules()):
            name, last, next_fire = schedule.name, schedule.last, schedule.next_fire
            owed = judged and (schedule.declared > 0 or not self._setting.versioned)
            self.history.add(ScheduleStood(at, name, last, next_fire, told[name], now, owed))


def _longest(order: Order) -> int:
    """Return how long all attempts of an order may keep a slot."""
    args = json.loads(order.run.args)
    once = sum(args.get(name, 0) for name in ("sleep", "block", "hold"))
    return int(once * max(1, args.get("steps", 1)) * QUICK.attempts)
