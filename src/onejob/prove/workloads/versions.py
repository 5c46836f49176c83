"""Two versions of the code at once: each lacks a job, and both define one schedule, apart."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from onejob.core.time import SECOND
from onejob.prove.history import Claimed, History, Made
from onejob.prove.verdict import Verdict, first
from onejob.prove.workload import Job, Order, Scene, declared, order
from onejob.runtime.settings import Declared


class Versions:
    """The job ``retired`` is known to version 1 only, ``fresh`` to version 2 only."""

    name = "versions"

    def jobs(self) -> Sequence[Job]:
        """Return one job for each version, and the one of the schedule."""
        return (
            Job("retired", _step, versions=(1,)),
            Job("fresh", _step, versions=(2,)),
            Job("chore", _step),
        )

    def schedules(self, version: int) -> Sequence[Declared]:
        """Declare the same name with another interval."""
        return (declared("chore", "chore", (5 if version == 1 else 3) * SECOND),)

    def orders(self, random: Random, *, chaos: int, lease: int) -> Sequence[Order]:
        """Draw orders for both."""
        return [
            order(
                random.randrange(chaos), random.choice(("retired", "fresh")), f"v {number}", args={}
            )
            for number in range(random.randrange(24))
        ]

    def check(self, history: History) -> Sequence[Verdict]:
        """Parking spends no attempt."""
        jobs = {made.run: made.job for made in history.of(Made)}
        spent = [
            (f"run {claimed.run} is at attempt {claimed.attempt}", claimed.at)
            for claimed in history.of(Claimed)
            if jobs.get(claimed.run) in ("retired", "fresh") and claimed.attempt > 4 + 3
        ]
        return (first("parking spends no attempt", spent),)


async def _step(scene: Scene) -> object:
    await asyncio.sleep(0.01)
    return None
