"""Runs that take their replica down with them, and must not take the fleet."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from onejob.core.retry import MAX_DEATHS
from onejob.prove.history import Claimed, Freed, History, Settled
from onejob.prove.verdict import Verdict, first
from onejob.prove.workload import Job, Order, Scene, order
from onejob.runtime.settings import Declared


class Poison:
    """Orders of the job ``poison``: each crashes its process, some only at first."""

    name = "poison"

    def jobs(self) -> Sequence[Job]:
        """Return the one job."""
        return (Job("poison", _poison),)

    def schedules(self, version: int) -> Sequence[Declared]:
        """Declare none."""
        return ()

    def orders(self, random: Random, *, chaos: int, lease: int) -> Sequence[Order]:
        """Draw one or two, in some plays only."""
        if random.random() < 0.6:
            return ()
        return [
            order(
                random.randrange(chaos),
                "poison",
                f"poison {number}",
                args={"crashes": random.choice((1, 2, 9))},
            )
            for number in range(random.choice((1, 1, 2)))
        ]

    def check(self, history: History) -> Sequence[Verdict]:
        """A run is given up at its last death, and survivors of one are claimed alone."""
        return (
            first("deaths are bounded", _too_deadly(history)),
            first("survivors are claimed alone", _in_company(history)),
        )


async def _poison(scene: Scene) -> object:
    if scene.attempt.run.deaths < scene.args["crashes"]:
        scene.body.crash()
        await scene.body.block(10**12)  # no further turn is taken here
    return "survived"


def _too_deadly(history: History) -> list[tuple[str, int]]:
    deaths: dict[int, int] = {}
    found = []
    for fact in history.facts:
        if isinstance(fact, Settled) and fact.outcome == "abandoned":
            deaths[fact.run] = deaths.get(fact.run, 0) + 1
            if deaths[fact.run] >= MAX_DEATHS and fact.to == "scheduled":
                found.append((f"run {fact.run} came back after {deaths[fact.run]} deaths", fact.at))
    return found


def _in_company(history: History) -> list[tuple[str, int]]:
    survivors: set[int] = set()
    found = []
    for fact in history.facts:
        match fact:
            case Settled(outcome="abandoned", to="scheduled"):
                survivors.add(fact.run)
            case Freed():
                survivors.discard(fact.run)  # by a person, or by its effect's outcome: counts anew
            case Claimed(alone=False) if fact.run in survivors:
                found.append(
                    (f"run {fact.run} has outlived a replica and was taken in a batch", fact.at)
                )
            case _:
                pass
    return found
