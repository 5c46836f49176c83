"""What is done to the program: values, drawn from a seed, written and read back for a replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from random import Random
from typing import Any

from onejob.errors import UsageError

#: How far into the fault-free run a strike falls that waits for no effect, as shares of its time.
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)

#: With very many effects, not each of them has a strike of its own in the first pass.
EFFECTS_STRUCK_MOST = 12


class Kind(StrEnum):
    """One thing that happens to a process."""

    KILL = "kill"
    """It is gone at once (SIGKILL), as where memory runs out; the platform starts another one."""
    STOP = "stop"
    """It is asked to end (SIGTERM), as in a deployment; the platform starts another one."""
    FREEZE = "freeze"
    """It stands still while another copy is started, and goes on beside or after it."""


@dataclass(frozen=True, slots=True)
class Point:
    """When: after so many effects, and then a share of the fault-free run's time later.

    With no effects to wait for, the time counts from the start.
    """

    effects: int
    share: float

    def __str__(self) -> str:
        after = f"after effect {self.effects}" if self.effects else "after its start"
        return f"{after} + {self.share:.0%}" if self.share else after


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault at one point."""

    kind: Kind
    point: Point


@dataclass(frozen=True, slots=True)
class Plan:
    """One play: how many copies begin together, what strikes them, and whether it is asked again.

    ``again``: the same tick or message is delivered once more after all have ended.
    """

    copies: int = 1
    strikes: tuple[Strike, ...] = ()
    again: bool = False

    @property
    def name(self) -> str:
        """Return what is tried, in a few words."""
        parts = [f"{self.copies} at once"] if self.copies > 1 else []
        parts += [strike.kind.value for strike in self.strikes]
        parts += ["again"] if self.again else []
        return " + ".join(parts) or "no fault"

    def written(self) -> dict[str, Any]:
        """Return the plan as JSON has it."""
        return asdict(self)

    @classmethod
    def read(cls, written: object) -> Plan:
        """Read it back; UsageError where it is none."""
        try:
            assert isinstance(written, Mapping)
            return cls(
                copies=int(written["copies"]),
                strikes=tuple(
                    Strike(
                        Kind(strike["kind"]),
                        Point(int(strike["point"]["effects"]), float(strike["point"]["share"])),
                    )
                    for strike in written["strikes"]
                ),
                again=bool(written["again"]),
            )
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise UsageError(
                "this holds no plan of onejob prove. Give the file that --save has written."
            ) from error


def singles(effects: int) -> Iterator[Plan]:
    """Return each fault by itself, at each point: the shortest histories first."""
    points = list(_points(effects))
    for kind in (Kind.KILL, Kind.FREEZE, Kind.STOP):
        for point in points:
            yield Plan(strikes=(Strike(kind, point),))
    yield Plan(copies=2)
    yield Plan(copies=3)
    yield Plan(again=True)


def _points(effects: int) -> Iterator[Point]:
    step = max(1, effects // EFFECTS_STRUCK_MOST)
    for number in range(1, effects + 1, step):
        yield Point(number, 0.0)
    for share in SHARES:
        yield Point(0, share)


def drawn(seed: int, effects: int) -> Iterator[Plan]:
    """Return plans of several faults without an end, by chance and by nothing but the seed."""
    random = Random(f"prove {seed}")
    while True:
        strikes = tuple(
            Strike(random.choice(list(Kind)), Point(random.randint(0, effects), random.random()))
            for _ in range(random.choice((1, 1, 2, 2, 3)))
        )
        yield Plan(random.choice((1, 1, 2, 3)), strikes, again=random.random() < 0.3)


def smaller(plan: Plan) -> Iterator[Plan]:
    """Return the plans with one thing less."""
    if plan.again:
        yield Plan(plan.copies, plan.strikes)
    if plan.copies > 1:
        yield Plan(plan.copies - 1, plan.strikes, plan.again)
    for number in range(len(plan.strikes)):
        strikes = plan.strikes[:number] + plan.strikes[number + 1 :]
        yield Plan(plan.copies, strikes, plan.again)
