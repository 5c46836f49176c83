"""Effects: in the store's own database under a fence, and at a provider who may stay silent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

from onejob.commands import ledger
from onejob.commands.ledger import NewEntry
from onejob.core.effect import IfUnknown, Policy, claimant
from onejob.core.payload import Signature
from onejob.core.time import DAY, SECOND, Span
from onejob.effect import Done, Effect, Redo, Request, Unknown
from onejob.errors import InProgress
from onejob.procedure import perform
from onejob.prove.history import Applied, History, Landed, Made, Reserved, Settled, Waited
from onejob.prove.provider import Mood, ProviderDeclined
from onejob.prove.verdict import Verdict, first
from onejob.prove.workload import Job, Order, Scene, order
from onejob.runtime.settings import Declared
from onejob.steps import Call, acarry

T = TypeVar("T")

_ANSWERS = ("yes", "yes", "yes", "silent", "lost", "not sent", "declined")


class Effects:
    """The jobs ``fenced``, ``steps`` and ``pay``; orders say how the provider answers attempts."""

    name = "effects"

    def jobs(self) -> Sequence[Job]:
        """Return them."""
        return (Job("fenced", _fenced), Job("steps", _steps), Job("pay", _pay))

    def schedules(self, version: int) -> Sequence[Declared]:
        """Declare none."""
        return ()

    def orders(self, random: Random, *, chaos: int, lease: int) -> Sequence[Order]:
        """Draw orders of both, with holds and flights around the lease."""
        orders = []
        for number in range(random.randrange(4, 40)):
            at, key = random.randrange(chaos), f"effect {number}"
            kind = random.choice(("fenced", "steps", "pay", "pay", "pay", "pay"))
            if kind == "steps":
                args: dict[str, Any] = {
                    "steps": random.randrange(5, 25),
                    "sleep": lease // random.choice((10, 40)),
                }
                orders.append(order(at, "steps", key, args=args))
                continue
            if kind == "fenced":
                hold = int(random.choice((0.001, 0.1, 0.6, 1.3)) * lease * random.random())
                orders.append(order(at, "fenced", key, args={"hold": hold}))
                continue
            moods = [
                [
                    int(random.choice((0.01, 0.2, 1.5)) * lease * random.random()),
                    random.choice(_ANSWERS),
                ]
                for _ in range(3)
            ]
            policy = random.choice([policy.value for policy in IfUnknown])
            sleep = int(random.choice((0, 0.1, 0.8)) * lease)
            stubborn = int(random.random() < 0.4)
            args = {"moods": moods, "policy": policy, "sleep": sleep, "stubborn": stubborn}
            orders.append(order(at, "pay", key, args=args))
        return orders

    def check(self, history: History) -> Sequence[Verdict]:
        """What a run reports as done has happened, and a repeat names the same key."""
        return (
            first("a succeeded run has its effect", _missing(history)),
            first("the provider is given one key for one effect", _renamed(history)),
            first("no attempt waits for an earlier one", _waiting(history)),
        )


async def _fenced(scene: Scene) -> object:
    claim = scene.attempt.run.claim
    await scene.link.apply(
        claim, scene.attempt.run.key, hold=scene.args["hold"], idle_limit=scene.lease
    )
    return None


async def _steps(scene: Scene) -> object:
    """Write at every step, without asking whether the lease still holds: the store must."""
    run = scene.attempt.run
    for step in range(scene.args["steps"]):
        await asyncio.sleep(scene.args["sleep"] / SECOND)
        written = ledger.first_in_run(run.claim, "applied", f"{run.key}/{step}", keep=400 * DAY)
        if not await scene.link.run(written):
            scene.attempt.check()
    return None


async def _pay(scene: Scene) -> object:
    await asyncio.sleep(scene.args["sleep"] / SECOND)
    run = scene.attempt.run
    moods: list[list[Any]] = scene.args["moods"]
    flight, answer = moods[min(run.attempt, len(moods)) - 1]
    policy = IfUnknown(scene.args["policy"])

    async def charge(name: str) -> str:
        mood = Mood(flight, answer)
        keyed = policy is IfUnknown.REPEAT
        return await scene.provider.charge(run.scope, "pay", name, mood, keyed=keyed)

    async def ask(effect: Effect) -> Done | Redo | Unknown:
        match scene.provider.knows(effect.scope, effect.key):
            case "done":
                return Done("receipt of pay")
            case None:
                return Unknown()
            case _:
                return Redo()

    request = _request(scene, policy, charge, ask)
    paying = acarry(perform(request, scene.events), scene.link.run)
    try:
        return await (_stubbornly(paying) if scene.args["stubborn"] else paying)
    except InProgress as busy:
        if busy.age_seconds:  # else it moved under our hands, or the store answered nothing
            scene.diary.waited(run.id, run.token)
        raise


async def _stubbornly(work: Coroutine[Any, Any, T]) -> T:
    """Go on to the end when cancelled, as a thread would."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue
        except Exception:  # noqa: BLE001 - raised below
            break
    return task.result()


def _request(
    scene: Scene,
    policy: IfUnknown,
    charge: Callable[[str], Awaitable[str]],
    ask: Callable[[Effect], Awaitable[Done | Redo | Unknown]],
) -> Request:
    run = scene.attempt.run
    # As AsyncRun.effect names its calls; an attempt here makes one.
    entry = NewEntry(run.scope, "pay", claimant(f"{run.replica}/{run.token}", "call"))
    return Request(
        entry=entry,
        call=Call(charge, (f"key of {run.scope}",)),
        policy=Policy(policy, Span(DAY)),
        resolver=ask if policy is IfUnknown.ASK else None,
        final=(ProviderDeclined,),
        results=Signature.of(charge, name="pay"),
        provider_key=f"key of {run.scope}",
        keep=Span(400 * DAY),
        run=run.claim,
    )


def _missing(history: History) -> list[tuple[str, int]]:
    jobs = {made.run: made for made in history.of(Made)}
    applied = Counter(fact.key for fact in history.of(Applied))
    landed = Counter(fact.scope for fact in history.of(Landed))
    found = []
    for settled in history.of(Settled):
        made = jobs.get(settled.run)
        if settled.outcome != "succeeded" or made is None:
            continue
        if made.job == "fenced" and not applied[made.key]:
            found.append((f"run {settled.run} succeeded without its write", settled.at))
        if made.job == "steps" and not applied[f"{made.key}/0"]:
            found.append((f"run {settled.run} succeeded without its steps", settled.at))
        if made.job == "pay" and not landed[f"pay/{made.key}"]:
            found.append((f"run {settled.run} succeeded without its call", settled.at))
    return found


def _renamed(history: History) -> list[tuple[str, int]]:
    names: dict[tuple[str, str], str] = {}
    return [
        (f"{landed.scope} was called as {landed.provider_key}", landed.at)
        for landed in history.of(Landed)
        if names.setdefault((landed.scope, landed.key), landed.provider_key) != landed.provider_key
    ]


def _waiting(history: History) -> Iterator[tuple[str, int]]:
    """Find attempts that took a superseded one for a caller who is still entitled."""
    owners: dict[int, int] = {}
    for fact in history.facts:
        match fact:
            case Reserved(run=run, token=token):
                owners[run] = token
            case Waited(at, run, token) if owners.get(run, token) != token:
                yield f"run {run} under {token} waits for the call of {owners[run]}", at
            case _:
                pass
