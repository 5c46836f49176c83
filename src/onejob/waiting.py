"""Taking a lock: at once, or after a bounded wait for whoever holds it.

1. Ask. The answer is the lock, or who holds it until when; the store then knows that we wait.
2. Wait for a moment, or until a release is heard of (one in this process, or the store's
   notification to the one listener here), and ask again.
3. When the time is up, ask once more, where a turn to ask is to be had; then :class:`NotAcquired`.

A waiter has no connection and no place in a queue: it asks by one short command at a time, and
whoever asks first after the release is next. The lease of the holder is nobody's business here:
waiting never shortens it.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from onejob.commands import leases
from onejob.commands.command import Command
from onejob.core import hold
from onejob.core.hold import Grip, Standing
from onejob.core.time import SECOND, Instant, Span, moment
from onejob.errors import NotAcquired, SchemaMismatch, UsageError
from onejob.runtime.held import Held
from onejob.runtime.listener import Listener
from onejob.services import Services

#: Threads of one process that ask for locks they wait for, at once: so many connections at most.
ASKING: Final = 2

#: Stores that have a quicker way for a lock that was given back, as nearly every one was.
QUICK: Final = frozenset({"postgresql", "sqlite", "mariadb"})

#: How many new names are made, on the average, before unused ones are looked for.
TIDY_EVERY: Final = 100

_LATE: Final = "the store took so long to answer that the lease it gave is over"

#: How often a new name's row may vanish between being made and being asked for.
_ROWS_MADE_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """A lock, and under which conditions."""

    name: str
    ttl: Span
    wait: Span
    at_least: Span
    protects: tuple[str, ...]

    @property
    def what(self) -> str:
        """Return what messages call it."""
        return f"lock {self.name!r}"


class Waiters:
    """Who waits for which lock in this process: a release wakes the one that has waited longest."""

    def __init__(self) -> None:
        self.after_fork()

    def after_fork(self) -> None:
        """Begin with nobody, also in a forked child: who waited or asked is a thread elsewhere."""
        self._wakers: dict[str, list[Callable[[], object]]] = {}
        self._lock = threading.Lock()
        self.turn = threading.BoundedSemaphore(ASKING)

    @contextmanager
    def listening(
        self, name: str, wake: Callable[[], object], listener: Listener | None
    ) -> Iterator[None]:
        """Have ``wake`` called after releases of a lock, when it is this one's turn."""
        with self._lock:
            self._wakers.setdefault(name, []).append(wake)
        if listener is not None:
            listener.begin(self.heard)
        try:
            yield
        finally:
            if listener is not None:
                listener.end()
            with self._lock:
                self._wakers[name].remove(wake)
                if not self._wakers[name]:
                    del self._wakers[name]

    def heard(self) -> None:
        """Wake whoever has waited longest for each lock: some lock was released somewhere."""
        with self._lock:
            first = [wakers[0] for wakers in self._wakers.values()]
        for wake in first:
            wake()

    def released(self, name: str) -> None:
        """Wake whoever has waited longest."""
        with self._lock:
            first = self._wakers.get(name, [])[:1]
        for wake in first:
            wake()


class Asking:
    """One acquisition, without its colour: what to ask, and what to make of the answer."""

    def __init__(self, wanted: Wanted, services: Services, random: Random) -> None:
        self.wanted, self._services, self._random = wanted, services, random
        self.owner = secrets.token_hex(12)
        self._asked_at = services.clock.now()
        self._until = self._asked_at + wanted.wait
        self._rows_made = 0
        self._quickly = services.store.dialect in QUICK and not wanted.protects
        #: The store counts this one among those who wait.
        self.waits = False
        self._seen: Standing | None = None

    def ask(self) -> Command[Standing | None]:
        """Return the question, asked from now on."""
        wanted, services = self.wanted, self._services
        self._asked_at = services.clock.now()
        if self._quickly:
            return leases.take(
                services.app,
                wanted.name,
                owner=self.owner,
                holder=services.owner,
                ttl=wanted.ttl,
                at_least=wanted.at_least,
            )
        return leases.acquire(
            services.app,
            wanted.name,
            owner=self.owner,
            holder=services.owner,
            ttl=wanted.ttl,
            at_least=wanted.at_least,
            resources=wanted.protects,
            wait=int(self.left() * SECOND),
        )

    def give_up(self) -> Command[bool]:
        """Return what takes this one from among those who wait."""
        return leases.give_up(self._services.app, self.wanted.name, owner=self.owner)

    def failed(self, error: BaseException) -> None:
        """Undo a question that ended without an answer: it may have been carried out."""
        if not isinstance(error, UsageError | SchemaMismatch):
            self.undo(insist=True)

    def undo(self, *, insist: bool) -> None:
        """Have given back what this one may have been given, and will never know of.

        From the renewer's thread. ``insist``: the question may arrive after what undoes it.
        """
        services, wanted = self._services, self.wanted
        undo = leases.undo(services.app, wanted.name, owner=self.owner)
        services.renewer.release_later(undo, ttl=wanted.ttl, insist=insist)

    def tidy(self) -> Command[int] | None:
        """Return, once in a while, what forgets names that nobody uses: each new one may come to
        stay, and there need be no replica that purges."""
        if self._rows_made and self._random.random() < 1 / TIDY_EVERY:
            return leases.purge(unused=hold.KEEP_UNUSED, limit=10 * TIDY_EVERY)
        return None

    def answered(self, standing: Standing | None) -> Held | Span:
        """Return the lock, or how long to wait before the next question; raise NotAcquired."""
        wanted = self.wanted
        self._seen = standing or self._seen
        if standing is None and self._quickly:
            self._quickly = False
            return Span(0)
        if standing is None and self._rows_made < _ROWS_MADE_MOST:
            self._rows_made += 1
            return Span(0)
        if standing is not None and standing.owner == self.owner:
            self.waits = False
            held = self.held(standing)
            if not held.over(self._services.clock.now()):
                return held
            # The answer took longer than the lease: somebody else may be inside by now.
            self.undo(insist=False)
            self.owner = secrets.token_hex(12)
            if not self.left():
                raise NotAcquired(wanted.what, why=_LATE)
        self.waits = self.waits or bool(wanted.wait)
        left = self._until - self._services.clock.now()
        if left <= 0:
            raise self.refused()
        pause = hold.look_again(wanted.ttl, chance=self._random.random())
        if standing is not None and not standing.free:
            # Released early it may be at any time; lapsed, not before this.
            pause = min(pause, Span(standing.expires - standing.now + 1_000))
        return Span(min(pause, left))

    def refused(self) -> NotAcquired:
        """Tell of the refusal; return the error that says who has the lock, as was seen last."""
        seen = self._seen
        self._services.events.emit(
            "lock.refused", lock=self.wanted.name, holder=seen.holder if seen else ""
        )
        return refused(self.wanted, seen)

    def left(self) -> float:
        """Return how many seconds are left to wait."""
        return max(0.0, (self._until - self._services.clock.now()) / SECOND)

    def held(self, standing: Standing) -> Held:
        """Return what an answer that names us has given us."""
        wanted = self.wanted
        grip = Grip(standing.scope, standing.name, standing.token, standing.owner)
        return Held(
            grip,
            owner=grip.owner,
            token=grip.token,
            ttl=wanted.ttl,
            asked_at=self._asked_at,
            renew=leases.renew,
            what=wanted.what,
        )


