"""The scheduler: tick what this code declares, and what was put as data for its jobs.

Any number of replicas do it.

1. Declare what the code says (``declarer.py``).
2. Sleep towards the next fire time; being early or late changes nothing but lateness.
3. Tick: read what is due *by the store's clock*, decide by ``core.schedule``, write with a
   compare-and-set on the revision that was read. Whoever loses the race writes nothing.

A tick is one command: the runs are made and the schedule moves on together, or neither does, so
there is no moment between the two at which a scheduler could die.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from random import Random

from onejob.commands import missed, schedules
from onejob.commands.schedules import Fire, LostTick, Schedule, Step
from onejob.core.keys import fire_key
from onejob.core.policy import Policy, policy_restored
from onejob.core.schedule import Advance, advance, stable_jitter
from onejob.core.time import SECOND, Instant, text
from onejob.core.timing import Timing, restored
from onejob.errors import StoreError
from onejob.runtime.clock import Clock
from onejob.runtime.declarer import Declarer
from onejob.runtime.events import Events
from onejob.runtime.lane import KeeperHost
from onejob.runtime.membership import Membership
from onejob.runtime.settings import Declared, Settings, Target
from onejob.runtime.waker import Waker
from onejob.stores.protocol import AsyncStore

#: Most schedules advanced in one command.
BATCH = 300
#: Where more than a batch is due, each scheduler begins at one of so many places, to meet no other.
PLACES = 12
#: Most batches in one go; what is left is due at the next.
BATCHES_MOST = 200
#: Fire times lost to others that are recorded after one tick, at the most.
LOST_TOLD = 20
#: With every definition ours, look at them again once in so many leases.
DECLARE_LEASES = 10
#: The pause after the store could not be reached.
TROUBLE_PAUSE = 500_000
#: A machine's clock this far from the store's is worth a word.
CLOCK_SLACK = 5 * SECOND


class Scheduler:
    """Declares and ticks for one replica. ``targets`` are the jobs that data may name here.

    ``wall`` reads this machine's clock: nothing is decided by it, but people should hear where it
    is wrong.
    """

    def __init__(
        self,
        host: KeeperHost | AsyncStore,
        declared: Sequence[Declared],
        settings: Settings,
        *,
        clock: Clock,
        events: Events,
        fired: Callable[[], None],
        targets: Mapping[str, Target] | None = None,
        random: Random | None = None,
        asked: Callable[[], None] = lambda: None,
        wall: Callable[[], int] | None = None,
    ) -> None:
        self._host, self._settings, self._clock, self._events = host, settings, clock, events
        self._declarer = Declarer(host, declared, settings, events)
        self._targets = dict(targets or {})
        self._jobs = tuple(sorted(self._targets))
        self._random = random or Random()
        self._fired, self._asked, self._wall = fired, asked, wall
        self._membership: Membership | None = None
        self._ours: tuple[str, ...] = ()
        self._lost: list[LostTick] = []
        self._declare_at = 0
        self._clock_told = False
        self.waker = Waker(clock)

    def joined(self, membership: Membership) -> None:
        """Tick under this membership."""
        self._membership, self._declare_at = membership, 0
        self.waker.wake()

    def next_fire(self, at: int) -> None:
        """Hear when the next fire time is, on the local clock."""
        self.waker.at(at)

    async def serve(self) -> None:
        """Declare and tick until cancelled."""
        if not self._declarer.declared and not self._jobs:
            return
        while True:
            membership = self._membership
            if membership is not None and membership.valid(self._clock.now()):
                try:
                    await self.turn(membership)
                except StoreError as error:
                    self._events.emit("store.trouble", doing="tick", error=str(error))
                    # Perhaps done all the same: read again what is stored, and what is next.
                    self._declare_at = 0
                    await self._clock.sleep(TROUBLE_PAUSE)
                    continue
            until = max(self._settings.lease // 4, self._declare_at - self._clock.now())
            await self.waker.wait(until)

    async def turn(self, membership: Membership) -> None:
        """Declare where it is time to, and tick what is due."""
        await self._tell_lost(membership)
        if self._clock.now() >= self._declare_at:
            await self._declare()
        await self._tick(membership)

    async def _declare(self) -> None:
        leases = DECLARE_LEASES
        if self._declarer.declared:
            ours = await self._declarer.declare()
            self._ours = ours.names
            for next_fire in ours.next_fires:
                self._expect(next_fire, ours.now)
            if ours.again:
                self._declare_at = 0
                return
            if len(ours.names) < len(self._declarer.declared):
                # One that was left to a newer version is ours again when that has gone: look soon.
                leases = 1
        self._declare_at = self._clock.now() + leases * self._settings.lease

    async def _tick(self, membership: Membership) -> None:
        """Turn what is due into runs, a batch at a time."""
        skip = 0
        for _ in range(BATCHES_MOST):
            asked = schedules.due(self._ours, self._jobs, limit=BATCH, skip=skip)
            due = await self._host.run(asked)
            self._compare_clocks(due.now)
            steps = [step for one in due.schedules if (step := await self._step(one, due.now))]
            if steps:
                await self._write(steps, membership)
            for step in steps:
                self._expect(step.next_fire, due.now)
            self._expect(due.ahead, due.now)
            full = len(due.schedules) == BATCH
            if not full and not skip:
                return
            skip = self._random.randrange(PLACES) * BATCH if full else 0

    async def _step(self, schedule: Schedule, now: int) -> Step | None:
        """Decide about one schedule. One whose arithmetic fails stops alone and visibly."""
        declared = self._declarer.declared.get(schedule.name)
        try:
            if schedule.dynamic:
                timing, policy = _read(schedule.timing, schedule.policy)
                target, args = self._targets[schedule.job], schedule.args
            elif declared is None or schedule.definition != declared.definition:
                self._declare_at = 0
                return None
            else:
                timing, policy = declared.timing, declared.policy
                target, args = declared.target, declared.args
            advanced = advance(
                timing,
                policy,
                last=Instant(schedule.last) if schedule.last else None,
                next_fire=Instant(schedule.next_fire),
                now=Instant(now),
            )
        except Exception as error:  # noqa: BLE001 - told in the store and the log
            why = f"{type(error).__name__}: {error}"
            await self._declarer.mark_broken(schedule.name, schedule.revision, why)
            return None
        return _step(schedule, advanced, policy, target, args)

    async def _write(self, steps: list[Step], membership: Membership) -> None:
        answers = await self._host.run(schedules.tick(steps, replica=membership.id))
        for answer in answers:
            self._events.emit(
                f"tick.{answer.answer}",
                schedule=answer.name,
                fire_time=text(Instant(answer.fire_time)),
                run=answer.run_id,
            )
        ticked = {answer.name for answer in answers}
        for step in steps:
            if step.fires and step.name not in ticked:
                self._events.emit("tick.lost", schedule=step.name, revision=step.revision)
                self._lost += [_lost(step.name, fire) for fire in step.fires]
            elif step.missed:
                self._events.emit("tick.missed", schedule=step.name, missed=step.missed)
        if any(answer.answer == "fired" for answer in answers):
            self._fired()
        if any(answer.answer == "queued" for answer in answers):
            self._asked()

    async def _tell_lost(self, membership: Membership) -> None:
        """Record what was lost at the last tick: by now whoever won it has committed."""
        if self._lost:
            lost, self._lost = self._lost[:LOST_TOLD], []
            await self._host.run(schedules.lost(lost, replica=membership.id))

    def _compare_clocks(self, store_now: int) -> None:
        """Say once where this machine's clock is off; fire times go by the store's all the same."""
        if self._wall is None:
            return
        ahead = self._wall() - store_now
        off = abs(ahead) > CLOCK_SLACK
        if off and not self._clock_told:
            which = "ahead of" if ahead > 0 else "behind"
            self._events.emit(
                "clock.off",
                seconds=ahead / SECOND,
                what=f"this machine's clock is {abs(ahead) // SECOND} s {which} the store's; "
                "fire times go by the store's",
            )
        self._clock_told = off

    def _expect(self, next_fire: int, store_now: int) -> None:
        if next_fire:
            self.waker.at(self._clock.now() + next_fire - store_now)


@lru_cache(maxsize=4_096)
def _read(timing: str, policy: str) -> tuple[Timing, Policy]:
    """Read what was put as data; many schedules share few timings and fewer policies."""
    return restored(json.loads(timing)), policy_restored(json.loads(policy))


def _step(schedule: Schedule, advanced: Advance, policy: Policy, target: Target, args: str) -> Step:
    shift = stable_jitter(schedule.name, policy.jitter)
    fires = tuple(
        Fire(
            key=fire_key(schedule.name, at),
            fire_time=at,
            due=at + shift,
            job=schedule.job,
            args=args,
            queue=target.queue,
            priority=target.priority,
            on_loss=target.on_loss,
            expect=target.expect,
        )
        for at in advanced.fire
    )
    return Step(
        name=schedule.name,
        revision=schedule.revision,
        last=advanced.last or 0,
        next_fire=advanced.next_fire or 0,
        fires=fires,
        missed=missed.of_advance(advanced),
        missed_count=advanced.missed_count,
        overlap=policy.overlap.value,
    )


def _lost(name: str, fire: Fire) -> LostTick:
    return LostTick(name, fire.fire_time, fire.job, fire.key)
