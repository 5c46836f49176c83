"""One turn at a period, or at a key: claimed in the ledger, held while it is worked on, ended.

1. Name the period by the store's clock, where it is not a key that the caller gave.
2. Claim it. Somebody else has it, or has done it: that is the answer.
3. Hold it: the renewer keeps it from lapsing for as long as this process lives and reaches the
   store. Whoever dies lets it lapse, and the next who asks takes it over.
4. End it under (token, owner): done and kept, failed and kept, or given back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from uuid import uuid4

from onejob.commands import claims, ledger, views
from onejob.commands import events as told
from onejob.commands.claims import Busy, Finished, LedgerClaim, Unsure, Won
from onejob.commands.command import Command
from onejob.core.period import Per
from onejob.core.time import Instant, Span
from onejob.errors import StoreError
from onejob.runtime.held import Held
from onejob.services import Services
from onejob.steps import Steps

#: One turn in so many forgets old claims and events, and so many at the most.
TIDY_EVERY = 16
TIDY_MOST = 1_000

OnLost: TypeAlias = Callable[[Held], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """Which work: the period of ``per`` that it is now, or ``key``; under a lease of ``ttl``."""

    scope: str
    ttl: Span
    per: Per | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """It is ours. ``attempt`` above 1: it was given back, or abandoned, so often before."""

    claim: LedgerClaim
    held: Held
    attempt: int
    keep: Span


@dataclass(frozen=True, slots=True)
class NoTurn:
    """It is somebody else's, or done: ``answer`` says which."""

    key: str
    answer: Busy | Unsure | Finished

    @property
    def busy(self) -> bool:
        """Tell whether somebody is at it, and may yet fail."""
        return isinstance(self.answer, Busy)

    @property
    def why(self) -> str:
        """Say it in words."""
        if isinstance(self.answer, Finished):
            return f"{self.answer.state} by {holder(self.answer.owner)}"
        if isinstance(self.answer, Unsure):
            return f"unknown: {holder(self.answer.owner)} was not heard of again"
        return f"in progress by {holder(self.answer.owner)}"


def take(wish: Wish, services: Services, on_lost: OnLost) -> Steps[Turn | NoTurn]:
    """Ask for a turn; what is won is renewed from now on. Raises StoreError.

    A reply that came after the lease is no turn: it is given back, and LeaseLost is raised.
    """
    key, keep = wish.key, services.keep
    if wish.per is not None:
        now: int = yield views.clock()
        period = wish.per.at(Instant(now))
        key, keep = period.key, period.keep(services.keep, now=now)
    # A name of its own for each turn: two threads of one process are two.
    owner = f"{services.owner}/{uuid4().hex}"
    asked_at = services.clock.now()
    taken: claims.Taken = yield claims.take(
        claims.PERIOD, wish.scope, key, owner=owner, lease=wish.ttl, keep=keep
    )
    if not isinstance(taken, Won):
        return NoTurn(key, taken)
    held = Held(
        taken.claim,
        owner=owner,
        token=taken.claim.token,
        ttl=wish.ttl,
        asked_at=asked_at,
        renew=claims.renew,
        what=f"period {key!r} of {wish.scope!r}",
        on_lost=on_lost,
    )
    if held.over(services.clock.now()):
        yield claims.release(taken.claim, keep=keep, error="the store's answer came too late")
        held.check(services.clock.now())
    services.renewer.hold(held)
    return Turn(taken.claim, held, taken.attempt, keep)


def done(turn: Turn, services: Services) -> Steps[bool]:
    """Record that it was done. False: somebody else has taken it over meanwhile."""
    ours = yield from _end(turn, services, ending(turn))
    yield from tidy(turn, services)
    return ours


def failed(turn: Turn, services: Services, error: str, *, keep: bool) -> Steps[bool]:
    """Give it back, so that whoever asks next may do it; with ``keep`` it counts as it is."""
    return (yield from _end(turn, services, ending(turn, error, keep=keep)))


def ending(turn: Turn, error: str = "", *, keep: bool = False) -> Command[bool]:
    """Return the command that ends a turn: done, or with an error given back, or kept."""
    if not error:
        return claims.end(turn.claim, keep=turn.keep)
    if keep:
        return claims.end(turn.claim, keep=turn.keep, state="failed", error=error)
    return claims.release(turn.claim, keep=turn.keep, error=error)


def tidy(turn: Turn, services: Services) -> Steps[None]:
    """Now and then, forget what is past its time: there may be no replica that does."""
    if turn.claim.token % TIDY_EVERY or turn.held.is_inherited:
        return
    try:
        now: int = yield views.clock()
        yield ledger.purge(limit=TIDY_MOST)
        yield told.purge(before=now - services.keep, limit=TIDY_MOST)
    except StoreError as trouble:
        services.events.emit("store.trouble", doing="purge", error=str(trouble))


def holder(owner: str) -> str:
    """Return who holds a claim, as people know it: host and pid."""
    return owner.rpartition("/")[0] or owner


def _end(turn: Turn, services: Services, command: Command[bool]) -> Steps[bool]:
    if turn.held.is_inherited:
        return True  # a forked child of the body has left it: that is for its parent to say
    services.renewer.drop(turn.held)
    try:
        ours: bool = yield command
    except StoreError as trouble:
        # The work has been done, or not: nothing of that is changed by what we cannot write.
        services.renewer.release_later(command, ttl=turn.held.ttl)
        services.events.emit("store.trouble", doing="end a period", error=str(trouble))
        return True
    return ours
