"""What random programs choose from, and how they choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

from onejob.commands.command import Command
from onejob.core.run import ReplicaId
from onejob.core.time import DAY, HOUR, SECOND
from onejob.testing.conformance.given import LEASE, NOW
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


class Choices:
    """Chance from a seed, and the time of the program."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.now = NOW

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
