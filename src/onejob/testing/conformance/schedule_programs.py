"""The part of random programs that is about schedules and overlaps."""

from __future__ import annotations

from itertools import product
from typing import Any

from onejob.commands import overlap, schedules, ticks, views
from onejob.commands.command import Command
from onejob.commands.schedules import NewSchedule
from onejob.core.keys import fire_key
from onejob.core.time import DAY, HOUR, SECOND, Instant
from onejob.testing.conformance.choices import JOBS, MANY, PUT, REPLICAS, SCHEDULES, Ask, Choices
from onejob.testing.conformance.given import step
from onejob.testing.conformance.worlds import World


class ScheduleChoices(Choices):
    """Commands about schedules, and about the runs that they get in the way of."""

    def _schedule(self) -> Ask:
        now, name = self.now, self._pick(SCHEDULES)
        plain = self._same(
            *[schedules.read([*SCHEDULES, *PUT], now=now)] * 4,
            schedules.due(
                self._some(SCHEDULES),
                self._some(JOBS),
                limit=self._pick([1, MANY]),
                skip=self._pick([0, 0, 1]),
                now=now,
            ),
            schedules.live_definitions(self._some(SCHEDULES)),
            *[schedules.pause(name, now=now)] * 2,
            schedules.delete(name, now=now),
            overlap.release(now=now),
            overlap.late(limit=self._pick([1, MANY]), now=now),
            overlap.asked(limit=MANY),
            views.late_runs(),
            ticks.made(product(JOBS, _keys(name, now))),
            ticks.told(name, since=self._pick([0, now - HOUR]), limit=MANY),
        )
        one = [self._define(name), self._put(), self._break(name), self._resume(name)]
        return self._pick([plain, plain, *[self._tick() for _ in range(4)], *one, self._cancel()])

    def _cancel(self) -> Ask:
        now, numbers = self.now, [self._number(MANY) for _ in range(2)]
        keep = self._pick([0, DAY])

        def cancel(world: World) -> Command[Any]:
            ids = {*[world.id(number) for number in numbers], *world.asked}
            return overlap.cancel(sorted(ids), keep=keep, now=now)

        return cancel

    def _resume(self, name: str) -> Ask:
        now, missed = self.now, self._pick([("", 0), ('{"count":2}', 2)])

        def resume(world: World) -> Command[Any]:
            read = world.schedules.get(name)
            return schedules.resume(
                name,
                revision=read.revision if read else 1,
                last=now - HOUR,
                next_fire=now + HOUR,
                missed=missed[0],
                missed_count=missed[1],
                now=now,
            )

        return resume

    def _put(self) -> Ask:
        now, names = self.now, self._some(PUT)
        job, definition, next_fire = self._pick(JOBS), f"p-{self._number(3)}", now - HOUR

        def put(world: World) -> Command[Any]:
            batch = [
                schedules.PutSchedule(
                    name=name,
                    job=job,
                    timing="{}",
                    policy="{}",
                    definition=definition,
                    next_fire=next_fire,
                    args='{"n":1}',
                    queue="slow",
                    priority=3,
                    on_loss="fail",
                    revision=world.schedules[name].revision if name in world.schedules else 0,
                )
                for name in names
            ]
            return schedules.put(batch, now=now)

        return put

    def _break(self, name: str) -> Ask:
        now = self.now

        def mark_broken(world: World) -> Command[Any]:
            read = world.schedules.get(name)
            revision = read.revision if read else 0
            return schedules.mark_broken(name, revision=revision, why="no such zone", now=now)

        return mark_broken

    def _define(self, name: str) -> Ask:
        now, definition = self.now, f"{name}-{self._number(3)}"
        next_fire = self._pick([now - HOUR, now, now + HOUR])
        new = NewSchedule(
            name,
            self._pick(JOBS),
            "{}",
            "{}",
            definition,
            "",
            "",
            next_fire,
            args=self._pick(["{}", '{"n":1}']),
        )

        def define(world: World) -> Command[Any]:
            read = world.schedules.get(name)
            return schedules.define(new, revision=read.revision if read else 0, now=now)

        return define

    def _tick(self) -> Ask:
        now, names = self.now, self._some([*SCHEDULES, *PUT[1:]])
        # On a grid, so that a fire time comes again; the last one is not due yet.
        grid = _grid(now)
        fires = sorted(self._some([grid - HOUR, grid, now, now + 1]))
        missed = self._pick([("", 0), ('{"count":2}', 2)])
        overlap = self._pick(["skip", "queue", "allow", "cancel"])
        shift, expect = self._pick([0, 0, SECOND]), self._pick([0, 0, SECOND, HOUR])
        lost = self._chance()
        replica = self._pick(REPLICAS)

        def tick(world: World) -> Command[Any]:
            steps = [
                step(
                    schedule,
                    *fires,
                    shift=shift,
                    expect=expect,
                    missed=missed[0],
                    missed_count=missed[1],
                    overlap=overlap,
                )
                for name, schedule in world.schedules.items()
                if name in names
            ]
            if lost:
                gone = [
                    schedules.LostTick(one.name, fire.fire_time, fire.job, fire.key)
                    for one in steps
                    for fire in one.fires
                ]
                return schedules.lost(gone, replica=replica, now=now)
            return schedules.tick(steps, replica=replica, now=now)

        return tick


def _grid(now: int) -> int:
    return now // HOUR * HOUR


def _keys(name: str, now: int) -> list[str]:
    """Return the keys that ticks of late, and of a while ago, may have made runs under."""
    latest = [_grid(now) - hours * HOUR for hours in range(3)]
    return [fire_key(name, Instant(at)) for at in (now, *latest)]
