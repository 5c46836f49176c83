"""The scheduler: declare this code's schedules, and tick them. Any number of replicas do it.

1. Declare: read what is stored, decide by ``core.adoption``, write with a compare-and-set.
2. Sleep towards the next fire time; being early or late changes nothing but lateness.
3. Tick: read what is due *by the store's clock*, decide by ``core.schedule``, write with a
   compare-and-set on the revision that was read. Whoever loses the race writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from onejob.commands import schedules
from onejob.commands.schedules import Due, Fire, Schedule, Step
from onejob.core.adoption import Create, Declaration, Leave, Replace, Same, Stored, adopt
from onejob.core.keys import fire_key
from onejob.core.schedule import Advance, Overlap, advance, first_fire
from onejob.core.time import Instant, text
from onejob.errors import StoreError
from onejob.runtime.clock import Clock
from onejob.runtime.events import Events
from onejob.runtime.lane import KeeperHost
from onejob.runtime.membership import Membership
from onejob.runtime.settings import Declared, Settings
from onejob.runtime.waker import Waker

#: Most schedules advanced in one command.
BATCH = 200
#: With every definition ours, look at them again once in so many leases.
DECLARE_LEASES = 10
#: The pause after the store could not be reached.
TROUBLE_PAUSE = 500_000


class Scheduler:
    """Declares and ticks the schedules of one replica's code."""

    def __init__(
        self,
        host: KeeperHost,
        declared: Sequence[Declared],
        settings: Settings,
        *,
        clock: Clock,
        events: Events,
        fired: Callable[[], None],
    ) -> None:
        self._host, self._settings, self._clock, self._events = host, settings, clock, events
        self._declared = {schedule.name: schedule for schedule in declared}
        self._fired = fired
        self._membership: Membership | None = None
        self._ours: tuple[str, ...] = ()
        self._declare_at = 0
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
        if not self._declared:
            return
        while True:
            membership = self._membership
            if membership is not None and membership.valid(self._clock.now()):
                try:
                    if self._clock.now() >= self._declare_at:
                        await self._declare()
                    for start in range(0, len(self._ours), BATCH):
                        await self._tick(self._ours[start : start + BATCH], membership)
                except StoreError as error:
                    self._events.emit("store.trouble", doing="tick", error=str(error))
                    # Perhaps done all the same: read again what is stored, and what is next.
                    self._declare_at = 0
                    await self._clock.sleep(TROUBLE_PAUSE)
                    continue
            until = max(self._settings.lease // 4, self._declare_at - self._clock.now())
            await self.waker.wait(until)

    async def _declare(self) -> None:
        """Store what is new here, and learn which definitions are the present ones."""
        names = tuple(self._declared)
        stored = await self._host.run(schedules.read(names))
        live: dict[str, set[str]] = {}
        for name, definition in await self._host.run(schedules.live_definitions(names)):
            live.setdefault(name, set()).add(definition)
        known = {schedule.name: schedule for schedule in stored.schedules}
        ours: list[str] = []
        again = False
        for name, declared in self._declared.items():
            schedule = known.get(name)
            # A definition that only this replica declares does not keep itself alive.
            others = frozenset(live.get(name, set()))
            match adopt(
                declared=Declaration(declared.definition, self._settings.version or None),
                stored=_stored(schedule),
                live_definitions=others,
            ):
                case Same():
                    ours.append(name)
                    self._expect(schedule.next_fire if schedule else 0, stored.now)
                case Create():
                    again |= not await self._define(declared, None, (), stored.now)
                    ours.append(name)
                case Replace(superseded):
                    again |= not await self._define(declared, schedule, superseded, stored.now)
                    ours.append(name)
                case Leave(reason):
                    self._events.emit("schedule.left", schedule=name, reason=reason)
        self._ours = tuple(ours)
        # One that was left to a newer version is ours again when that has gone: look soon.
        leases = DECLARE_LEASES if len(ours) == len(self._declared) else 1
        self._declare_at = 0 if again else self._clock.now() + leases * self._settings.lease

    async def _define(
        self, declared: Declared, old: Schedule | None, superseded: tuple[str, ...], now: int
    ) -> bool:
        """Store a definition; a new timing starts anew from now and never fills in the past.

        Where the timing is the old one (another argument, another policy), what is due stays due:
        the next tick decides by the catch-up rule.
        """
        kept = old is not None and (old.timing, old.job) == (declared.timing_text, declared.job)
        try:
            next_fire, broken = first_fire(declared.timing, Instant(now)), ""
            if old is not None and kept and not old.broken:
                next_fire = Instant(old.next_fire) if old.next_fire else None
        except Exception as error:  # noqa: BLE001 - told in the store and the log
            next_fire, broken = None, f"{type(error).__name__}: {error}"
        self._expect(next_fire or 0, now)
        revision = old.revision if old else 0
        defined = await self._host.run(
            schedules.define(
                schedules.NewSchedule(
                    name=declared.name,
                    job=declared.job,
                    timing=declared.timing_text,
                    policy=declared.policy_text,
                    definition=declared.definition,
                    version=self._settings.version,
                    superseded=json.dumps(list(superseded)),
                    next_fire=next_fire or 0,
                    missed="" if kept else _dropped(old, now),
                ),
                revision=revision,
            )
        )
        if defined and broken:
            await self._mark_broken(declared.name, revision + 1, broken)
        return defined

    async def _mark_broken(self, name: str, revision: int, why: str) -> None:
        """Stop this one schedule, visibly; the others go on."""
        await self._host.run(schedules.mark_broken(name, revision=revision, why=why))
        self._events.emit("schedule.broken", schedule=name, why=why)

    async def _tick(self, names: tuple[str, ...], membership: Membership) -> None:
        """Turn the due fire times of these schedules into runs."""
        due = await self._host.run(schedules.due(names, limit=BATCH))
        steps = [step for schedule in due.schedules if (step := await self._step(schedule, due))]
        if steps:
            await self._write(steps, membership)
        self._sleep_towards(steps, due.now)

    async def _step(self, schedule: Schedule, due: Due) -> Step | None:
        declared = self._declared[schedule.name]
        if schedule.definition != declared.definition:
            self._declare_at = 0
            return None
        try:
            advanced = advance(
                declared.timing,
                declared.policy,
                last=Instant(schedule.last) if schedule.last else None,
                next_fire=Instant(schedule.next_fire),
                now=Instant(due.now),
            )
        except Exception as error:  # noqa: BLE001 - told in the store and the log
            why = f"{type(error).__name__}: {error}"
            await self._mark_broken(schedule.name, schedule.revision, why)
            return None
        return _step(declared, schedule, advanced)

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
            elif step.missed:
                self._events.emit("tick.missed", schedule=step.name, missed=step.missed)
        if any(answer.answer == "fired" for answer in answers):
            self._fired()

    def _sleep_towards(self, steps: list[Step], store_now: int) -> None:
        for step in steps:
            self._expect(step.next_fire, store_now)

    def _expect(self, next_fire: int, store_now: int) -> None:
        if next_fire:
            self.waker.at(self._clock.now() + next_fire - store_now)


def _stored(schedule: Schedule | None) -> Stored | None:
    if schedule is None:
        return None
    superseded = tuple(json.loads(schedule.superseded))
    return Stored(schedule.definition, schedule.version or None, superseded)


def _dropped(old: Schedule | None, now: int) -> str:
    """Tell what was due under a definition that is replaced: nothing is dropped in silence."""
    if old is None or not 0 < old.next_fire <= now:
        return ""
    newest = [{"at": text(Instant(old.next_fire)), "reason": "redefined"}]
    return json.dumps({"count": 1, "at_least": True, "newest": newest})


def _step(declared: Declared, schedule: Schedule, advanced: Advance) -> Step:
    fires = tuple(
        Fire(
            key=fire_key(schedule.name, at),
            fire_time=at,
            job=declared.job,
            args=declared.args,
            queue=declared.queue,
            priority=declared.priority,
            on_loss=declared.on_loss,
        )
        for at in advanced.fire
    )
    return Step(
        name=schedule.name,
        revision=schedule.revision,
        last=advanced.last or 0,
        next_fire=advanced.next_fire or 0,
        fires=fires,
        missed=_missed(advanced),
        unless_live=int(declared.policy.overlap is Overlap.SKIP),
    )


def _missed(advanced: Advance) -> str:
    if not advanced.missed_count:
        return ""
    return json.dumps(
        {
            "count": advanced.missed_count,
            "at_least": advanced.missed_at_least,
            "newest": [{"at": text(m.at), "reason": str(m.reason)} for m in advanced.missed],
        }
    )
