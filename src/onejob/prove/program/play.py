"""One play: a plan carried out on real processes, and the history of what happened."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onejob.prove.program.copies import Copies, Copy, wait_until
from onejob.prove.program.effects import Busy, Effects
from onejob.prove.program.faults import Kind, Plan, Point, Strike
from onejob.prove.program.judge import Found, judge

#: A platform starts a program again that did not end well; not for ever.
RESTARTS_MOST = 5

#: How often a file is looked at, and how often a query is sent.
LOOK_SECONDS, LOOK_SECONDS_SLOW = 0.002, 0.05

#: A copy that was asked to end gets this long before it is killed, as platforms do it.
GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Rules:
    """What all plays have in common. Seconds."""

    command: Sequence[str]
    effects: Effects
    patience: float
    """How long a copy may run."""
    freeze: float
    """How long a frozen copy stands still: longer than the leases that the program takes."""
    usual: float = 0.0
    """How long the fault-free run took."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What copies find in theirs beside ours."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set when nobody waits for the play any more: it ends, and its copies with it."""

    @property
    def look(self) -> float:
        """Return how often effects are looked at."""
        return LOOK_SECONDS if self.effects.quick else LOOK_SECONDS_SLOW


class Dropped(Exception):
    """The play was given up: another one has shown enough, or the user has."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: seconds from the start, to which copy (0: none), and what."""

    at: float
    copy: int
    what: str


@dataclass(frozen=True, slots=True)
class Played:
    """How a play went."""

    plan: Plan
    found: Found
    seen: Counter[str]
    history: tuple[Event, ...]
    seconds: float
    said: str


class Play:
    """Carries one plan out in a folder."""

    def __init__(self, plan: Plan, rules: Rules, folder: Path, log: Path) -> None:
        self._plan, self._rules, self._folder = plan, rules, folder
        self._copies = Copies(rules.command, rules.environment, folder, log)
        self._began = time.monotonic()
        self._events: list[Event] = []
        self._seen: Counter[str] = Counter()
        self._told: set[int] = set()
        self._restarts = 0

    def run(self, expected: Counter[str]) -> Played:
        """Play it to its end; Dropped where it is given up. No process of it is left either way."""
        with self._copies:
            for _ in range(self._plan.copies):
                self._start("starts")
            for strike in self._plan.strikes:
                self._strike(strike)
            self._come_to_rest()
            if self._plan.again:
                self._start("is started again, for the same work")
                self._come_to_rest()
            if expected - self._seen and self._well():
                # Turned away by what a dead copy held, perhaps: the next tick tries again.
                self._until(lambda: False, self._rules.freeze)
                self._start("is started once more, as the next tick would be")
                self._come_to_rest()
            finished = any(copy.code == 0 for copy in self._copies.all)
            self._read()
            said = self._copies.last_words()
        seconds = time.monotonic() - self._began
        found = judge(expected, self._seen, finished=finished)
        return Played(self._plan, found, self._seen, tuple(self._events), seconds, said)

    def _start(self, how: str) -> Copy:
        copy = self._copies.start()
        self._tell(copy, how)
        return copy

    def _strike(self, strike: Strike) -> None:
        """Wait for the point, and strike the copy that began first."""
        if not self._reach(strike.point):
            return
        victim = next((copy for copy in self._copies.alive() if not copy.frozen), None)
        if victim is None:
            return
        match strike.kind:
            case Kind.KILL:
                victim.struck = True
                victim.signal(signal.SIGKILL)
                victim.process.wait()
                self._tell(victim, "is killed")
                self._start("is started in its place")
            case Kind.STOP:
                victim.struck = True
                self._tell(victim, "is asked to end")
                victim.signal(signal.SIGTERM)
                if not self._until(lambda: not victim.alive, GRACE_SECONDS):
                    victim.signal(signal.SIGKILL)
                    victim.process.wait()
                    self._tell(victim, "did not end, and is killed")
                self._start("is started in its place")
            case Kind.FREEZE:
                self._freeze(victim)

    def _freeze(self, victim: Copy) -> None:
        """Let rivals work while it stands still, and thaw it beside the last of them."""
        victim.freeze()
        self._tell(victim, "is frozen")
        end = time.monotonic() + self._rules.freeze
        before = self._seen.total()
        rival = self._start("is started beside it")
        self._until(lambda: not rival.alive, self._rules.freeze)
        self._until(lambda: time.monotonic() >= end, self._rules.freeze)
        if not rival.alive and self._seen.total() == before:
            # Turned away by a lock that is over by now: the next tick gets in.
            rival = self._start("is started beside it")
            self._until(
                lambda: not rival.alive or self._seen.total() > before, self._rules.patience
            )
        self._tell(victim, "thaws")
        victim.thaw()

    def _reach(self, point: Point) -> bool:
        """Wait for a point; False where everything ended before it came."""
        came = self._until(
            lambda: self._seen.total() >= point.effects or not self._copies.alive(),
            self._rules.patience,
        )
        if point.share:
            pause = point.share * self._rules.usual
            end = time.monotonic() + pause
            self._until(
                lambda: time.monotonic() >= end or not self._copies.alive(), self._rules.patience
            )
        return came and bool(self._copies.alive())

    def _come_to_rest(self) -> None:
        """Wait for the end of all; start again what did not end well, as a platform does."""
        while True:
            if not self._until(lambda: not self._copies.alive(), self._rules.patience):
                for copy in self._copies.alive():
                    copy.signal(signal.SIGKILL)
                    copy.process.wait()
                    self._tell(copy, f"has not ended in {self._rules.patience:g} s, and is killed")
            if self._well() or self._restarts >= RESTARTS_MOST:
                return
            self._restarts += 1
            self._start("is started again")

    def _well(self) -> bool:
        """Tell whether some copy ended well of itself."""
        return any(copy.code == 0 and not copy.struck for copy in self._copies.all)

    def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait, watching the effects and the ends meanwhile."""

        def looked() -> bool:
            if self._rules.over.is_set():
                raise Dropped
            self._look()
            return condition()

        return wait_until(looked, seconds=seconds, every=self._rules.look)

    def _read(self) -> None:
        seen = self._rules.effects.read(self._folder)
        for key in (seen - self._seen).elements():
            self._events.append(Event(self._now(), 0, f"effect {key}"))
        self._seen = seen

    def _look(self) -> None:
        try:
            self._read()
        except Busy:
            pass  # looked at again in a moment, and once more when all have ended
        for copy in self._copies.all:
            if copy.code is not None and copy.number not in self._told:
                self._told.add(copy.number)
                if not copy.struck:
                    self._tell(copy, f"ends with {copy.code}")

    def _tell(self, copy: Copy, what: str) -> None:
        self._events.append(Event(self._now(), copy.number, what))

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 3)
