"""Random programs: the same commands on several stores, each answer compared with the model's.

A program is a seed. Choices that depend on earlier answers ("one of the claims received so far")
are made as plain numbers, which every store resolves against its own answers; those agree by then,
so the choice does too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from onejob.commands import ledger, replicas, runs, schedules, views
from onejob.commands import overlap as runs_overlap
from onejob.commands.command import Command
from onejob.commands.ledger import NewEntry
from onejob.commands.replicas import NewReplica
from onejob.commands.runs import NewRun
from onejob.commands.schedules import NewSchedule
from onejob.core.effect import EntryState
from onejob.core.run import (
    Again,
    End,
    Kind,
    LeaveUnknown,
    Outcome,
    Park,
    ReplicaId,
    Settlement,
)
from onejob.core.time import DAY, HOUR, SECOND
from onejob.core.watermark import Probe, full_probes
from onejob.testing.conformance.given import LEASE, NOW, step
from onejob.testing.conformance.worlds import World

T = TypeVar("T")

REPLICAS = [ReplicaId(f"replica-{letter}") for letter in "abcd"]
JOBS = ["bill", "mail", "ship"]
QUEUES = ["default", "slow"]
KEYS = [f"k{n}" for n in range(6)]
SCHEDULES = ["hourly", "nightly", "weekly"]
PUT = ["nightly", "tenant-1", "tenant-2"]
SCOPES = ["inbox", "mail/k0"]
EFFECTS = ["charge", "refund", "send"]
MANY = 1_000

#: How time passes between two commands: little mostly, a lease or a month now and then.
PASSES = [0] * 12 + [1, SECOND, SECOND, 3 * SECOND] * 2 + [LEASE, HOUR, 20 * DAY]


Ask = Callable[[World], Command[Any]]


class Program:
    """A sequence of random commands about few replicas, jobs, keys and effects."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.now = NOW
        self._opening = [self._join(id) for id in REPLICAS[:2]]
        self._opening += [self._define(name) for name in SCHEDULES[:2]]

    def next(self) -> Ask:
        """Return the next command, as each world would ask it."""
        if self._opening:
            return self._opening.pop()
        self.now += self._pick(PASSES)
        weighted = [self._replica] * 2 + [self._run] * 12 + [self._schedule] * 4
        return self._pick([*weighted, *([self._effect] * 5), self._look])()

    def everything(self) -> list[Ask]:
        """Return the questions whose answers show the whole state."""
        now = self.now
        return [
            lambda world: views.runs(limit=MANY),
            lambda world: views.replicas(now=now),
            lambda world: views.jobs(),
            lambda world: views.schedules(now=now),
            lambda world: schedules.read([*SCHEDULES, *PUT], now=now),
            lambda world: runs_overlap.asked(limit=MANY),
            lambda world: views.events(limit=MANY),
            lambda world: ledger.read(SCOPES[0], EFFECTS, now=now),
            lambda world: ledger.read(SCOPES[1], EFFECTS, now=now),
            lambda world: ledger.unsettled(limit=MANY, now=now),
            lambda world: runs.standings(world.ids),
            *[self._held_by(replica) for replica in REPLICAS],
            *[self._effects_of(number) for number in range(20)],
        ]

    def _join(self, id: ReplicaId) -> Ask:
        declared = {name: f"{name}-{self._number(3)}" for name in self._some(SCHEDULES)}
        jobs = self._pick([JOBS, self._some(JOBS)])
        ticks = self._some(JOBS)
        new = NewReplica(id, "web", "host", 1, "", jobs, declared, LEASE, ticks)
        return self._same(replicas.join(new, now=self.now))

    def _replica(self) -> Ask:
        now, id = self.now, self._pick(REPLICAS)
        plain = self._same(
            *[replicas.renew(id, lease=LEASE, now=now)] * 2,
            replicas.idle(id, idle=self._chance()),
            replicas.leave(id, now=now),
            replicas.judge(now=now),
            *[replicas.lost(limit=self._pick([1, MANY]))] * 2,
            replicas.forget(before=now - self._pick([0, DAY]), limit=self._pick([1, MANY])),
        )
        return self._pick([plain, plain, self._join(id)])

    def _run(self) -> Ask:
        return self._pick(
            [self._enqueue] * 3
            + [self._claim] * 4
            + [self._settle] * 5
            + [self._of_one_run] * 3
            + [self._of_many_runs]
        )()

    def _enqueue(self) -> Ask:
        keys = self._random.sample(KEYS, k=1 + self._number(3))
        new = [
            NewRun(
                self._pick(JOBS),
                key,
                "{}",
                keyed=self._chance(),
                kind=self._pick([Kind.RUN, Kind.MESSAGE]),
                queue=self._pick(QUEUES),
                priority=self._number(3),
                at=self._pick([None, None, self.now - HOUR, self.now + LEASE]),
                delay=self._pick([0, 0, SECOND]),
                on_loss=self._pick(["retry", "fail"]),
                expect=self._pick([0, 0, SECOND, HOUR]),
                fingerprint=self._pick(["", "f"]),
            )
            for key in keys
        ]
        return self._same(runs.enqueue(new, now=self.now))

    def _claim(self) -> Ask:
        now, jobs = self.now, self._pick([JOBS, JOBS, self._some(JOBS)])
        replica = self._pick([*REPLICAS[:2], self._pick(REPLICAS)])
        limit, number = self._pick([1, 2, 10]), self._number(MANY)
        full = runs.claim(full_probes(QUEUES), jobs=jobs, replica=replica, limit=limit, now=now)

        def from_a_mark(world: World) -> Command[Any]:
            if not world.claims:
                return full
            at = world.claims[number % len(world.claims)]
            probe = Probe(at.queue, at.priority, at.due, at.id)
            return runs.claim([probe], jobs=jobs, replica=replica, limit=limit, now=now)

        alone = runs.claim_alone(self._some(QUEUES), jobs=jobs, replica=replica, now=now)
        return self._pick([self._same(full, full, full, alone, alone), from_a_mark])

    def _settle(self) -> Ask:
        now, keep = self.now, self._pick([0, HOUR, 30 * DAY])
        numbers = [self._number(MANY) for _ in range(1 + self._number(4))]
        ways_out = [self._way_out() for _ in numbers]

        def settle(world: World) -> Command[Any]:
            claims = [world.claim(number) for number in numbers]
            # A claim settles once in a batch: what follows from both halves would be undefined.
            batch = dict(zip(claims, ways_out, strict=True))
            return runs.settle(batch.items(), keep=keep, now=now)

        return settle

    def _way_out(self) -> Settlement:
        outcomes = [Outcome.FAILED, Outcome.ABANDONED, Outcome.INTERRUPTED, Outcome.TIMED_OUT]
        error = self._pick([None, "down"])
        ways_out: list[Settlement] = [
            End(Outcome.SUCCEEDED, result="1"),
            End(self._pick(outcomes), error),
            Again(self._pick([0, SECOND, HOUR]), self._pick(outcomes), error),
            Again(0, self._pick(outcomes)),
            Again(0, Outcome.ABANDONED),
            Park(),
            LeaveUnknown("no reply"),
        ]
        return self._pick(ways_out)

    def _of_one_run(self) -> Ask:
        now, number, keep = self.now, self._number(MANY), self._pick([0, DAY])
        kind, job, key = self._pick([Kind.RUN, Kind.SCHEDULE]), self._pick(JOBS), self._pick(KEYS)
        questions: list[Ask] = [
            lambda world: runs.cancel(world.id(number), keep=keep, now=now),
            lambda world: runs.retry(world.id(number), now=now),
            lambda world: runs.retry(world.id(number), now=now),
            lambda world: runs.progress(world.claim(number), f"{number} of {MANY}"),
            lambda world: runs.fence(world.claim(number), idle_limit=SECOND, now=now),
            lambda world: runs.by_key(kind, job, key),
            lambda world: views.run_get(world.id(number)),
            lambda world: views.effects_of(world.id(number)),
            lambda world: views.events(run_id=world.id(number)),
        ]
        return self._pick(questions)

    def _of_many_runs(self) -> Ask:
        now = self.now
        return self._same(
            runs.park_unknown(now=now, limit=self._pick([1, MANY])),
            runs.unpark(self._some(JOBS), now=now),
            runs.purge(limit=self._pick([1, 2, MANY]), now=now),
            views.runs(
                job=self._pick(["", *JOBS]),
                state=self._pick(["", "scheduled", "parked", "ended", "failed"]),
                limit=self._pick([2, MANY]),
            ),
        )

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
            runs_overlap.release(now=now),
            runs_overlap.late(limit=self._pick([1, MANY]), now=now),
            runs_overlap.asked(limit=MANY),
        )
        one = [self._define(name), self._put(), self._break(name), self._resume(name)]
        return self._pick([plain, plain, *[self._tick() for _ in range(4)], *one, self._cancel()])

    def _cancel(self) -> Ask:
        now, numbers = self.now, [self._number(MANY) for _ in range(2)]
        keep = self._pick([0, DAY])

        def cancel(world: World) -> Command[Any]:
            ids = {*[world.id(number) for number in numbers], *world.asked}
            return runs_overlap.cancel(sorted(ids), keep=keep, now=now)

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
        grid = now // HOUR * HOUR
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

    def _effect(self) -> Ask:
        now, number, keep = self.now, self._number(MANY), self._pick([0, DAY, 400 * DAY])
        scope, key, owner = self._pick(SCOPES), self._pick(EFFECTS), self._pick(REPLICAS)
        new = NewEntry(scope, key, owner, self._pick(["", "f"]), self._pick([0, LEASE]))
        state, in_run = self._pick(list(EntryState)[1:]), self._chance()
        result, error = self._pick([None, "1"]), self._pick([None, "declined"])

        def claim_in_run(world: World) -> Command[Any]:
            own = replace(new, scope=world.claimed(number).scope) if world.claims else new
            return ledger.claim_in_run(world.claim(number), own, now=now)

        def reclaim(world: World) -> Command[Any]:
            at, of, held = world.entry(number)
            again = NewEntry(at, of, owner, "", new.claim_for)
            claim = world.claim(number) if in_run else None
            return ledger.reclaim(again, held=held, run=claim, now=now)

        def record(world: World) -> Command[Any]:
            at, of, token = world.entry(number)
            return ledger.record(
                at, of, token=token, state=state, result=result, error=error, keep=keep, now=now
            )

        def release(world: World) -> Command[Any]:
            at, of, token = world.entry(number)
            return ledger.release(at, of, token=token, now=now)

        questions: list[Ask] = [
            reclaim,
            record,
            record,
            release,
            claim_in_run,
            claim_in_run,
            lambda world: ledger.first_in_run(world.claim(number), scope, key, keep=keep, now=now),
            self._same(
                ledger.first(scope, key, owner=owner, keep=keep, now=now),
                *[ledger.claim(new, now=now)] * 2,
                ledger.read(scope, self._some(EFFECTS), now=now),
                ledger.unsettled(limit=self._pick([1, MANY]), now=now),
                ledger.purge(limit=self._pick([1, MANY]), now=now),
            ),
        ]
        return self._pick(questions)

    def _look(self) -> Ask:
        jobs, queues, names = self._some(JOBS), self._some(QUEUES), self._some(SCHEDULES)
        return self._same(
            replicas.look(jobs=jobs, queues=queues, schedules=names, ticks=jobs, now=self.now),
            views.jobs(),
            views.schedules(now=self.now),
        )

    def _effects_of(self, number: int) -> Ask:
        return lambda world: views.effects_of(world.id(number))

    def _held_by(self, replica: ReplicaId) -> Ask:
        return lambda world: runs.held(replica)

    def _same(self, *commands: Command[Any]) -> Ask:
        """Return one of these commands, which are the same in every world."""
        command = self._pick(commands)
        return lambda world: command

    def _pick(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def _some(self, options: Sequence[T]) -> list[T]:
        return self._random.sample(options, k=self._random.randint(1, len(options)))

    def _number(self, below: int) -> int:
        return self._random.randrange(below)

    def _chance(self) -> bool:
        return self._random.random() < 0.5
