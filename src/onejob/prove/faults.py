"""Faults as data: what goes wrong, where and when, decided by a seed and nothing else.

A fault of a command is decided by its *site*: which process, which command, the how-manyth. So a
fault that is dropped from a plan leaves the others where they are, and a failing history can be
shrunk. Faults of time (a pause, an outage) are listed before the play begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from random import Random
from typing import Final, TypeAlias

from onejob.core.time import SECOND


class Wrong(StrEnum):
    """What can go wrong with one command."""

    REFUSED = "refused"
    """No connection: nothing was sent, and the caller knows."""
    REQUEST_LOST = "request lost"
    """The connection breaks before the store has read it: nothing done, the caller can't know."""
    REPLY_LOST = "reply lost"
    """Carried out, and the caller can't know."""
    SLOW = "slow"
    """Carried out late, answered later."""
    REORDERED = "reordered"
    """The caller gives up; the store carries it out afterwards, behind younger commands."""
    LOCKED = "locked"
    """Somebody holds locks on half of the rows: commands that skip locked rows skip those."""
    CUT = "cut off"
    """The store's end dies between two statements of the command, or before the commit."""
    CRASH_BEFORE = "crash before"
    """The process dies before anything is sent."""
    CRASH_AFTER = "crash after"
    """The process dies with the request on its way: it is carried out."""


class Ill(StrEnum):
    """What can go wrong with a process, the store or its clock, from a time on."""

    PAUSED = "paused"
    SUSPENDED = "suspended"
    CRASHED = "crashed"
    BLOCKED = "loop blocked"
    PARTED = "parted from the store"
    REDEPLOYED = "redeployed"
    OUTAGE = "store outage"
    CLOCK = "store clock step"


@dataclass(frozen=True, slots=True)
class CommandFault:
    """The ``nth`` sending of ``command`` by ``process`` goes wrong, and takes ``span``."""

    wrong: Wrong
    process: str
    command: str
    nth: int
    span: int


@dataclass(frozen=True, slots=True)
class TimedFault:
    """From ``at`` on, for ``span``; a clock step is by ``span``."""

    ill: Ill
    at: int
    span: int
    process: str = ""


Fault: TypeAlias = CommandFault | TimedFault

#: Commands that skip locked rows.
SKIPPING: Final = frozenset({"run_claim", "run_claim_alone", "run_settle", "schedule_tick"})

#: Commands sent all the time, and those sent now and then: the others get more than their share.
FREQUENT: Final = frozenset(
    {"run_claim", "run_settle", "replica_look", "replica_renew", "schedule_due"}
)
OCCASIONAL: Final = frozenset(
    {"replica_join", "replica_idle", "run_held", "run_standings"}
    | {"run_enqueue", "run_enqueue_one", "run_enqueue_keyed", "run_enqueue_alike"}
    | {"schedule_read", "schedule_live_definitions", "schedule_define", "schedule_tick"}
)
#: Commands of which most plays send none at all: each sending counts.
RARE: Final = frozenset(
    {"run_unpark", "run_park", "run_retry", "run_fence", "effect_reclaim", "effect_release"}
    | {"replica_judge", "replica_lost", "run_cancel", "run_cancels", "schedule_lost"}
    | {"run_claim_alone", "replica_leave"}
)
#: Sent one after the other: what befalls one keeps those behind it from being sent.
CHAINED: Final = frozenset(
    {"run_purge", "ledger_purge", "event_purge", "replica_forget", "lease_purge", "fence_purge"}
)
_OCCASIONAL_TIMES: Final = 2
_RARE_TIMES: Final = 5
#: However rare a command, it gets through sometimes.
_RATE_MOST: Final = 0.7
_RATE_CHAINED: Final = 0.3

_CRASHES: Final = (Wrong.CRASH_BEFORE, Wrong.CRASH_AFTER)
#: One in so many faults drawn as a crash is one: a process that only crashes shows nothing else.
_CRASHES_KEPT: Final = 6
_WHOLE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Mix:
    """What one seed tries: seeds differ in kind, since everything at once hides what each can do.

    ``rate`` is the share of commands that go wrong; ``slowest`` bounds what a fault takes.
    """

    rate: float
    wrongs: tuple[Wrong, ...]
    slowest: int
    drift_ppm: int
    timed: tuple[TimedFault, ...]


