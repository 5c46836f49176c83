"""What a workload is: jobs, schedules and orders, and what must hold afterwards.

Handlers are told everything through a :class:`Scene`: their attempt, their way to the store, the
world outside, and the process that they can block or take down with them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol, TypeAlias

from onejob.commands.runs import NewRun
from onejob.core.retry import Cancel, OnLoss, Retry
from onejob.core.schedule import CatchUp, Every, Overlap, Policy
from onejob.core.time import Instant, Span
from onejob.effect import NotSent
from onejob.errors import OnejobError
from onejob.prove.diary import Diary
from onejob.prove.history import History
from onejob.prove.provider import Provider, Trouble
from onejob.prove.server import Link
from onejob.prove.verdict import Verdict
from onejob.runtime.attempt import Attempt
from onejob.runtime.events import Events
from onejob.runtime.settings import Declared


class Body(Protocol):
    """The process in which a handler runs."""

    def crash(self) -> None:
        """End this process now, without a word."""
        ...

    async def block(self, span: int) -> None:
        """Keep the loop of this process busy: nothing else of it gets a turn, its keeper does."""
        ...


@dataclass(frozen=True, slots=True)
class Scene:
    """What a handler is given."""

    attempt: Attempt
    args: Mapping[str, Any]
    link: Link
    body: Body
    provider: Provider
    diary: Diary
    events: Events
    lease: int


Handler: TypeAlias = Callable[[Scene], Awaitable[object]]

#: Fails often enough to be seen, and comes back soon enough for a short play.
QUICK: Retry = Retry(attempts=4, base="200ms", cap="2s")


@dataclass(slots=True)
class SimJob:
    """A job as the runtime asks for it (``runtime.attempt.Executable``)."""

    name: str
    handler: Handler
    scene: Callable[[Attempt, Mapping[str, Any]], Scene]
    retry: Retry = field(default=QUICK)
    timeout: Span | None = None
    is_async: bool = True
    log_fields: tuple[str, ...] = ()

    async def invoke(self, attempt: Attempt) -> object:
        """Call the handler; one that fails in a way that it was not told to is reported."""
        scene = self.scene(attempt, json.loads(attempt.run.args))
        scene.diary.begun(attempt.run.id, attempt.run.token)
        try:
            return await self.handler(scene)
        except (OnejobError, Trouble, Cancel, NotSent, TimeoutError):
            raise
        except Exception as error:
            scene.events.emit("handler.broken", job=self.name, error=repr(error))
            raise

    def result(self, value: object) -> str | None:
        """Encode what the handler returned."""
        return None if value is None else json.dumps(value)


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a workload, in the versions of the code that know it."""

    name: str
    handler: Handler
    versions: tuple[int, ...] = (1, 2)
    retry: Retry = field(default=QUICK)
    timeout: Span | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """A run that some client asks for at ``at``.

    ``open_for``: its transaction commits so much later, with the due time of the statement.
    """

    at: int
    run: NewRun
    open_for: int = 0


class Workload(Protocol):
    """Generator and checker of one kind of work."""

    name: str

    def jobs(self) -> Sequence[Job]:
        """Return every job, in whichever version of the code."""
        ...

    def schedules(self, version: int) -> Sequence[Declared]:
        """Return what a version of the code declares."""
        ...

    def orders(self, random: Random, *, chaos: int, lease: int) -> Sequence[Order]:
        """Draw what clients ask for during ``chaos`` microseconds."""
        ...

    def check(self, history: History) -> Sequence[Verdict]:
        """Judge what only this workload promises."""
        ...


def order(
    at: int,
    job: str,
    key: str,
    *,
    args: Mapping[str, Any],
    keyed: bool = True,
    priority: int = 0,
    delay: int = 0,
    on_loss: OnLoss = "retry",
    open_for: int = 0,
) -> Order:
    """Say an order."""
    run = NewRun(
        job,
        key,
        json.dumps(dict(args)),
        keyed=keyed,
        priority=priority,
        delay=delay,
        on_loss=on_loss,
    )
    return Order(at, run, open_for)


def declared(
    name: str,
    job: str,
    interval: int,
    *,
    catch_up: CatchUp = CatchUp.LATEST,
    cap: int = 100,
    lateness: int | None = None,
    overlap: Overlap = Overlap.SKIP,
    args: Mapping[str, Any] | None = None,
) -> Declared:
    """Say a schedule."""
    late = None if lateness is None else Span(lateness)
    policy = Policy(catch_up, cap, late, overlap)
    words = {"interval": interval, "catch_up": catch_up.value, "cap": cap, "lateness": lateness}
    text = json.dumps({**words, "overlap": overlap.value, "args": dict(args or {})})
    return Declared(
        name=name,
        job=job,
        timing=Every(Span(interval), Instant(0)),
        policy=policy,
        definition=f"{job}:{text}",
        timing_text=json.dumps({"interval": interval}),
        policy_text=text,
        args=json.dumps(dict(args or {})),
    )
