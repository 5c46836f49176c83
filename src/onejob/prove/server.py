"""The store as processes reach it: over a network, with everything that can happen on the way.

The :class:`Server` owns the store and carries commands out one by one, at an instant of the world's
own. A :class:`Link` is one process's way to it, and keeps the promises of ``stores.protocol`` as
PostgreSQL's store does: what is repeatable is asked once more after a broken connection, what is
not raises OutcomeUnknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from onejob.commands import ledger, runs
from onejob.commands.command import Command
from onejob.core.run import Claim
from onejob.core.time import SECOND
from onejob.errors import LeaseLost, OutcomeUnknown, StoreUnavailable
from onejob.prove.faults import SKIPPING, CommandFault, Plan, Site, Wrong
from onejob.prove.statements import CutOff, StatementStore
from onejob.prove.virtual import StoreClock, VirtualLoop
from onejob.stores.memory import MemoryStore
from onejob.stores.memory.tables import Run
from onejob.stores.protocol import AsyncWithin, Store, Within

T = TypeVar("T")

WHERE = "the simulated store"

#: How long a process that is parted from the store waits until it knows that nobody answers.
PARTED_SPAN = 200_000


class Broken(Exception):
    """The connection broke. ``sent``: the request may have been read."""

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class Watcher(Protocol):
    """Sees every command at the instant at which the store carries it out."""

    def before(self, command: Command[Any]) -> Any:
        """Look at the store just before; what is returned is handed to :meth:`after`."""
        ...

    def after(self, process: str, command: Command[Any], answer: Any, seen: Any) -> None:
        """Hear what was asked, by whom, and what the store answered."""
        ...


class Server:
    """The one store of a simulation."""

    def __init__(
        self, loop: VirtualLoop, store: Store, clock: StoreClock, plan: Plan, watcher: Watcher
    ) -> None:
        self.loop, self.store, self.clock, self.plan = loop, store, clock, plan
        self._watcher = watcher
        self._down_since = self._down_until = 0
        #: Told after each write, so that listeners look for hints.
        self.written: list[Callable[[], None]] = []
        #: Runs whose row an open transaction holds, and until when the server lets it.
        self.fences: dict[int, int] = {}
        self.carried = 0

    @property
    def down(self) -> bool:
        """Tell whether the server is away."""
        return self.loop.micros < self._down_until

    def go_down(self, span: int) -> None:
        """Be away for ``span``, or until an outage that has begun is over."""
        if not self.down:
            self._down_since = self.loop.micros
        self._down_until = max(self._down_until, self.loop.micros + span)

    @property
    def outage(self) -> int:
        """How long the outage has lasted that has just ended; 0 where it goes on."""
        return 0 if self.down else self._down_until - self._down_since

    def carry(self, process: str, command: Command[T], site: Site, fault: CommandFault | None) -> T:
        """Carry a command out now. Raises Broken while the server is down."""
        if self.down:
            raise Broken("the server is down", sent=False)
        self.carried += 1
        seen = self._watcher.before(command)
        locked = fault is not None and fault.wrong is Wrong.LOCKED
        if fault is not None and fault.wrong is Wrong.CUT:
            self._cut(command, site)
        with self._locks(command, site if locked else None):
            answer = self.store.run(command)
        self._watcher.after(process, command, answer, seen)
        if command.writes:
            for tell in self.written:
                tell()
        return answer

    def _cut(self, command: Command[Any], site: Site) -> None:
        """Begin a command and end before its commit: nothing of it may be left."""
        try:
            if isinstance(self.store, StatementStore):
                self.store.cut(command, site.bits)
        except CutOff:
            pass
        raise Broken("the server ended the connection", sent=True)

    def fenced(self, claim: Claim, idle_limit: int) -> bool:
        """Hold a run's row for a transaction, as ``run_fence`` does."""
        if self.down:
            raise Broken("the server is down", sent=False)
        until = self.fences.get(claim.id, 0)
        if until > self.loop.micros or not self.store.run(runs.fence(claim, idle_limit=idle_limit)):
            return False
        self.fences[claim.id] = self.loop.micros + idle_limit
        return True

    @contextmanager
    def _locks(self, command: Command[Any], site: Site | None) -> Iterator[None]:
        """Hide rows that others hold from a command that skips those."""
        if command.name not in SKIPPING or not isinstance(self.store, MemoryStore):
            yield
            return
        tables, now = self.store.tables, self.loop.micros
        hidden: list[tuple[Run, str]] = []
        paused = []
        for run in tables.runs.values():
            if self.fences.get(run.id, 0) > now or (site is not None and site.hides(run.id)):
                hidden.append((run, run.state))
        if command.name == "schedule_tick":
            hidden = []
            for place, schedule in enumerate(tables.schedules.values()):
                if site is not None and site.hides(place) and not schedule.paused:
                    paused.append(schedule)
        for run, _ in hidden:
            run.state = "locked"
        for schedule in paused:
            schedule.paused = 1
        try:
            yield
        finally:
            for run, state in hidden:
                run.state = state
            for schedule in paused:
                schedule.paused = 0


