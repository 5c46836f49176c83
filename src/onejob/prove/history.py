"""A history: what happened, in the order in which the store saw it.

Facts are frozen values without any object of the simulation in them, so that a history can be
hashed, printed, cut and checked again. ``at`` is the true time in microseconds; replicas are named
after their process and how often it has joined (``b.2``), never by their random id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias, TypeVar


@dataclass(frozen=True, slots=True)
class Made:
    """A run exists from now on. ``due`` is on the store's clock."""

    at: int
    run: int
    kind: str
    job: str
    key: str
    keyed: bool
    due: int
    on_loss: str = "retry"
    schedule: str = ""
    fire_time: int = 0


@dataclass(frozen=True, slots=True)
class Claimed:
    """The store handed a run to a replica."""

    at: int
    run: int
    token: int
    replica: str
    attempt: int
    alone: bool


@dataclass(frozen=True, slots=True)
class Spun:
    """A process has asked for runs and got nothing so many times within one second."""

    at: int
    process: str
    times: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The store accepted a way out of running, sent by process ``by`` for the claim's replica.

    ``believed``: the claim's replica still trusted its lease at this moment.
    """

    at: int
    run: int
    token: int
    replica: str
    by: str
    to: str
    outcome: str
    believed: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """The store refused a write of a claim that is over."""

    at: int
    run: int
    token: int
    replica: str
    what: str


@dataclass(frozen=True, slots=True)
class Freed:
    """A run that waited in state unknown or ended was brought back."""

    at: int
    run: int


@dataclass(frozen=True, slots=True)
class Judged:
    """A replica was declared dead. ``believed``: it still trusted its lease."""

    at: int
    replica: str
    by: str
    lease: int
    believed: bool


@dataclass(frozen=True, slots=True)
class Applied:
    """A write in the store's own database was committed under a claim (a fenced effect)."""

    at: int
    run: int
    token: int
    replica: str
    key: str


@dataclass(frozen=True, slots=True)
class Landed:
    """A call has arrived outside: it happened, whoever knows of it.

    ``harmless``: the provider had seen this key before and did nothing again.
    """

    at: int
    scope: str
    key: str
    provider_key: str
    harmless: bool


@dataclass(frozen=True, slots=True)
class Reserved:
    """An attempt claimed an outside effect, before calling."""

    at: int
    scope: str
    key: str
    run: int
    token: int
    effect_token: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """The outcome of an outside effect was written down."""

    at: int
    scope: str
    key: str
    token: int
    state: str


@dataclass(frozen=True, slots=True)
class Defined:
    """A schedule's definition was stored; it fires first at ``first``, then every ``interval``.

    ``now`` is the store's clock.
    """

    at: int
    schedule: str
    first: int
    interval: int
    now: int


@dataclass(frozen=True, slots=True)
class Ticked:
    """A fire time became a run, was skipped, or was known."""

    at: int
    schedule: str
    fire_time: int
    answer: str


@dataclass(frozen=True, slots=True)
class Missed:
    """A tick told of fire times that became no run: how many, and the newest one by one."""

    at: int
    schedule: str
    count: int
    listed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stepped:
    """The store's clock was set by so much."""

    at: int
    by: int


@dataclass(frozen=True, slots=True)
class Down:
    """The store was away until now, for ``span``."""

    at: int
    span: int


@dataclass(frozen=True, slots=True)
class Died:
    """A process crashed, and its replica (if it had joined) with it."""

    at: int
    process: str


@dataclass(frozen=True, slots=True)
class Begun:
    """A handler was called for a claim."""

    at: int
    run: int
    token: int


@dataclass(frozen=True, slots=True)
class Waited:
    """An attempt was told that its run's own effect is in progress."""

    at: int
    run: int
    token: int


@dataclass(frozen=True, slots=True)
class Calm:
    """The last fault is over: what is due by the store's ``now`` must end within ``bound``."""

    at: int
    now: int
    bound: int


@dataclass(frozen=True, slots=True)
class Stood:
    """How a run stood at the end. ``known``: a live replica can execute its job."""

    at: int
    run: int
    job: str
    state: str
    due: int
    outcome: str
    known: bool


@dataclass(frozen=True, slots=True)
class EffectStood:
    """How the ledger had an outside effect at the end."""

    at: int
    scope: str
    key: str
    run: int
    state: str


@dataclass(frozen=True, slots=True)
class ScheduleStood:
    """How a schedule stood at the end, by the store's clock ``now``.

    ``owed``: somebody who lives must tick it. False: only code of a lower version lives, or a
    replica that has lapsed and is not judged yet may declare the definition.
    """

    at: int
    schedule: str
    last: int
    next_fire: int
    told_missed: int
    now: int
    owed: bool = True


Fact: TypeAlias = (
    Made
    | Claimed
    | Spun
    | Settled
    | Refused
    | Freed
    | Judged
    | Applied
    | Landed
    | Reserved
    | Recorded
    | Defined
    | Ticked
    | Missed
    | Stepped
    | Down
    | Died
    | Begun
    | Waited
    | Calm
    | Stood
    | EffectStood
    | ScheduleStood
)

F = TypeVar("F")


@dataclass(slots=True)
class History:
    """Facts in order; grows while a simulation runs and is only read afterwards."""

    facts: list[Fact] = field(default_factory=list)

    def add(self, fact: Fact) -> None:
        """Append a fact."""
        self.facts.append(fact)

    def of(self, kind: type[F]) -> Iterator[F]:
        """Go through the facts of one kind."""
        return (fact for fact in self.facts if isinstance(fact, kind))

    def digest(self) -> str:
        """Return a hash of everything in it: equal for two plays of one seed."""
        return sha256("\n".join(map(repr, self.facts)).encode()).hexdigest()
