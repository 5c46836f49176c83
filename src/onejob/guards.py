"""A guarded scheduler in this process: each tick is claimed in the store before it fires.

1. *Ask.* One statement claims the tick, by a name and a key that are the same in every replica.
   One replica has it. The others keep it in mind until that one has fired, and take it over
   where its claim lapses before it had begun to.
2. *Begin.* "About to fire" is written, under the claim's token. Refused: somebody has taken over.
3. *Fire.* The scheduler does what it does.
4. *Done.* The tick is known for good, and whoever asks again is refused.

Whoever dies between 2 and 4 leaves a tick of which nobody knows whether it fired: unknown. It is
not fired again unless its user said so, and it is listed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Final, Literal, TypeAlias, TypeVar
from uuid import uuid4

from onejob import forking
from onejob.commands import claims, events, ledger, views
from onejob.commands.claims import Busy, Finished, LedgerClaim, Taken, Unsure, Won
from onejob.commands.command import Command
from onejob.core.guarding import Tick, distance, look_again, noted_late
from onejob.core.lease import deadline
from onejob.core.run import error_text
from onejob.core.time import Instant, Span, moment
from onejob.errors import OutcomeUnknown, StoreError, UsageError
from onejob.permits import Answer, Counts, Later, Leave, LeftTick, Permit
from onejob.runtime.events import log
from onejob.runtime.held import Held
from onejob.runtime.waiting_room import WaitingRoom
from onejob.services import Services
from onejob.turn import TIDY_EVERY, TIDY_MOST

T = TypeVar("T")

#: How often it is said anew that a tick is about to fire, where the answer takes a lease.
BEGIN_MOST: Final = 3

#: Schedules of which a late tick is kept in mind, at the most.
LATE_MOST: Final = 1_000

OnStoreDown: TypeAlias = Literal["skip", "fire"]
OnUnknown: TypeAlias = Literal["skip", "fire"]


class Guard:
    """What ``app.guard`` returns: how one scheduler stands, and what its hook asks."""

    def __init__(
        self,
        services: Callable[[], Services],
        *,
        on_store_down: OnStoreDown = "skip",
        on_unknown: OnUnknown = "skip",
        disabled: bool = False,
    ) -> None:
        for name, value in (("on_store_down", on_store_down), ("on_unknown", on_unknown)):
            if value not in ("skip", "fire"):
                raise UsageError(f"{name}={value!r} must be 'skip' or 'fire'.")
        self._services = services
        self.on_store_down, self.on_unknown = on_store_down, on_unknown
        self.disabled = disabled
        self.counts = Counts()
        self.room = WaitingRoom(threaded=False)
        self._lock = threading.Lock()
        self._down = False
        self._held: dict[str, Held] = {}
        self._late: dict[str, Span] = {}
        forking.watch(self)

    def in_a_thread(self) -> None:
        """Ask again from a thread: for a scheduler that has no loop which could."""
        self.room = WaitingRoom(threaded=True)

    def __repr__(self) -> str:
        return f"<Guard {self.counts}>"

    def unknown(self, *, limit: int = 50) -> list[LeftTick]:
        """Return ticks of all guarded schedulers of this store of which nobody knows whether they
        fired, the latest first: their process had begun, and was not heard of again."""
        return self._left("firing", limit)

    def missed(self, *, limit: int = 50) -> list[LeftTick]:
        """Return ticks that did not fire: their process was not heard of again before it had
        begun, and no other was there that kept them in mind."""
        return self._left("claimed", limit)

    def _left(self, state: claims.ClaimState, limit: int) -> list[LeftTick]:
        rows = self._run(claims.listed(claims.TICK, lapsed=True, limit=limit))
        return [
            LeftTick(row.scope, row.key, row.owner, moment(Instant(row.since)))
            for row in rows
            if row.state == state
        ]

    # What a hook does with a tick

    def attempt(self, tick: Tick, fire: Callable[[], object]) -> bool:
        """Fire the tick here and record its end, or see that it is kept in mind. True: fired.

        What ``fire`` raises goes on to the scheduler, after it was recorded.
        """
        permit = self.admit(tick, lambda: self.attempt(tick, fire))
        if permit is None:
            return False
        try:
            fire()
        except BaseException as error:
            self.failed(permit, error)
            raise
        self.done(permit)
        return True

    def like(self, other: Guard) -> bool:
        """Tell whether both are the same: of one App, with the same options."""
        mine = (self._services, self.on_store_down, self.on_unknown, self.disabled)
        return mine == (other._services, other.on_store_down, other.on_unknown, other.disabled)

    def admit(
        self, tick: Tick, again: Callable[[], object], *, hold: bool = False
    ) -> Permit | None:
        """Return the permit to fire now, begun already, or None: left, or kept in the room, which
        calls ``again`` when it is time to ask again.

        With ``hold`` the claim is renewed until its end is recorded: firing may take long.
        """
        match self.ask(tick, again=self.room.knows(tick.key)):
            case Permit() as permit:
                self.room.forget(tick.key)
                return permit if self.begin(permit, hold=hold) else None
            case Later(wait=wait):
                self.room.keep(tick.key, again, wait)
            case Leave():
                self.room.forget(tick.key)
        return None

    def ask(self, tick: Tick, *, again: bool = False) -> Answer:
        """Claim the tick, or learn what to do instead."""
        if self.disabled:
            self._count("disabled")
            return Leave(tick, "ONEJOB_DISABLED is set")
        services = self._services()
        # Names this very claim: whoever finds it in the ledger has won, though the reply was lost.
        owner = f"{services.owner}/{uuid4().hex[:16]}"
        meant = bool(tick.spacing) and not again
        late = self._late.pop(tick.key, Span(0)) if meant else Span(0)
        asked_at = services.clock.now() if meant else 0
        command = claims.take(
            claims.TICK,
            tick.schedule,
            tick.key,
            owner=owner,
            lease=services.lease,
            keep=tick.keep,
            spacing=distance(tick, before=late),
            even_if_unsure=self.on_unknown == "fire",
            tell=not again,
        )
        try:
            taken = self._sure(command)
        except StoreError as error:
            if again:
                # Somebody else has it: not ours to fire, whatever its user said.
                return Later(tick, services.lease)
            return self._without_store(tick, None, error)
        self._store_is_back()
        if meant:
            self._note_late(tick, taken, services.clock.now() - asked_at)
        return self._judge(tick, taken, services.lease, again)

    def begin(self, permit: Permit, *, hold: bool = False) -> bool:
        """Write that it is about to fire. False: it must not, somebody has taken over."""
        if permit.claim is None:
            return True
        services = self._services()
        for _ in range(BEGIN_MOST):
            asked_at = services.clock.now()
            try:
                if not self._sure(claims.mark(permit.claim, lease=services.lease)):
                    self._refused(permit.tick, "taken over before it began to fire")
                    return False
            except StoreError as error:
                return isinstance(self._without_store(permit.tick, permit.claim, error), Permit)
            if services.clock.now() < deadline(asked_at=asked_at, lease=services.lease):
                if hold:
                    self._hold(permit.tick, permit.claim, services, asked_at)
                return True
            # The answer, or this process, took a whole lease: others may believe us dead by now.
        self.give_back(permit, "the store's answers came too late")
        self._refused(permit.tick, "the store's answers came too late")
        return False

    def done(self, permit: Permit) -> None:
        """Record that it has fired."""
        self._count("fired")
        self._end(permit, None)
        self._emit("guard.fired", permit.tick)
        if permit.claim is not None and permit.claim.token % TIDY_EVERY == 0:
            self._tidy()

    def failed(self, permit: Permit, error: BaseException) -> None:
        """Record that firing raised: whether it took effect is for its user to look up."""
        self._count("failed")
        self._emit("guard.failed", permit.tick, error=error_text(error))
        if self.on_unknown == "fire" and isinstance(error, Exception):
            self.give_back(permit, error_text(error))
        else:
            self._end(permit, error_text(error))

    def give_back(self, permit: Permit, why: str) -> None:
        """Leave to somebody else what certainly was not fired here."""
        if permit.claim is not None:
            self._drop(permit.claim)
            self._written(claims.release(permit.claim, keep=permit.tick.keep, error=why))

    def _end(self, permit: Permit, error: str | None) -> None:
        if permit.claim is not None:
            state: Literal["done", "failed"] = "done" if error is None else "failed"
            keep = permit.tick.keep
            self._drop(permit.claim)
            self._written(claims.end(permit.claim, keep=keep, state=state, error=error))

    def _note_late(self, tick: Tick, taken: Taken, took: int) -> None:
        """Keep in mind, until its next tick, that one of our phase was noted late."""
        late = noted_late(tick, since=taken.since, now=taken.now, took=took)
        if late:
            self._late[tick.key] = late
        if len(self._late) > LATE_MOST:
            self._late.pop(next(iter(self._late)), None)

    # Answers

    def _judge(self, tick: Tick, taken: Taken, lease: Span, again: bool) -> Answer:
        match taken:
            case Won(claim=claim, attempt=attempt):
                if attempt > 1:
                    self._count("taken_over")
                    self._emit("guard.taken_over", tick, attempt=attempt)
                return Permit(tick, claim)
            case Busy(until=until) if until and not _overtaken(tick, taken):
                if not again:
                    self._count("waited")
                chance = random.random()  # spreads those who wait for the same holder
                return Later(
                    tick, look_again(until=until, now=taken.now, lease=lease, chance=chance)
                )
            case Unsure():
                self._count("unknown")
                self._emit("guard.unknown", tick, owner=taken.owner)
                return Leave(tick, "unknown: whoever had begun to fire it was not heard of again")
            case Busy() | Finished():
                return self._refused(tick, f"{taken.state} by {taken.owner}")

    def _refused(self, tick: Tick, why: str) -> Leave:
        self._count("refused")
        self._emit("guard.refused", tick, why=why)
        return Leave(tick, why)

    def _without_store(self, tick: Tick, claim: LedgerClaim | None, error: StoreError) -> Answer:
        with self._lock:
            first, self._down = not self._down, True
        if first:
            what = "are not fired" if self.on_store_down == "skip" else "fire unguarded"
            log.warning("while the store is away, ticks of a guarded scheduler %s: %s", what, error)
        does = "skipped" if self.on_store_down == "skip" else "fired"
        self._count(f"{does}_store_down")
        self._emit("guard.store_down", tick, does=does, error=error_text(error))
        if self.on_store_down == "fire":
            return Permit(tick, claim)
        return Leave(tick, "the store is down")

    def _store_is_back(self) -> None:
        with self._lock:
            back, self._down = self._down, False
        if back:
            log.warning("the store is back: ticks are guarded again. %r", self)

    # The store

    def _run(self, command: Command[T]) -> T:
        answer: T = self._services().run()(command)
        return answer

    def _sure(self, command: Command[T]) -> T:
        """Ask again where the reply was lost: the same claim gets the same answer."""
        try:
            return self._run(command)
        except OutcomeUnknown:
            return self._run(command)

    def _hold(self, tick: Tick, claim: LedgerClaim, services: Services, asked_at: int) -> None:
        """Have the claim renewed: what fires may take long."""
        held = Held(
            claim,
            owner=claim.owner,
            token=claim.token,
            ttl=services.lease,
            asked_at=asked_at,
            renew=claims.renew,
            what=f"tick {tick.key}",
            on_lost=lambda held: self._emit("guard.lost", tick, why=held.lost),
        )
        with self._lock:
            self._held[claim.owner] = held
        services.renewer.hold(held)

    def _drop(self, claim: LedgerClaim) -> None:
        with self._lock:
            held = self._held.pop(claim.owner, None)
        if held is not None:
            self._services().renewer.drop(held)

    def _written(self, command: Command[bool]) -> None:
        """Carry out what ends a claim, for a lease if need be; after that it says unknown."""
        try:
            held = self._sure(command)
        except StoreError as error:
            services = self._services()
            services.renewer.release_later(command, ttl=services.lease)
            log.warning("how a tick ended is recorded when the store is back: %s", error)
        else:
            if not held:
                log.warning(
                    "the end of a tick is not recorded: it, or its interval's next, was taken over "
                    "meanwhile: %s",
                    command.parameters,
                )

    def _tidy(self) -> None:
        """Now and then, forget what is past its time: there may be no replica that does."""
        services = self._services()
        if services.store.dialect == "redis":
            return  # its keys expire by themselves
        try:
            now = self._run(views.clock())
            self._run(ledger.purge(limit=TIDY_MOST))
            self._run(events.purge(before=now - services.keep, limit=TIDY_MOST))
        except StoreError as trouble:
            services.events.emit("store.trouble", doing="purge", error=str(trouble))

    def _emit(self, event: str, tick: Tick, **more: object) -> None:
        told = self._services().events
        if told.heard(event):
            told.emit(event, schedule=tick.schedule, key=tick.key, **more)

    def _count(self, name: str) -> None:
        with self._lock:
            self.counts.add(name)

    # This process

    def after_fork(self, parent: int) -> None:
        """Keep, in a forked child, nothing that its parent waits for."""
        self._lock = threading.Lock()
        self._held, self._late = {}, {}
        self.room = WaitingRoom(threaded=self.room.threaded)
        self.counts = Counts()

    def stop(self) -> None:
        """Wait for nothing any more: what is in the room is somebody else's."""
        self.room.close()


def _overtaken(tick: Tick, busy: Busy) -> bool:
    """Tell whether the next tick of an interval comes before a claim on this one could lapse."""
    return tick.spacing > 0 and busy.since + tick.spacing <= busy.until