class Link:
    """One process's way to the server. ``patience`` bounds each command of a keeper's lane."""

    dialect = "memory"
    where = WHERE

    def __init__(
        self,
        server: Server,
        process: str,
        *,
        crash: Callable[[], None],
        parted: Callable[[], bool] = lambda: False,
        patience: int = 0,
    ) -> None:
        self._server, self._process, self._crash = server, process, crash
        self._parted, self._patience = parted, patience

    async def run(self, command: Command[T], within: Within | AsyncWithin | None = None) -> T:
        """Carry out one command, asking once more where that is harmless."""
        assert within is None, "the simulator has no transactions of the caller's"
        failures = 0
        while True:
            try:
                return await self._send(
                    command.name,
                    lambda site, fault: self._server.carry(self._process, command, site, fault),
                )
            except Broken as broken:
                failures += 1
                repeatable = command.repeatable or not command.writes
                if failures < 2 and repeatable:
                    continue
                if broken.sent and not repeatable:
                    raise OutcomeUnknown(command.name, self.where, str(broken)) from broken
                raise StoreUnavailable(self.where, str(broken)) from broken

    async def apply(self, claim: Claim, key: str, *, hold: int, idle_limit: int) -> bool:
        """Write in the store's own database, in a transaction that holds the run for ``hold``.

        True: written now; False: it had been written before.
        """
        server = self._server
        until = 0
        try:
            if not await self._send("run_fence", lambda *_: server.fenced(claim, idle_limit)):
                raise LeaseLost(f"run {claim.id}", token=claim.token, why="superseded")
            until = server.fences.get(claim.id, 0)
            await asyncio.sleep(hold / SECOND)
            return await self._send(
                "ledger_first_in_run",
                lambda site, fault: self._commit(claim, key, until, site, fault),
            )
        except Broken as broken:
            # The server may hear nothing of a broken connection: its bound ends the transaction.
            until = 0
            if broken.sent:
                raise OutcomeUnknown("commit", self.where, str(broken)) from broken
            raise StoreUnavailable(self.where, str(broken)) from broken
        finally:
            if until and server.fences.get(claim.id) == until:
                del server.fences[claim.id]

    def _commit(
        self, claim: Claim, key: str, until: int, site: Site, fault: CommandFault | None
    ) -> bool:
        server = self._server
        if server.fences.get(claim.id) != until or until <= server.loop.micros:
            raise LeaseLost("transaction", token=0, why="the server ended the idle transaction")
        command = ledger.first_in_run(claim, "applied", key, keep=10**15)
        answer = server.carry(self._process, command, site, fault)
        del server.fences[claim.id]
        return answer

    async def _send(self, name: str, carry: Callable[[Site, CommandFault | None], T]) -> T:
        """Send once; the fault of this site, if any, happens on the way."""
        server, loop = self._server, self._server.loop
        site = server.plan.site(self._process, name)
        fault = server.plan.fault(site)
        if self._parted():
            fault = CommandFault(Wrong.REQUEST_LOST, self._process, name, site.nth, PARTED_SPAN)
        reply: asyncio.Future[T] = loop.create_future()
        _Flight(loop, lambda: carry(site, fault), reply, self._crash, self._patience).begin(
            site, fault
        )
        return await reply


class _Flight:
    """One request on its way there, and its reply on its way back."""

    def __init__(
        self,
        loop: VirtualLoop,
        carry: Callable[[], Any],
        reply: asyncio.Future[Any],
        crash: Callable[[], None],
        patience: int,
    ) -> None:
        self._loop, self._carry, self._reply = loop, carry, reply
        self._crash, self._patience = crash, patience

    def begin(self, site: Site, fault: CommandFault | None) -> None:
        """Schedule what happens, in the world's own time."""
        later = self._loop.later
        span = fault.span if fault else 0
        if self._patience:
            span = min(span, self._patience)
        match fault.wrong if fault else None:
            case None | Wrong.LOCKED | Wrong.CUT:
                later(site.there, self._arrive, site.back)
            case Wrong.REFUSED:
                later(site.there, self._fail, Broken("connection refused", sent=False))
            case Wrong.REQUEST_LOST:
                later(span, self._fail, Broken("the connection broke", sent=True))
            case Wrong.REPLY_LOST:
                later(min(site.there, span), self._arrive, None)
                later(span, self._fail, Broken("the connection broke", sent=True))
            case Wrong.SLOW:
                later(span * 2 // 3, self._arrive, span // 3)
            case Wrong.REORDERED:
                later(span // 2, self._fail, Broken("no answer in time", sent=True))
                later(span, self._arrive, None)
            case Wrong.CRASH_BEFORE:
                later(0, self._crash)
            case Wrong.CRASH_AFTER:
                later(site.there, self._arrive, None)
                later(0, self._crash)

    def _arrive(self, back: int | None) -> None:
        """Let the server carry it out; ``back`` None: nobody will hear of it."""
        try:
            answer = self._carry()
        except (Broken, LeaseLost) as error:
            self._loop.later(back or 0, self._fail, error)
            return
        if back is not None:
            self._loop.later(back, self._succeed, answer)

    def _succeed(self, answer: Any) -> None:
        if not self._reply.done():
            self._reply.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if not self._reply.done():
            self._reply.set_exception(error)
