"""Schedules that every replica ticks, with each policy, while clocks and replicas misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from onejob.core.schedule import CatchUp, Overlap
from onejob.core.time import SECOND
from onejob.prove.history import History, Made
from onejob.prove.verdict import Verdict, first
from onejob.prove.workload import Job, Order, Scene, declared
from onejob.runtime.settings import Declared


class Ticks:
    """Seven schedules of one job."""

    name = "ticks"

    def jobs(self) -> Sequence[Job]:
        """Return the job that they fire."""
        return (Job("tock", _tock),)

    def schedules(self, version: int) -> Sequence[Declared]:
        """Declare the same ones in every version."""
        quick, slow = {"sleep": SECOND // 20}, {"sleep": 4 * SECOND}
        brisk = {"sleep": SECOND}
        return (
            declared("latest", "tock", 3 * SECOND, args=quick),
            declared(
                "all",
                "tock",
                4 * SECOND,
                catch_up=CatchUp.ALL,
                cap=3,
                overlap=Overlap.ALLOW,
                args=quick,
            ),
            declared("none", "tock", 7 * SECOND, catch_up=CatchUp.NONE, args=quick),
            declared(
                "punctual",
                "tock",
                5 * SECOND,
                catch_up=CatchUp.ALL,
                lateness=2 * SECOND,
                overlap=Overlap.ALLOW,
                args=quick,
            ),
            declared("overlapping", "tock", 2 * SECOND, args=slow),
            declared("queueing", "tock", 7 * SECOND, overlap=Overlap.QUEUE, args=brisk),
            declared("cancelling", "tock", 8 * SECOND, overlap=Overlap.CANCEL, args=brisk),
        )

    def orders(self, random: Random, *, chaos: int, lease: int) -> Sequence[Order]:
        """Order nothing: time does."""
        return ()

    def check(self, history: History) -> Sequence[Verdict]:
        """No fire time becomes a run before it has come."""
        early = [
            (f"{made.schedule} fired {made.fire_time} at {made.due}", made.at)
            for made in history.of(Made)
            if made.fire_time > made.due
        ]
        return (first("nothing fires early", early),)


async def _tock(scene: Scene) -> object:
    await asyncio.sleep(scene.args["sleep"] / SECOND)
    return None
