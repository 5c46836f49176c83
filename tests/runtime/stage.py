"""A stage for one loop of a replica: virtual time, a store in memory, a way to it that can fail.

Nothing waits here: where a loop would wait, the stage's time jumps to the next moment at which
something is due.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from onejob.commands import replicas, runs
from onejob.commands.command import Command
from onejob.commands.runs import NewRun
from onejob.core.retry import Retry
from onejob.core.run import ReplicaId, RunId
from onejob.core.time import SECOND, Span
from onejob.errors import OutcomeUnknown, StoreUnavailable
from onejob.prove.virtual import StoreClock, VirtualClock, VirtualLoop
from onejob.runtime.attempt import Attempt
from onejob.runtime.events import Event, Events
from onejob.runtime.membership import Membership
from onejob.runtime.settings import Settings
from onejob.stores.memory import MemoryStore

T = TypeVar("T")

#: Realistic instants: 2026 by the store's clock, ten days after the machine's start by the local.
STORE_START = 1_774_746_000_000_000
LOCAL_START = 864_000_000_000
LEASE = Span(12 * SECOND)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What happens to one command on its way. Spans in microseconds.

    It is carried out ``there`` after it was sent, and answered ``back`` after that. ``unsent``: it
    never arrives. ``lost``: it is carried out, and its reply never arrives.
    """

    there: int = 0
    back: int = 0
    unsent: bool = False
    lost: bool = False
    error: Exception | None = None


class Wire:
    """The way to the store, as loops see it. Troubles are met in the order they were planned."""

    dialect, where = "memory", "the stage"

    def __init__(self, store: MemoryStore, clock: VirtualClock) -> None:
        self._store, self._clock = store, clock
        self._plans: dict[str, deque[Trouble]] = defaultdict(deque)
        #: Every command that was sent: its name, and when by the local clock.
        self.sent: list[tuple[str, int]] = []
        self.down = False
        self.before: Callable[[Command[Any]], None] = lambda command: None

    def plan(self, name: str, *troubles: Trouble) -> None:
        """Let the next commands of this name meet these troubles."""
        self._plans[name].extend(troubles)

    def count(self, name: str) -> int:
        """Return how often a command was sent."""
        return sum(sent == name for sent, _ in self.sent)

    async def run(self, command: Command[T], within: object = None) -> T:
        """Carry out one command as planned."""
        self.sent.append((command.name, self._clock.now()))
        self.before(command)
        plans = self._plans[command.name]
        trouble = plans.popleft() if plans else Trouble()
        await self._clock.sleep(trouble.there)
        if trouble.unsent or self.down:
            raise StoreUnavailable(self.where, "planned")
        if trouble.error is not None:
            raise trouble.error
        answer = self._store.run(command)
        await self._clock.sleep(trouble.back)
        if trouble.lost:
            raise OutcomeUnknown(command.name, self.where, "planned")
        return answer


class Host:
    """The keeper's host, in the loop of all others."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._woken = asyncio.Event()
        self._over = asyncio.Event()
        self.listening = False

    def start(self, keep: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            await keep()
            self._over.set()

        self.keeping = asyncio.get_running_loop().create_task(main())

    async def own(self, command: Command[T]) -> T:
        return await self._wire.run(command)

    async def run(self, command: Command[T]) -> T:
        return await self._wire.run(command)

    async def pause(self, span: int) -> bool:
        try:
            await asyncio.wait_for(self._woken.wait(), max(0, span) / SECOND)
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    def wake(self) -> None:
        self._woken.set()

    def tell(self, call: Callable[..., None], *arguments: object) -> None:
        asyncio.get_running_loop().call_soon(call, *arguments)

    async def ended(self) -> None:
        await self._over.wait()


class Job:
    """A job whose handler is an async function of the attempt."""

    is_async = True

    def __init__(
        self,
        name: str,
        handler: Callable[[Attempt], Any],
        *,
        retry: Retry | None = None,
        timeout: Span | None = None,
        is_async: bool = True,
        encode: Callable[[object], str | None] = lambda value: None,
    ) -> None:
        self.name, self.invoke, self.is_async = name, handler, is_async
        self.retry = retry or Retry(attempts=3, base="10s", cap="10s")
        self.timeout, self.result = timeout, encode
        self.log_fields: tuple[str, ...] = ()


class Midway:
    """A chance of 0.5, always: what is jittered comes out at its middle."""

    @staticmethod
    def random() -> float:
        return 0.5


class Stage:
    """Time, store, wire and listeners for one test."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop, start=LOCAL_START, drift_ppm=0)
        self.store_clock = StoreClock(self.loop, start=STORE_START, drift_ppm=0)
        self.store = MemoryStore(self.store_clock.now)
        self.wire = Wire(self.store, self.clock)
        self.events = Events()
        self.told: list[Event] = []
        self.events.listen(self.told.append)
        self.random: Any = Midway()

    def play(self, scene: Coroutine[Any, Any, T]) -> T:
        """Run a scene to its end."""
        answer: T = self.loop.run_until_complete(scene)
        assert self.loop.troubles == []
        return answer

    def host(self) -> Host:
        """Return a host. Only inside a scene."""
        return Host(self.wire)

    def begin(self, serve: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a loop. Only inside a scene."""
        return self.loop.create_task(serve)

    async def passes(self, seconds: float) -> None:
        """Let time go by."""
        await self.clock.sleep(round(seconds * SECOND))

    @property
    def now(self) -> float:
        """The seconds since the stage opened."""
        return self.loop.micros / SECOND

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of the events so far."""
        return [event.name for event in self.told if event.name.startswith(prefix)]

    def settings(self, **changes: Any) -> Settings:
        """Return settings of a replica here."""
        return Settings(**{"name": "shop", "host": "here", "pid": 1, "lease": LEASE, **changes})

    def member(self, id: str = "me", *, lease: int = LEASE, jobs: tuple[str, ...] = ()) -> Any:
        """Join the fleet under an id, without a keeper; return the membership."""
        new = replicas.NewReplica(ReplicaId(id), "shop", "here", 1, "", jobs, {}, lease)
        assert self.store.run(replicas.join(new))
        now = self.clock.now()
        return Membership(ReplicaId(id), now + lease, punctual_since=now)

    def enqueue(self, job: str, *keys: str, **more: Any) -> list[RunId]:
        """Make runs, and return their ids."""
        new = [NewRun(job, key, "{}", keyed=True, **more) for key in keys]
        return [made.id for made in self.store.run(runs.enqueue(new))]

    def run(self, id: int) -> Any:
        """Read a run as people see it."""
        from onejob.commands import views

        return self.store.run(views.run_get(id))

    def close(self) -> None:
        """End what still runs."""
        self.loop.end()


def failing(error: BaseException) -> Callable[[Attempt], Any]:
    """Return an async handler that raises."""

    async def handler(attempt: Attempt) -> None:
        raise error

    return handler