def mix(seed: int, *, processes: Sequence[str], chaos: int, lease: int) -> Mix:
    """Draw what a seed tries in ``chaos`` microseconds."""
    random = Random(f"mix {seed}")
    wrongs = tuple(wrong for wrong in Wrong if random.random() < 0.6) or (Wrong.REPLY_LOST,)
    ills = [ill for ill in Ill if random.random() < 0.5]
    timed = [
        _timed(random, random.choice(ills), processes, chaos, lease)
        for _ in range(random.randrange(14) if ills else 0)
    ]
    for _ in range(random.randrange(3)):  # a rolling deploy, and the way back
        start = random.randrange(chaos // 2)
        timed += [
            TimedFault(Ill.REDEPLOYED, start + number * lease // 2, 0, process)
            for number, process in enumerate(processes)
        ]
    return Mix(
        rate=random.choice((0.02, 0.1, 0.2, 0.35)),
        wrongs=wrongs,
        slowest=random.choice((lease // 20, lease // 3, lease)),
        drift_ppm=random.choice((0, 200, 20_000)),
        timed=tuple(sorted(timed, key=lambda fault: fault.at)),
    )


def _timed(
    random: Random, ill: Ill, processes: Sequence[str], chaos: int, lease: int
) -> TimedFault:
    at = random.randrange(chaos)
    span = int(lease * random.choice((0.1, 0.5, 0.95, 1.1, 2.0)) * (0.9 + 0.2 * random.random()))
    process = random.choice(processes)
    match ill:
        case Ill.OUTAGE:
            return TimedFault(ill, at, span)
        case Ill.CLOCK:
            # Below the margin (a twelfth), and above the lease; forward and back.
            by = int(lease * random.choice((0.03, -0.03, 0.5, -0.5, 3.0, -3.0)))
            return TimedFault(ill, at, by)
        case _:
            return TimedFault(ill, at, min(span, chaos), process)


class Plan:
    """The faults of one play.

    With ``only``, no others are drawn: that is how a play is shrunk. ``more`` happen in any case.
    """

    def __init__(
        self,
        seed: int,
        mix: Mix,
        only: frozenset[Fault] | None = None,
        more: Sequence[Fault] = (),
    ) -> None:
        self._seed, self._mix, self._only = seed, mix, only
        drawn = [fault for fault in mix.timed if only is None or fault in only]
        self.timed = (*drawn, *(fault for fault in more if isinstance(fault, TimedFault)))
        self._more = {
            (fault.process, fault.command, fault.nth): fault
            for fault in more
            if isinstance(fault, CommandFault)
        }
        self.injected: list[Fault] = []
        self.over = False
        self._counts: dict[tuple[str, str], int] = {}

    def site(self, process: str, command: str) -> Site:
        """Return the next sending of a command by a process."""
        nth = self._counts.get((process, command), 0)
        self._counts[process, command] = nth + 1
        name = f"{self._seed}|{process}|{command}|{nth}"
        digest = blake2b(name.encode(), digest_size=10).digest()
        return Site(
            process, command, nth, *(digest[i] << 8 | digest[i + 1] for i in range(0, 10, 2))
        )

    def fault(self, site: Site) -> CommandFault | None:
        """Decide what goes wrong there; None for nothing."""
        if self.over:
            return None
        if given := self._more.get((site.process, site.command, site.nth)):
            self.injected.append(given)
            return given
        if site.whether >= self._rate(site.command) * _WHOLE:
            return None
        wrong = self._mix.wrongs[site.which % len(self._mix.wrongs)]
        if wrong is Wrong.LOCKED and site.command not in SKIPPING:
            return None
        if wrong in _CRASHES and site.command not in RARE | CHAINED and site.bits % _CRASHES_KEPT:
            return None
        span = 500 + self._mix.slowest * site.amount // _WHOLE
        fault = CommandFault(wrong, site.process, site.command, site.nth, span)
        if self._only is not None and fault not in self._only:
            return None
        self.injected.append(fault)
        return fault

    def _rate(self, command: str) -> float:
        """Return the share of a command's sendings that go wrong."""
        if command in RARE:
            return _RATE_MOST
        if command in CHAINED:
            return _RATE_CHAINED
        if command in FREQUENT:
            return self._mix.rate
        times = _OCCASIONAL_TIMES if command in OCCASIONAL else _RARE_TIMES
        return min(_RATE_MOST, self._mix.rate * times)

    def happens(self, fault: TimedFault) -> None:
        """Take note that a timed fault has begun."""
        self.injected.append(fault)


@dataclass(frozen=True, slots=True)
class Site:
    """One sending of one command, with numbers below 65,536 that belong to it alone."""

    process: str
    command: str
    nth: int
    whether: int
    which: int
    amount: int
    network: int
    bits: int

    @property
    def there(self) -> int:
        """How long the request travels, in microseconds."""
        return 100 + self.network % 900

    @property
    def back(self) -> int:
        """How long the reply travels."""
        return 100 + self.network // 900 * 10

    def hides(self, id: int) -> bool:
        """Tell whether a row of this number is among those that somebody has locked."""
        return bool((self.bits >> id % 16) & 1)


def show(fault: Fault) -> str:
    """Say a fault in a line."""
    match fault:
        case CommandFault(wrong, process, command, nth, span):
            return f"{process}: {command} no. {nth}: {wrong} ({span / SECOND:.3f} s)"
        case TimedFault(ill, at, span, process):
            return f"{at / SECOND:9.3f} s: {ill} {process} {span / SECOND:+.3f} s".replace(
                "  ", " "
            )
