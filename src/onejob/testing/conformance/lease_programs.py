"""Random programs about named locks: the same commands on two stores, each answer compared.

Tokens are drawn by each store for itself, so each gets the name of its first appearance, and a
program refers to what it was given by number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from random import Random
from typing import Any

from onejob.commands import fences, leases, views
from onejob.commands.command import Command
from onejob.core.hold import Grip, Listed, Standing
from onejob.core.run import Token
from onejob.core.time import HOUR, SECOND, Span
from onejob.testing.conformance.given import LEASE, NOW, Run

OWNERS = ["a", "b", "c"]
NAMES = ["import", "nightly"]
RESOURCES = ["ledger", "mail"]
TTL = Span(LEASE)

#: How time passes between two commands: not at all, a little, or past the lease's end.
PASSES = [0] * 4 + [1, SECOND, SECOND, LEASE, HOUR]

#: Stands in while nothing has been taken.
NOBODY = Grip("shop", "nightly", Token(2**62), "a")


@dataclass(slots=True)
class LeaseWorld:
    """One store, and what it has given so far."""

    run: Run
    grips: list[Grip] = field(default_factory=list)
    tokens: dict[int, str] = field(default_factory=dict)

    def ask(self, command: Command[Any]) -> Any:
        """Carry a command out, remember a lock that it took, return the comparable answer."""
        answer: Any = self.run(command)
        if command.name in ("lease_acquire", "lease_take") and answer is not None:
            self._named(answer.token)
            if answer.owner == command.parameters["owner"]:
                self.grips.append(Grip(answer.scope, answer.name, answer.token, answer.owner))
        if command.name == "view_events":
            # Events of one moment come in no order; names are to be given in the same one.
            told: list[views.EventView] = list(answer or ())
            answer = sorted(told, key=lambda one: (one.at, one.kind, one.token))
        if command.name == "fence_known":
            return self._named(answer or 0)
        return self._shown(answer)

    def grip(self, number: int) -> Grip:
        """Return one of the locks taken so far, the latest ones more often."""
        recent = self.grips[-3:] if number % 3 else self.grips
        return recent[number % len(recent)] if recent else NOBODY

    def _named(self, token: int) -> str:
        return self.tokens.setdefault(token, f"token {len(self.tokens)}") if token else "none"

    def _shown(self, value: Any) -> Any:
        match value:
            case tuple() | list():
                return [self._shown(one) for one in value]
            case frozenset():
                return sorted(value)
            case Listed():
                return [self._shown(value.standing), value.waiting]
            case Standing() if is_dataclass(value):
                shown = {one.name: getattr(value, one.name) for one in fields(value)}
                return {**shown, "token": self._named(value.token)}
            case views.EventView():
                return (value.at, value.kind, value.key, self._named(value.token), value.detail)
            case _:
                return value


Ask = Callable[[LeaseWorld], Command[Any]]


class LeaseProgram:
    """A sequence of random commands about two locks, two resources and three owners."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._owners = 0
        self.now = NOW

    def next(self) -> Ask:
        """Return the next command, as each world would ask it."""
        self.now += self._random.choice(PASSES)
        kinds = [self._acquire] * 4 + [self._of_a_grip] * 4 + [self._fence, self._look]
        return self._random.choice(kinds)()

    def everything(self) -> list[Ask]:
        """Return the questions whose answers show the whole state."""
        now = self.now
        return [
            lambda world: leases.listed(free=True, limit=100, now=now),
            lambda world: views.events(limit=1_000),
            *[self._known(resource) for resource in RESOURCES],
        ]

    def _acquire(self) -> Ask:
        # Fresh mostly; now and then one that has asked before asks again.
        self._owners += self._random.random() < 0.7
        scope, name = self._random.choice(["shop", "shop", "bank"]), self._random.choice(NAMES)
        owner = f"owner-{self._owners}"
        if self._random.random() < 0.2:
            quick = leases.take(scope, name, owner=owner, holder="host:q", ttl=TTL, now=self.now)
            return lambda world: quick
        asked = leases.acquire(
            scope,
            name,
            owner=owner,
            holder=f"host:{self._random.choice(OWNERS)}",
            ttl=self._random.choice([TTL, Span(SECOND)]),
            at_least=self._random.choice([Span(0), Span(0), Span(2 * TTL)]),
            resources=self._some(RESOURCES),
            wait=self._random.choice([0, SECOND, HOUR]),
            now=self.now,
        )
        return lambda world: asked

    def _of_a_grip(self) -> Ask:
        now, numbers = self.now, [self._random.randrange(1_000) for _ in range(3)]
        reason, name = self._random.choice(["stuck", ""]), self._random.choice(NAMES)

        def break_(world: LeaseWorld) -> Command[Any]:
            grip = world.grip(numbers[0])
            return leases.break_(
                grip.scope, grip.name, token=grip.token, by="ada", reason=reason, now=now
            )

        def renew(world: LeaseWorld) -> Command[Any]:
            batch = {world.grip(number).owner: world.grip(number) for number in numbers}
            return leases.renew([(grip, TTL) for grip in batch.values()], now=now)

        return self._random.choice(
            [
                renew,
                renew,
                lambda world: leases.release(world.grip(numbers[0]), now=now),
                lambda world: leases.release(world.grip(numbers[0]), now=now),
                lambda world: leases.undo("shop", name, owner=f"owner-{numbers[0] % 20}", now=now),
                lambda world: leases.give_up("shop", name, owner=f"owner-{numbers[0] % 20}"),
                break_,
            ]
        )

    def _fence(self) -> Ask:
        now, number = self.now, self._random.randrange(1_000)
        resource = self._random.choice(RESOURCES)

        def check(world: LeaseWorld) -> Command[Any]:
            grip = world.grip(number)
            return fences.check(grip.scope, resource, grip.token, idle_limit=TTL, now=now)

        return self._random.choice([check, check, self._known(resource)])

    def _look(self) -> Ask:
        now, limit = self.now, self._random.choice([1, 10])
        unused = Span(self._random.choice([SECOND, HOUR]))
        looks: list[Command[Any]] = [
            leases.listed(limit=limit, now=now),
            leases.listed(scope="shop", name="nightly", free=True, limit=limit, now=now),
            leases.purge(unused=unused, limit=limit, now=now),
            fences.purge(unused=unused, limit=limit, now=now),
        ]
        chosen = self._random.choice(looks)
        return lambda world: chosen

    def _known(self, resource: str) -> Ask:
        return lambda world: fences.known("shop", resource)

    def _some(self, options: list[str]) -> list[str]:
        return self._random.sample(options, k=self._random.randrange(len(options) + 1))
