"""Random programs about claims outside runs, which share the ledger with everything else.

Programs of their own: few commands on few keys meet each other often.
"""

from __future__ import annotations

from random import Random
from typing import Any, Literal

from onejob.commands import claims, ledger, views
from onejob.commands.command import Command
from onejob.core.time import DAY, HOUR, SECOND
from onejob.testing.conformance.choices import MANY, PASSES, Ask
from onejob.testing.conformance.given import LEASE, NOW
from onejob.testing.conformance.worlds import World

OWNERS = ["a", "b", "c"]
KINDS = [claims.PERIOD, claims.TICK]
SCOPES = ["digest", "nightly"]
KEYS = ["2026-11-29", "2026-11-30"]


class ClaimProgram:
    """A sequence of random claims, and of what becomes of them."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.now = NOW

    def next(self) -> Ask:
        """Return the next command, as each world would ask it."""
        self.now += self._random.choice(PASSES)
        ways = [self._take] * 5 + [self._renew] + [self._of_one] * 4 + [self._purge, self._look]
        return self._random.choice(ways)()

    def everything(self) -> list[Ask]:
        """Return the questions whose answers show the whole state."""
        now = self.now
        return [
            lambda world: claims.listed(claims.PERIOD, limit=MANY, now=now),
            lambda world: claims.listed(claims.TICK, limit=MANY, now=now),
            lambda world: ledger.unsettled(limit=MANY, now=now),
            lambda world: views.events(limit=MANY),
        ]

    def _take(self) -> Ask:
        ask = claims.take(
            self._random.choice(KINDS),
            self._random.choice(SCOPES),
            self._random.choice(KEYS),
            owner=self._random.choice(OWNERS),
            lease=self._random.choice([SECOND, LEASE]),
            keep=self._random.choice([HOUR, 30 * DAY]),
            spacing=self._random.choice([0, LEASE]),
            even_if_unsure=self._chance(),
            tell=self._chance(),
            now=self.now,
        )
        return lambda world: ask

    def _renew(self) -> Ask:
        now, lease = self.now, self._random.choice([SECOND, LEASE])
        numbers = [self._random.randrange(MANY) for _ in range(3)]

        def renew(world: World) -> Command[Any]:
            return claims.renew({world.holder(n): lease for n in numbers}.items(), now=now)

        return renew

    def _of_one(self) -> Ask:
        now, number = self.now, self._random.randrange(MANY)
        keep, error = self._random.choice([HOUR, 30 * DAY]), self._random.choice([None, "exit 3"])
        states: list[Literal["done", "failed"]] = ["done", "failed"]
        state = self._random.choice(states)
        ways: list[Ask] = [
            lambda world: claims.mark(world.holder(number), lease=LEASE, now=now),
            lambda world: claims.end(
                world.holder(number), keep=keep, state=state, error=error, now=now
            ),
            lambda world: claims.release(world.holder(number), keep=keep, error=error, now=now),
        ]
        return self._random.choice(ways)

    def _purge(self) -> Ask:
        now, limit = self.now, self._random.choice([1, MANY])
        scope, key = self._random.choice(SCOPES), self._random.choice(KEYS)
        ways: list[Ask] = [
            lambda world: ledger.purge(limit=limit, now=now),
            lambda world: ledger.first(scope, key, owner="a", keep=HOUR, now=now),
        ]
        return self._random.choice(ways)

    def _look(self) -> Ask:
        now, lapsed, limit = self.now, self._chance(), self._random.choice([1, MANY])
        kind, scope = self._random.choice(KINDS), self._random.choice(SCOPES)
        ways: list[Ask] = [
            lambda world: claims.read(kind, scope, KEYS[:limit], now=now),
            lambda world: claims.listed(kind, lapsed=lapsed, limit=limit, now=now),
        ]
        return self._random.choice(ways)

    def _chance(self) -> bool:
        return self._random.random() < 0.5
