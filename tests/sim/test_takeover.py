"""P3 by the clock: what a crashed replica held is given back within a lease and one sweep."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from onejob.core import lease as rules
from onejob.core.time import SECOND, Span
from onejob.prove.faults import CommandFault, Ill, TimedFault, Wrong
from onejob.prove.history import Claimed, Died, History, Settled
from onejob.prove.simulate import draw, simulate
from onejob.prove.verdict import Verdict
from onejob.prove.workload import Job, Order, Scene, order
from onejob.runtime.settings import Declared

#: The look just after a lease has lapsed, the judgement, and three ways there and back.
SLACK = SECOND // 5
#: Clocks drift by up to 2 % in these plays, the store's and each process's.
DRIFT = 1.04


class Naps:
    """Runs that sleep, and neither block their loop nor hold their row: nothing delays a sweep."""

    name = "naps"

    def jobs(self) -> Sequence[Job]:
        return (Job("nap", nap),)

    def schedules(self, version: int) -> Sequence[Declared]:
        return ()

    def orders(self, random: Random, *, chaos: int, lease: int) -> Sequence[Order]:
        return [
            order(
                random.randrange(chaos), "nap", f"{number}", args={"sleep": random.randrange(lease)}
            )
            for number in range(60)
        ]

    def check(self, history: History) -> Sequence[Verdict]:
        return ()


async def nap(scene: Scene) -> object:
    await asyncio.sleep(scene.args["sleep"] / SECOND)
    return None


@pytest.mark.parametrize("seed", range(400, 420))
def test_a_dead_replicas_runs_are_given_back_within_a_lease_and_a_sweep(seed: int) -> None:
    lease = Span(draw(seed).lease)
    crash = TimedFault(Ill.CRASHED, 3 * lease, 0, "a")

    played = simulate(seed, only=frozenset(), more=(crash,), works=(Naps(),))

    assert played.failures == ()
    for waited in delays(played.history):
        assert waited <= (lease + rules.sweep_every(lease)) * DRIFT + SLACK


def delays(history: History) -> list[int]:
    """How long each run of process a was in the hands of the dead."""
    [died] = [death.at for death in history.of(Died)]
    holding = {c.run: c.token for c in history.of(Claimed) if c.at < died and c.replica[0] == "a"}
    return [
        settled.at - died
        for settled in history.of(Settled)
        if settled.at > died and holding.get(settled.run) == settled.token
    ]


def test_some_of_these_plays_have_runs_to_give_back() -> None:
    def crashed(seed: int) -> History:
        crash = TimedFault(Ill.CRASHED, 3 * draw(seed).lease, 0, "a")
        return simulate(seed, only=frozenset(), more=(crash,), works=(Naps(),)).history

    assert sum(len(delays(crashed(seed))) for seed in range(400, 420)) >= 5


@pytest.mark.parametrize("seed", range(430, 442))
def test_a_clean_stop_is_no_death(seed: int) -> None:
    """A rolling deploy while claims are on their way: everything is given back in order."""
    setting = draw(seed)
    deploys = [
        TimedFault(Ill.REDEPLOYED, setting.lease // 2 + number * setting.lease // 3, 0, process)
        for number, process in enumerate(setting.processes * 2)
    ]
    slow = [
        CommandFault(Wrong.SLOW, process, "run_claim", number, SECOND // 3)
        for process in setting.processes
        for number in range(100)
    ]

    played = simulate(seed, only=frozenset(), more=[*deploys, *slow], works=(Naps(),))

    assert played.failures == ()
    assert [s for s in played.history.of(Settled) if s.outcome == "abandoned"] == []
