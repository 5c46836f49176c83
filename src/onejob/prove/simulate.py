"""Play seeds and judge what comes of them: ``python -m onejob.prove.simulate --seeds 300``.

A seed decides everything: the sizes, the orders, the faults. Playing it again gives the same
history to the letter, and playing it with fewer faults is how a failure is made small.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from onejob.core.time import SECOND
from onejob.prove import checkers, workloads
from onejob.prove.faults import Fault, Plan, mix
from onejob.prove.history import History
from onejob.prove.shrink import shrink
from onejob.prove.verdict import Standing, Verdict
from onejob.prove.workload import Workload
from onejob.prove.world import Setting, World
from onejob.runtime.events import log
from onejob.stores.memory import MemoryStore
from onejob.stores.protocol import Store

MakeStore = Callable[[Callable[[], int]], Store]


@dataclass(frozen=True, slots=True)
class Report:
    """One play: what was injected, what happened, and how each promise stands."""

    seed: int
    verdicts: tuple[Verdict, ...]
    injected: tuple[Fault, ...]
    history: History
    events: Counter[str]
    commands: int

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """Return what is not valid."""
        return tuple(v for v in self.verdicts if v.standing is not Standing.VALID)


def simulate(
    seed: int,
    *,
    only: frozenset[Fault] | None = None,
    more: Sequence[Fault] = (),
    works: Sequence[Workload] = (),
    make_store: MakeStore = MemoryStore,
) -> Report:
    """Play one seed.

    With ``only``, with no other faults than those, and with ``more`` in any case; with ``works``,
    with those instead of the workloads that the seed draws.
    """
    setting = draw(seed)
    given = mix(seed, processes=setting.processes, chaos=setting.chaos, lease=setting.lease)
    plan = Plan(seed, given, only, more)
    works = works or workloads.drawn(seed)
    world = World(seed, setting, given, plan, works, make_store)
    silenced, log.disabled = log.disabled, True
    try:
        world.play()
    finally:
        log.disabled = silenced
    verdicts = [*checkers.check(world.history), *world.troubles()]
    for work in works:
        verdicts += work.check(world.history)
    return Report(
        seed,
        tuple(verdicts),
        tuple(plan.injected),
        world.history,
        world.events,
        world.server.carried,
    )


def draw(seed: int) -> Setting:
    """Draw the size of a seed's play."""
    random = Random(f"setting {seed}")
    lease = random.choice((2, 4, 6)) * SECOND
    return Setting(
        processes=tuple("abcd"[: random.choice((2, 3, 3, 4))]),
        lease=lease,
        chaos=random.choice((5, 8)) * lease,
        concurrency=random.choice((1, 4, 10)),
        listens=random.random() < 0.6,
        versioned=random.random() < 0.5,
    )


def smallest(report: Report, *, make_store: MakeStore = MemoryStore) -> Report:
    """Drop faults from a failing play for as long as the same promise stays broken."""
    broken = {verdict.promise for verdict in report.failures}

    def fails(faults: Sequence[Fault]) -> bool:
        again = simulate(report.seed, only=frozenset(faults), make_store=make_store)
        return any(verdict.promise in broken for verdict in again.failures)

    faults = shrink(report.injected, fails)
    return simulate(report.seed, only=frozenset(faults), make_store=make_store)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play many seeds and print what was tried; 1 where a promise did not hold."""
    from onejob.prove.many import Asked, play

    parser = argparse.ArgumentParser(prog="python -m onejob.prove.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first one")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so long (0: never)")
    parser.add_argument("--faults", type=int, default=0, help="stop after so many; fail below")
    parser.add_argument("--each", type=int, default=0, help="and so many of each kind met")
    parser.add_argument("--jobs", type=int, default=1, help="in so many processes")
    parser.add_argument("--store", choices=("memory", "sqlite"), default="memory")
    parser.add_argument("--no-shrink", action="store_true", help="show failures as they are")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    asked = Asked(
        store=given.store,
        shrink=not given.no_shrink,
        seconds=given.seconds,
        faults=given.faults,
        each=given.each,
        jobs=given.jobs,
    )
    return play(asked, range(given.start, given.start + given.seeds))


if __name__ == "__main__":
    sys.exit(main())
