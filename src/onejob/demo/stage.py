"""What an act is given to play on, and the few gestures that acts share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from onejob.demo.part import Part
from onejob.demo.patience import LOOK_SECONDS
from onejob.demo.place import Place
from onejob.demo.processes import Fleet, Replica
from onejob.demo.provider import Ambush, Provider

#: About as long as one mail takes from end to end.
LINGER_SECONDS_MAX = 0.015


@dataclass(frozen=True, slots=True)
class Hold:
    """From when to when a replica held the job by what the store said. Monotonic seconds."""

    replica: str
    since: float
    until: float


@dataclass(slots=True)
class Stage:
    """One act's surroundings. ``random`` comes from the seed and chooses every point of fault."""

    act: str
    size: int
    customers: int
    faults: bool
    random: Random
    place: Place
    store: str
    provider: Provider
    fleet: Fleet
    holds: list[Hold] = field(default_factory=list)

    @property
    def patience(self) -> float:
        """How long anything may take before the act is given up, in seconds."""
        return 30.0 + self.customers * 0.1

    def parts(self) -> list[Part]:
        """Return one part for each replica."""
        return [
            Part(
                act=self.act,
                replica=f"replica {number}",
                customers=self.customers,
                provider=self.provider.url,
                store=self.store,
                schema=self.place.schema,
            )
            for number in range(1, self.size + 1)
        ]

    def somewhere(self, low: float, high: float) -> int:
        """Choose a number of mails between two shares of all customers, at least 1."""
        return max(
            1, self.random.randint(round(low * self.customers), round(high * self.customers))
        )

    def linger(self, ambush: Ambush) -> None:
        """Strike now, with the answer still held back, or let it go and strike some moments later.

        So that over many seeds the blow also falls into the writing down, the next claim, and
        whatever else stands between two mails.
        """
        if self.random.random() < 0.5:
            ambush.release()
            time.sleep(self.random.random() * LINGER_SECONDS_MAX)

    def wait_for_another(self, replica: Replica, *, mails: int) -> None:
        """Wait until others have asked for ``mails`` mails since this replica was frozen."""
        frozen_at = replica.marks[-1].at

        def taken_over() -> bool:
            since = [asked for asked in self.provider.requests if asked.at > frozen_at]
            return sum(1 for asked in since if asked.replica != replica.name) >= mails

        self.provider.wait_for(
            taken_over,
            seconds=self.patience,
            what=f"another replica to take over from {replica.name}",
        )

    @contextmanager
    def watch(self, holder: Callable[[], str]) -> Iterator[None]:
        """Record who holds the job, by asking the store again and again beside the block."""
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(holder, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def _watch(self, holder: Callable[[], str], over: threading.Event) -> None:
        held, since = "", time.monotonic()
        while True:
            last = over.wait(LOOK_SECONDS)
            found, now = "" if last else holder(), time.monotonic()
            if found != held:
                if held:
                    self.holds.append(Hold(held, since, now))
                held, since = found, now
            if last:
                return