def take(asking: Asking, services: Services, waiters: Waiters) -> Held:
    """Take a lock in this thread."""
    answer = _asked(asking, services, waiters)
    if isinstance(answer, Held):
        return answer
    woken = threading.Event()
    try:
        with waiters.listening(asking.wanted.name, woken.set, services.listener):
            while not isinstance(answer, Held):
                woken.wait(answer / SECOND)
                woken.clear()
                answer = _asked(asking, services, waiters)
        return answer
    finally:
        if asking.waits:
            # From the renewer's thread: many whose time ends together need no connection each.
            services.renewer.release_later(asking.give_up(), ttl=asking.wanted.ttl)


def _asked(asking: Asking, services: Services, waiters: Waiters) -> Held | Span:
    """Ask once; where a row had to be made first, twice."""
    if not asking.wanted.wait:
        return _answer(asking, services)
    if not waiters.turn.acquire(timeout=asking.left()):
        raise asking.refused()
    try:
        return _answer(asking, services)
    finally:
        waiters.turn.release()


def _answer(asking: Asking, services: Services) -> Held | Span:
    while True:
        question = asking.ask()
        try:
            standing = services.run()(question)
        except BaseException as error:
            asking.failed(error)
            raise
        if (answer := asking.answered(standing)) != 0:
            return answer


async def atake(asking: Asking, services: Services, waiters: Waiters) -> Held:
    """The same in the running loop; what a cancelled one was given all the same is given back."""
    answer = await _aasked(asking, services)
    if isinstance(answer, Held):
        return answer
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(woken.set)

    try:
        with waiters.listening(asking.wanted.name, wake, services.listener):
            while not isinstance(answer, Held):
                try:
                    await asyncio.wait_for(woken.wait(), answer / SECOND)
                except TimeoutError:
                    pass
                woken.clear()
                answer = await _aasked(asking, services)
        return answer
    finally:
        if asking.waits:
            services.renewer.release_later(asking.give_up(), ttl=asking.wanted.ttl)


async def _aasked(asking: Asking, services: Services) -> Held | Span:
    while True:
        question = asyncio.ensure_future(services.arun()(asking.ask()))
        try:
            standing = await asyncio.shield(question)
        except asyncio.CancelledError:
            question.add_done_callback(partial(_give_back, asking))
            raise
        except BaseException as error:
            asking.failed(error)
            raise
        answer = asking.answered(standing)
        if answer != 0:
            return answer


def _give_back(asking: Asking, question: asyncio.Future[Standing | None]) -> None:
    """Give back what was given to one who had been cancelled."""
    if question.cancelled() or question.exception() is not None:
        # Its thread goes on all the same.
        asking.undo(insist=True)
        return
    standing = question.result()
    if standing is not None and standing.owner == asking.owner:
        asking.undo(insist=False)


def refused(wanted: Wanted, standing: Standing | None) -> NotAcquired:
    """Say who has the lock."""
    if standing is None or standing.free:
        return NotAcquired(
            wanted.what,
            why="somebody is taking it at this moment, or a transaction of an earlier holder is "
            "still open",
        )
    return NotAcquired(
        wanted.what,
        holder=standing.holder,
        since=moment(Instant(standing.acquired)),
        until=moment(Instant(standing.expires)),
        why="" if standing.owner else "it is released, and kept for its minimum",
    )
