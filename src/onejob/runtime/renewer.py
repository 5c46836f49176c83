"""The renewer: everything that this process holds by itself, renewed together from one thread.

Whoever holds a named lock, or a claim in the ledger, makes a :class:`Held` and gives it in::

    asked_at = clock.now()                       # before the request is sent, never after
    grip = ... ask the store, and be given it ...
    held = Held(grip, owner=grip.owner, token=grip.token, ttl=ttl, asked_at=asked_at,
                renew=leases.renew, what="lock 'nightly'", on_lost=tell)
    renewer.hold(held)                           # from now on it is renewed
    held.check(clock.now())                      # LeaseLost once it is not ours any more
    renewer.drop(held)                           # no longer renewed; then release it in the store

``renew`` is the batch command of its kind: it is given ``[(grip, ttl), ...]``, all that are due of
that kind, and answers with the owners that are still holders. An owner is fresh for each
acquisition, so it names one Held. ``on_lost(held)`` is called once, from the watch thread: because
the store refused (taken over, broken, deleted), or because no renewal got through before the
holder's own deadline, which ends before the store lets anybody else in (``core.lease``, P6).

Two daemon threads for each App and process, begun by the first thing held and ended some seconds
after the last: ``onejob-renewer`` sends, over a lane of its own, and ``onejob-watch`` tells of
losses, so that neither a silent server nor a slow callback keeps the other from its work. What
cannot be given back at once, because the store is away, is given back later
(:meth:`Renewer.release_later`).
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar
from weakref import WeakSet

from onejob.commands.command import Command
from onejob.core import lease as rules
from onejob.core.time import SECOND, Span
from onejob.errors import StoreError
from onejob.runtime.clock import Clock
from onejob.runtime.events import Events, log
from onejob.runtime.held import LATE, Held, Renew
from onejob.stores.protocol import Lane

__all__ = ["Held", "Renew", "Renewer"]

T = TypeVar("T")

#: The threads stay this long after the last thing held: locks come in series.
LINGER = 5 * SECOND

#: The longest sleep while something is held: sleepers of a suspended machine wake late.
NAP = 1 * SECOND

#: How long closing waits for a thread that is in the middle of a command.
CLOSE_SECONDS = 2.0

#: Most that one command renews.
BATCH = 1_000

OpenLane: TypeAlias = Callable[[Span], Lane]

_REFUSED = "the store has it no longer as ours: it was taken over, broken or deleted"


@dataclass(eq=False, slots=True)
class _Debt:
    """A release that could not be sent: tried again at ``at``, given up after ``until``."""

    command: Command[Any]
    at: int
    until: int
    pause: int
    insist: bool


#: Renewers that have owed something.
_owing: WeakSet[Renewer] = WeakSet()


@atexit.register
def _settle() -> None:
    for renewer in list(_owing):
        renewer.settle()


class Renewer:
    """Renews what one App holds in this process. ``lane`` opens a connection of its own."""

    def __init__(self, lane: OpenLane, *, clock: Clock, events: Events) -> None:
        self._open, self._clock, self._events = lane, clock, events
        self._changed = threading.Condition()
        self._held: dict[str, Held] = {}
        self._lost: list[Held] = []
        self._debts: list[_Debt] = []
        self._crew: object | None = None
        self._threads: list[threading.Thread] = []
        self._pid = 0
        self._send_at = self._watch_at = self._stay_until = 0

    def hold(self, held: Held) -> None:
        """Renew it from now on. Raises where no thread can be begun: then nothing is renewed."""
        with self._ours():
            self._held[held.owner] = held
            try:
                self._begin(held.renew_at, held.deadline)
            except BaseException:
                del self._held[held.owner]
                raise

    def drop(self, held: Held) -> None:
        """Renew it no longer. What was lost by then is still told of, once."""
        with self._ours():
            if self._held.get(held.owner) is held:
                if why := held.over(self._clock.now()):
                    self._lose(held, why)
                else:
                    del self._held[held.owner]
            self._stay_until = self._clock.now() + LINGER

    def lost(self, held: Held, why: str) -> None:
        """Tell of a loss that came to light after :meth:`drop`."""
        with self._ours():
            self._held[held.owner] = held
            self._lose(held, why)
            self._begin(held.renew_at, held.deadline)

    def release_later(self, command: Command[Any], *, ttl: Span, insist: bool = False) -> None:
        """Send a release until it is answered, for one lease: after that it has lapsed anyway.

        ``insist``: until something was released, for what may not have arrived there yet.
        """
        with self._ours():
            now = self._clock.now()
            self._debts.append(_Debt(command, now, now + ttl, ttl // 12, insist))
            self._pid = os.getpid()
            _owing.add(self)
            self._begin(now, now + NAP)

    def settle(self) -> None:
        """Wait, as the process ends, until each debt was tried once: two seconds at the most."""
        if self._pid == os.getpid():
            with self._changed:
                self._changed.wait_for(self._tried, CLOSE_SECONDS)

    def _tried(self) -> bool:
        now = self._clock.now()
        return self._crew is None or all(debt.at > now for debt in self._debts)

    def close(self) -> None:
        """End the threads without lingering; those stay that have something in their hands."""
        with self._changed:
            self._stay_until = 0
            self._changed.notify_all()
            threads = [] if self._held or self._debts else self._threads
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(CLOSE_SECONDS)

    def _ours(self) -> threading.Condition:
        """Return what keeps the two threads from what is held.

        Once the interpreter ends they have stopped wherever they were, perhaps inside of it: nobody
        else is left, and nobody may wait for them.
        """
        if sys.is_finalizing() and self._crew is not None:
            self._crew, self._changed = None, threading.Condition()
        return self._changed

    def _begin(self, send_at: int, watch_at: int) -> None:
        """Have both threads run, and look at these times at the latest."""
        self._stay_until = self._clock.now() + LINGER
        if sys.is_finalizing():
            return  # no thread begins any more
        if self._crew is not None:
            if send_at < self._send_at or watch_at < self._watch_at:
                self._changed.notify_all()
            return
        self._crew = crew = object()
        self._send_at, self._watch_at = send_at, watch_at
        self._threads = [
            threading.Thread(target=target, args=(crew,), name=name, daemon=True)
            for target, name in ((self._send, "onejob-renewer"), (self._watch, "onejob-watch"))
        ]
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            # No thread is to be had: the next one who holds something must try again.
            self._crew, self._threads = None, []
            raise

    def _sleep(self, now: int, until: int) -> None:
        busy = bool(self._held or self._debts)
        self._changed.wait(max(0, min(until - now, NAP if busy else LINGER)) / SECOND)

    def _forget_abandoned(self) -> None:
        for held in list(self._held.values()):
            if held.abandoned:
                del self._held[held.owner]

    # The sender

    def _send(self, crew: object) -> None:
        line = _Line(self._open)
        try:
            while self._wait_until_due(crew):
                try:
                    self._renew_due(line)
                    self._pay_due(line)
                except Exception:  # noqa: BLE001 - a loop's edge: told, and gone on
                    log.exception("the renewer failed in a way that nobody foresaw")
        finally:
            line.close()

    def _wait_until_due(self, crew: object) -> bool:
        """Wait until there is something to send; False: nothing was held for a while, end."""
        with self._changed:
            while self._crew is crew:
                self._forget_abandoned()
                now = self._clock.now()
                due = [held.renew_at for held in self._held.values() if now < held.deadline]
                due += [debt.at for debt in self._debts]
                self._send_at = min(due, default=max(now + NAP, self._stay_until))
                if due and self._send_at <= now:
                    return True
                if not (self._held or self._debts or self._lost) and now >= self._stay_until:
                    self._crew = None
                    self._changed.notify_all()
                else:
                    self._sleep(now, self._send_at)
        return False

    def _renew_due(self, line: _Line) -> None:
        with self._changed:
            now = self._clock.now()
            kinds: dict[tuple[Renew, int], list[Held]] = {}
            for held in self._held.values():
                # Those that are nearly due come along: one request for all that is held.
                soon = now + rules.renew_every(held.ttl) // 2
                if held.renew_at <= soon and now < held.deadline and not held.abandoned:
                    kinds.setdefault((held.renew, _haste(held.ttl)), []).append(held)
        for (renew, _), due in sorted(kinds.items(), key=lambda kind: kind[0][1]):
            for first in range(0, len(due), BATCH):
                self._renew(line, renew, due[first : first + BATCH])

    def _renew(self, line: _Line, renew: Renew, batch: list[Held]) -> None:
        asked_at = self._clock.now()
        shortest = min(held.ttl for held in batch)
        try:
            command = renew([(held.grip, held.ttl) for held in batch])
            holders = line.run(command, patience=rules.renew_every(shortest))
        except Exception as error:  # noqa: BLE001 - whatever it is, the deadline decides
            self._trouble("renew", error)
            with self._changed:
                for held in batch:
                    held.renew_at = self._clock.now() + held.ttl // 12
            return
        with self._changed:
            now = self._clock.now()
            for held in batch:
                if self._held.get(held.owner) is not held:
                    continue  # dropped meanwhile
                # A reply after the deadline brings nothing back: somebody may have been told.
                if now >= held.deadline:
                    self._lose(held, LATE)
                elif held.owner in holders:
                    held.extend(asked_at)
                else:
                    self._lose(held, _REFUSED)

    def _pay_due(self, line: _Line) -> None:
        with self._changed:
            now = self._clock.now()
            due = [debt for debt in self._debts if debt.at <= now]
        for debt in due:
            try:
                answer = line.run(debt.command, patience=rules.renew_every(Span(12 * debt.pause)))
                paid, failed = bool(answer) or not debt.insist, False
            except Exception as error:  # noqa: BLE001 - tried again, up to its end
                self._trouble("release", error)
                paid, failed = False, True
            with self._changed:
                debt.at = self._clock.now() + debt.pause
                self._changed.notify_all()
                if paid or debt.at >= debt.until:
                    self._debts.remove(debt)
            if failed:
                # However many there are, renewals come in between: the store may be slow to fail.
                return

    def _trouble(self, doing: str, error: Exception) -> None:
        if isinstance(error, StoreError):
            self._events.emit("store.trouble", doing=doing, error=str(error))
        else:
            log.error("the renewer could not %s", doing, exc_info=error)
            why = f"{type(error).__name__}: {error}"
            self._events.emit("loop.error", loop="renewer", doing=doing, error=why)

    # The watch

    def _watch(self, crew: object) -> None:
        while (held := self._next_lost(crew)) is not None:
            if held.on_lost is not None:
                try:
                    held.on_lost(held)
                except BaseException:  # noqa: BLE001 - a loop's edge: others must hear of theirs
                    log.exception("on_lost of %s failed", held.what)

    def _next_lost(self, crew: object) -> Held | None:
        """Wait until something is lost; None: the crew has ended."""
        with self._changed:
            while True:
                self._forget_abandoned()
                now = self._clock.now()
                for held in list(self._held.values()):
                    if now >= held.deadline:
                        self._lose(held, LATE)
                if self._lost:
                    return self._lost.pop(0)
                if self._crew is not crew:
                    return None
                deadlines = [held.deadline for held in self._held.values()]
                self._watch_at = min(deadlines, default=now + LINGER)
                self._sleep(now, self._watch_at)

    def _lose(self, held: Held, why: str) -> None:
        # Said before anything else: its body reads it from a thread of its own.
        held.lost = why
        del self._held[held.owner]
        self._lost.append(held)
        self._changed.notify_all()


def _haste(ttl: Span) -> int:
    """Return the class of leases whose renewals may share a command: none is four times another.

    A command is given up after a third of the shortest lease in it, and a longer lease that shared
    it would die of a store that is merely slow.
    """
    return ttl.bit_length() // 2


class _Line:
    """The sender's lane, opened when it is needed, and anew where the haste is another."""

    def __init__(self, open: OpenLane) -> None:
        self._open = open
        self._lane: Lane | None = None
        self._patience = Span(0)

    def run(self, command: Command[T], *, patience: Span) -> T:
        """Carry out a command within this patience, or within half of it."""
        if self._lane is None or not patience // 2 <= self._patience <= patience:
            self.close()
            self._lane, self._patience = self._open(patience), patience
        return self._lane.run(command)

    def close(self) -> None:
        """Close what is open."""
        if self._lane is not None:
            self._lane.close()
            self._lane = None
