"""Play the exercise: for each way, one holder stands still, another takes over, the first goes on.

1. The first takes the lock, and is stalled at once: frozen, or its network is.
2. It is told to write. (A frozen one hears it when it wakes; a stalled network delivers it late.)
3. The second waits for the lock, gets it when the lease is over, and writes.
4. The pause ends. The first one's write arrives.
5. It gives its lock back, as it believes; a third asks whether the lock is free now.

With ``token-at-write`` the second writes after the first has: that order is what it overlooks.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from onejob.core.time import SECOND
from onejob.demo.part import Part
from onejob.demo.patience import Stuck
from onejob.demo.pause.cast import ANSWER_SECONDS, Actor, Cast
from onejob.demo.pause.desk import Desk, SqlDesk
from onejob.demo.pause.outcome import Holding, PauseResult, Written
from onejob.demo.pause.plan import PausePlan
from onejob.demo.pause.redis_desk import RedisDesk
from onejob.demo.pause.timeline import drawn
from onejob.demo.pause.wire import through_a_network
from onejob.demo.place import Place
from onejob.demo.processes import Mark

NAMES = ("first", "second", "third")
Began = Callable[[str], None]
Ended = Callable[[PauseResult], None]


class Stall(Protocol):
    """What makes the first one stand still, and lets it go on."""

    def begin(self, actor: Actor) -> None:
        """Stand still."""
        ...

    def end(self, actor: Actor) -> None:
        """Go on."""
        ...


def play(plan: PausePlan, *, began: Began, ended: Ended) -> list[PauseResult]:
    """Play every way. Nothing is left behind: no process, no table, no key."""
    plan.check()
    results = []
    with tempfile.TemporaryDirectory(prefix="onejob-demo-") as directory:
        for way in plan.ways:
            began(way)
            results.append(_play(way, plan, Path(directory)))
            ended(results[-1])
    return results


def _play(way: str, plan: PausePlan, directory: Path) -> PauseResult:
    schema = f"demo_{secrets.token_hex(4)}"
    with _laid_out(plan, schema) as desk, ExitStack() as stack:
        url = plan.url
        stall: Stall = _Frozen(_writable(desk))
        if plan.stall == "network":
            url, network = stack.enter_context(through_a_network(plan.url))
            stall = network
        cast = stack.enter_context(Cast(directory))
        parts = [
            Part(way, who, 1, "", url if who == "first" else plan.url, schema) for who in NAMES
        ]
        exercise = _Exercise(way, plan, cast.start(parts, way=way, ttl=plan.ttl / SECOND), stall)
        trouble = ""
        try:
            exercise.go()
        except Stuck as error:
            trouble = str(error)
        return exercise.result(trouble)


class _Exercise:
    """One way being played."""

    def __init__(self, way: str, plan: PausePlan, actors: list[Actor], stall: Stall) -> None:
        self.way, self.plan, self.stall = way, plan, stall
        self.first, self.second, self.third = actors
        self.began = time.monotonic()
        self.holders: list[Holding] = []
        self.writes: list[Written] = []
        self.freed_another = False

    def go(self) -> None:
        ttl, pause = self.plan.ttl / SECOND, self.plan.pause / SECOND
        token = self._took(self.first.ask("take", wait=0.0), "first")
        held_at = time.monotonic()
        self.stall.begin(self.first)
        stalled_at = time.monotonic()
        self.first.tell("write")
        patience = ttl + ANSWER_SECONDS
        took = self.second.ask("take", wait=patience, seconds=patience + ANSWER_SECONDS)
        other = self._took(took, "second")
        taken_at = float(took["at"])
        self.holders.append(Holding("first", token, held_at - self.began, taken_at - self.began))
        if self.way != "token-at-write":
            self._wrote("second", other, self.second.ask("write"))
        time.sleep(max(0.0, stalled_at + pause - time.monotonic()))
        self.stall.end(self.first)
        self._wrote("first", token, self.first.answer(pause + ANSWER_SECONDS), late=True)
        if self.way == "token-at-write":
            self._wrote("second", other, self.second.ask("write"))
        self.first.ask("drop")
        asked = self.third.ask("take", wait=0.0)
        if "token" in asked:
            self.freed_another = True
            since = float(asked["at"]) - self.began
            self.holders.append(Holding("third", asked["token"], since, self._now()))
        self.second.ask("drop")
        self.holders.append(Holding("second", other, taken_at - self.began, self._now()))

    def result(self, trouble: str) -> PauseResult:
        ended = time.monotonic()
        actors = (self.first, self.second, self.third)
        marks = {actor.name: list(actor.marks) for actor in actors}
        for write in self.writes:
            what = "landed" if write.landed else "refused"
            marks[write.who].append(Mark(self.began + write.at, what))
        return PauseResult(
            name=self.way,
            store=self.plan.dialect,
            stall=self.plan.stall,
            ttl=self.plan.ttl / SECOND,
            pause=self.plan.pause / SECOND,
            holders=tuple(sorted(self.holders, key=lambda holding: holding.since)),
            writes=tuple(self.writes),
            seconds=ended - self.began,
            timeline=drawn(marks, self.holders, began=self.began, ended=ended),
            freed_another=self.freed_another,
            trouble=trouble,
        )

    def _now(self) -> float:
        return time.monotonic() - self.began

    def _took(self, answer: Mapping[str, Any], who: str) -> int | None:
        if "token" not in answer:
            raise Stuck(f"{who} did not get the lock: {answer.get('why', answer)}")
        token: int | None = answer["token"]
        return token

    def _wrote(
        self, who: str, token: int | None, answer: Mapping[str, Any], *, late: bool = False
    ) -> None:
        why = str(answer.get("why", ""))
        landed = bool(answer.get("landed"))
        at = float(answer["at"]) - self.began
        self.writes.append(Written(who, at, token, landed, late, why))


class _Frozen:
    """The process itself stands still, as in a garbage collection."""

    def __init__(self, safe: Callable[[], bool]) -> None:
        self._safe = safe

    def begin(self, actor: Actor) -> None:
        actor.freeze(self._safe)

    def end(self, actor: Actor) -> None:
        actor.thaw()


@contextmanager
def _laid_out(plan: PausePlan, schema: str) -> Iterator[Desk]:
    """Lay the document and onejob's own tables out, and remove them at the end."""
    if plan.dialect == "redis":
        desk = RedisDesk(plan.url, schema)
        desk.check()
        try:
            yield desk
        finally:
            desk.remove()
        return
    place = Place.at(plan.url, schema)
    place.check()
    try:
        sql = SqlDesk(place)
        sql.prepare()
        store = place.store()
        store.init()
        store.close()
        yield sql
    finally:
        place.drop()


def _writable(desk: Desk) -> Callable[[], bool]:
    return desk.place.writable if isinstance(desk, SqlDesk) else lambda: True
