"""Where to start looking for claimable runs: a hint that keeps claiming flat.

In a store with multi-version rows, the entries of claimed runs stay in the index until vacuum,
in front of the live ones. A claim that starts at the beginning walks over all of them: measured,
it falls to a third of its rate after a million runs, and to a seventieth while somebody holds an
old snapshot. So a worker remembers the last (due, id) that it claimed, per queue and priority,
and starts there. This is a hint and never a reason for correctness: a *full* claim, from the
beginning, finds whatever appears behind (late commits, runs given back, new priorities).

No trailing margin: it rewinds a whole bulk enqueue and defeats the purpose (measured).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from onejob.core.run import ClaimedRun
from onejob.core.time import Span

PRIORITIES = range(10)

#: A full claim runs at least this often while claims succeed …
FULL_LEAST = Span(500_000)
#: … unless it is expensive: then at most this share of the time goes into it.
FULL_COST_TIMES = 10

#: A full claim that was slow once (a stall, an outage) does not postpone the next one for longer.
FULL_MOST = Span(2_000_000)

#: Before every run that can exist.
BEGINNING = (-1, -1)


@dataclass(frozen=True, slots=True)
class Probe:
    """Look in this queue at this priority for runs behind (due, id)."""

    queue: str
    priority: int
    due: int
    id: int


def full_probes(queues: Iterable[str]) -> tuple[Probe, ...]:
    """Return the probes that miss nothing: every priority of every queue from its beginning."""
    names = tuple(queues)
    return tuple(Probe(queue, priority, *BEGINNING) for priority in PRIORITIES for queue in names)


@dataclass(slots=True)
class Watermark:
    """What one worker remembers between claims. Times are local monotonic microseconds."""

    queues: tuple[str, ...]
    marks: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    store_now: int = 0
    full_at: int = 0
    full_cost: int = 0
    short: bool = True

    def probes(self, now: int) -> tuple[Probe, ...]:
        """Return where the next claim looks: the marks, or everything when a full claim is due."""
        if not self.marks or self.full_due(now):
            return full_probes(self.queues)
        return tuple(
            Probe(queue, priority, due, id)
            for (priority, queue), (due, id) in sorted(self.marks.items())
        )

    def full_due(self, now: int) -> bool:
        """Tell whether the bound on what lies behind the marks has run out.

        After a short claim only the cost counts: waiting would be idling beside a backlog of
        another priority.
        """
        return now >= self.full_due_at

    @property
    def full_due_at(self) -> int:
        """When the next full claim is due."""
        least = 0 if self.short else FULL_LEAST
        return self.full_at + min(FULL_MOST, max(least, FULL_COST_TIMES * self.full_cost))

    def claimed(
        self, runs: Iterable[ClaimedRun], *, full: bool, wanted: int, sent: int, now: int
    ) -> None:
        """Remember how a claim for ``wanted`` runs went, from ``sent`` to ``now``."""
        got = 0
        for run in runs:
            got += 1
            if run.claimed < self.store_now:
                # The store's clock went back: due times behind the marks may be in use again.
                self.marks.clear()
            self.store_now = run.claimed
            place = (run.priority, run.queue)
            self.marks[place] = max(self.marks.get(place, BEGINNING), (run.due, run.id))
        if full:
            self.full_at, self.full_cost = now, now - sent
        self.short = got < wanted

    def forget(self) -> None:
        """Start from the beginning again (after a lost reply, a wake-up, or an idle spell)."""
        self.marks.clear()
