"""Queued runs that sleep, fail, time out, block their loop, and are asked for more than once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from onejob.core.retry import Cancel, OnLoss, Retry
from onejob.core.time import SECOND, Span
from onejob.prove.history import Claimed, History, Settled, Spun
from onejob.prove.provider import Trouble
from onejob.prove.verdict import Verdict, first
from onejob.prove.workload import QUICK, Job, Order, Scene, order
from onejob.runtime.settings import Declared

ATTEMPTS = QUICK.attempts


class Queue:
    """Orders of the job ``work``, told by their arguments how to behave."""

    name = "queue"

    def jobs(self) -> Sequence[Job]:
        """Return the one job, once with a timeout and once without."""
        return (
            Job("work", _work),
            Job("hasty", _work, timeout=Span(SECOND // 2), retry=Retry(2, base="100ms", cap="1s")),
        )

    def schedules(self, version: int) -> Sequence[Declared]:
        """Declare none."""
        return ()

    def orders(self, random: Random, *, chaos: int, lease: int) -> Sequence[Order]:
        """Draw orders: some twice, some of open transactions, some for later."""
        orders = []
        for number in range(random.randrange(5, 40)):
            at = random.randrange(chaos)
            losses: tuple[OnLoss, ...] = ("retry", "retry", "retry", "retry", "fail", "unknown")
            one = order(
                at,
                random.choice(("work", "work", "work", "hasty")),
                f"order {number}",
                args={
                    "sleep": int(random.choice((0, 0.01, 0.2, 1.0)) * lease * random.random()),
                    "fail": random.choice((0, 0, 0, 1, 2, 9)),
                    "block": random.choice((0,) * 12 + (lease // 2, lease * 2)),
                    "cancel": int(random.random() < 0.05),
                },
                keyed=random.random() < 0.8,
                priority=random.randrange(10) if random.random() < 0.2 else 0,
                delay=random.randrange(lease) if random.random() < 0.2 else 0,
                on_loss=random.choice(losses),
                open_for=random.randrange(2 * lease) if random.random() < 0.15 else 0,
            )
            orders += [one] * random.choice((1, 1, 1, 2, 3))
        return orders

    def check(self, history: History) -> Sequence[Verdict]:
        """Attempts are counted: a handler that fails is not tried for ever."""
        spins = [
            (f"{spun.process} got nothing {spun.times} times in a second", spun.at)
            for spun in history.of(Spun)
        ]
        return (
            first("attempts are bounded", _too_many(history)),
            first("no worker spins", spins),
        )


async def _work(scene: Scene) -> object:
    args = scene.args
    await asyncio.sleep(args["sleep"] / SECOND)
    if args["block"]:
        await scene.body.block(args["block"])
    if args["cancel"]:
        raise Cancel("withdrawn")
    scene.attempt.check()
    if scene.attempt.run.attempt <= args["fail"]:
        raise Trouble("this attempt fails")
    return scene.attempt.run.attempt


def _too_many(history: History) -> list[tuple[str, int]]:
    spent: dict[int, int] = {}
    found = []
    for fact in history.facts:
        if isinstance(fact, Settled) and fact.outcome in ("failed", "timed out"):
            spent[fact.run] = spent.get(fact.run, 0) + 1
        elif isinstance(fact, Claimed) and spent.get(fact.run, 0) >= ATTEMPTS:
            found.append((f"run {fact.run} was claimed after {ATTEMPTS} failures", fact.at))
    return found
