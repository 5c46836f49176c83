"""Random programs: the same commands on several stores, each answer compared with the model's.

A program is a seed. Choices that depend on earlier answers ("one of the claims received so far")
are made as plain numbers, which every store resolves against its own answers; those agree by then,
so the choice does too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from onejob.commands import inbox, ledger, overlap, replicas, runs, schedules, views
from onejob.commands.command import Command
from onejob.commands.ledger import NewEntry, Record
from onejob.commands.replicas import NewReplica
from onejob.commands.runs import NewRun
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
    Token,
)
from onejob.core.time import DAY, HOUR, SECOND
from onejob.core.watermark import Probe, full_probes
from onejob.testing.conformance.choices import (
    EFFECTS,
    JOBS,
    KEYS,
    MANY,
    PASSES,
    PUT,
    QUEUES,
    REPLICAS,
    SCHEDULES,
    SCOPES,
    Ask,
)
from onejob.testing.conformance.given import LEASE
from onejob.testing.conformance.schedule_programs import ScheduleChoices
from onejob.testing.conformance.worlds import World

T = TypeVar("T")


class Program(ScheduleChoices):
    """A sequence of random commands about few replicas, jobs, keys and effects."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
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
            lambda world: overlap.asked(limit=MANY),
            lambda world: views.events(limit=MANY),
            lambda world: ledger.read(SCOPES[0], EFFECTS, now=now),
            lambda world: ledger.read(SCOPES[1], EFFECTS, now=now),
            lambda world: ledger.unsettled(limit=MANY, now=now),
            lambda world: inbox.unsettled(SCOPES[0], limit=MANY, now=now),
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
        if self._number(3) == 0:
            stem = f"{self._random.getrandbits(96):024x}"
            return self._same(runs.enqueue_alike(new[0], "[{},{}]", stem=stem, now=self.now))
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
            lambda world: runs.discard(world.id(number)),
            lambda world: runs.progress(world.claim(number), f"{number} of {MANY}"),
            lambda world: runs.fence(world.claim(number), idle_limit=SECOND, now=now),
            lambda world: runs.by_key(kind, job, key),
            lambda world: views.run_get(world.id(number)),
            lambda world: views.call(world.id(number)),
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
                queue=self._pick(["", *QUEUES]),
                since=self._pick([0, now]),
                limit=self._pick([2, MANY]),
            ),
        )

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

        def of_a_message(world: World) -> Command[Any]:
            at, of, token = world.entry(number)
            taken = NewEntry(at, of, owner, "", SECOND)
            asked: list[Command[Any]] = [
                inbox.take_over(taken, held=token, now=now),
                inbox.give_back(at, of, token=token, now=now),
                inbox.record(
                    at, of, token=token, state=state, result=result, error=error, keep=keep, now=now
                ),
            ]
            return asked[number % len(asked)]

        keys, numbers = self._some(EFFECTS), [self._number(MANY) for _ in range(3)]
        content = dict.fromkeys(keys, new.fingerprint)

        def claim_many(world: World) -> Command[Any]:
            own = world.claimed(number).scope if world.claims else scope
            claim = world.claim(number)
            return ledger.claim_many_in_run(claim, own, content, owner=owner, now=now)

        def record_many(world: World) -> Command[Any]:
            at, tokens = _entries_of_one_scope(world, numbers)
            records = [Record(of, token, state, result, error) for of, token in tokens.items()]
            return ledger.record_many(at, records, keep=keep, now=now)

        def release_many(world: World) -> Command[Any]:
            at, tokens = _entries_of_one_scope(world, numbers)
            return ledger.release_many(at, tokens, now=now)

        questions: list[Ask] = [
            of_a_message,
            claim_many,
            claim_many,
            record_many,
            release_many,
            reclaim,
            record,
            record,
            release,
            claim_in_run,
            claim_in_run,
            lambda world: ledger.first_in_run(world.claim(number), scope, key, keep=keep, now=now),
            self._same(
                ledger.first(scope, key, owner=owner, keep=keep, now=now),
                ledger.first_many(scope, self._some(EFFECTS), owner=owner, keep=keep, now=now),
                ledger.first(scope, key, kind="inbox", owner=owner, keep=keep, now=now),
                inbox.claim(new, now=now),
                inbox.begun(scope, key, least=1 + number % 2, keep=keep, now=now),
                inbox.read(scope, key, now=now),
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
            views.queues(now=self.now),
            views.schedules(now=self.now),
        )

    def _effects_of(self, number: int) -> Ask:
        return lambda world: views.effects_of(world.id(number))

    def _held_by(self, replica: ReplicaId) -> Ask:
        return lambda world: runs.held(replica)


def _entries_of_one_scope(world: World, numbers: Sequence[int]) -> tuple[str, dict[str, Token]]:
    """Return a scope with some of the effect claims received in it so far, one for a key."""
    scope, *_ = world.entry(numbers[0])
    entries = [world.entry(number) for number in numbers]
    return scope, {key: token for at, key, token in entries if at == scope}
