"""How one effect happens once.

1. Claim the entry (scope, key). Somebody else's entry in the way: ``core.effect.answer`` decides.
2. Call, with the provider's key where it has one.
3. Record what is known. A call that certainly reached nobody, or that the provider refused for now,
   is released; one that it refused for good is recorded as failed; and every other error leaves the
   outcome *unknown*. ``outcomes`` tells which is which.

Under a policy that can settle it (repeat, or ask) an unknown outcome is raised as the call's own
error, so that the retry policy comes back later: the first request may still be on its way.
"""

from __future__ import annotations

from collections.abc import Generator
from inspect import isawaitable, iscoroutine
from typing import Any, Final

from onejob.commands import ledger, runs
from onejob.commands.command import Command
from onejob.core import effect as rules
from onejob.core.effect import Entry, EntryState, IfUnknown
from onejob.core.meaning import Meaning
from onejob.core.run import Claim, State, Token, error_text
from onejob.core.time import SECOND, Instant, moment
from onejob.effect import Done, Effect, EffectFailed, Failed, NotSent, Redo, Request, Unknown
from onejob.errors import (
    EffectUnknown,
    InProgress,
    KeyReused,
    LeaseLost,
    OutcomeUnknown,
    StoreError,
    UsageError,
)
from onejob.outcomes import meaning
from onejob.runtime.events import Events
from onejob.steps import Call, Steps

#: How often an entry that moves under our hands is looked at again.
ROUNDS: Final = 5

#: How often an outcome is written before its store's error is raised.
RECORD_TRIES: Final = 3


def perform(asked: Request, events: Events) -> Steps[Any]:
    """Make an effect happen once: the procedure, for either colour."""
    for _ in range(ROUNDS):
        token = yield from _claim(asked)
        if token is not None:
            return (yield from _call(asked, token, events, first=True))
        entry = yield from _read(asked)
        if entry is None:
            yield from still_holds(asked.run, asked.scope)
            continue
        if entry.token == 0:
            raise UsageError(
                f"key {asked.key!r} in {asked.scope!r} was used with first(), which calls nobody. "
                "Give the effect a key of its own."
            )
        owner, content = asked.entry.owner, asked.entry.fingerprint
        if entry.owner == owner and entry.state is EntryState.CLAIMED:
            # A claim of this very call, whose reply was lost or came too late to be seen.
            return (yield from _call(asked, entry.token, events, first=True))
        match rules.answer(entry, asked.policy, owner=owner, fingerprint=content):
            case rules.Replay(result):
                return asked.decode(result)
            case rules.RaiseFailed(error):
                raise EffectFailed(asked.scope, asked.key, error)
            case rules.Mismatch():
                raise KeyReused(asked.scope, asked.key)
            case rules.Busy(age):
                raise InProgress(asked.scope, asked.key, age_seconds=age / SECOND)
            case rules.Unknown(why):
                raise _unknown(asked, why)
            case rules.Repeat() | rules.Ask() as decision:
                # Taken over before anything is asked or called, so that only one does it.
                token = yield ledger.reclaim(asked.entry, held=entry.token, run=asked.run)
                if token is None:
                    yield from still_holds(asked.run, asked.scope)
                    continue
                if isinstance(decision, rules.Ask):
                    return (yield from _ask(asked, entry, token, events))
                return (yield from _call(asked, token, events, first=False))
    raise InProgress(asked.scope, asked.key, age_seconds=0.0)


def _claim(asked: Request) -> Steps[Token | None]:
    if asked.run is None:
        command = ledger.claim(asked.entry)
    else:
        command = ledger.claim_in_run(asked.run, asked.entry)
    try:
        token: Token | None = yield command
    except OutcomeUnknown:
        return None  # the entry itself tells, by this call's own name in it
    return token


def _read(asked: Request) -> Steps[Entry | None]:
    entries: tuple[Entry, ...] = yield ledger.read(asked.scope, [asked.key])
    return entries[0] if entries else None


def still_holds(claim: Claim | None, scope: str) -> Generator[Command[Any], Any, None]:
    """Raise LeaseLost where the reason of a refusal is that the attempt is superseded."""
    if claim is None:
        return
    standing = (yield runs.standings([claim.id])).get(claim.id)
    if (
        standing is None
        or (standing.token, standing.replica) != (claim.token, claim.replica)
        or standing.state is not State.RUNNING
    ):
        why = "another attempt has superseded it, or it has ended"
        raise LeaseLost(f"run {scope}", token=claim.token, why=why)


def _call(asked: Request, token: Token, events: Events, *, first: bool) -> Steps[Any]:
    try:
        value = yield asked.call
    except Exception as error:
        yield from _failed(asked, token, error, events, first=first)
        raise
    if isawaitable(value):
        # Called in a function, it was only made and never begun.
        if iscoroutine(value):
            value.close()
        unsent = NotSent(
            "the call returned something to await, and nothing awaited it. Use an async handler "
            "with AsyncRun, or a call that does its work itself"
        )
        yield from _failed(asked, token, unsent, events, first=first)
        raise unsent
    return (yield from _done(asked, token, value, events))


def _done(asked: Request, token: Token, value: Any, events: Events) -> Steps[Any]:
    # Recorded even where the result can't be: the effect has happened, whatever it returned.
    result: str | None = None
    problem: UsageError | None = None
    try:
        result = asked.encode(value)
    except UsageError as error:
        problem = error
    yield from _record(asked, token, EntryState.DONE, events, result=result)
    if problem is not None:
        raise UsageError(
            f"{problem} The effect has happened and is recorded as done, without its result. Let "
            "the call return what a repeat should get, such as the receipt's id."
        ) from None
    return value


def _failed(
    asked: Request, token: Token, error: Exception, events: Events, *, first: bool
) -> Steps[None]:
    """Write down what an error of the call means; the caller raises it again afterwards."""
    match _said(asked, error, first=first):
        case Meaning.FINAL:
            yield from _record(asked, token, EntryState.FAILED, events, error=error_text(error))
            return
        case Meaning.NOT_SENT | Meaning.REFUSED:
            yield from _release(asked, token, events)
            return
        case Meaning.UNKNOWN:
            pass
    try:
        yield from _record(asked, token, EntryState.UNKNOWN, events, error=error_text(error))
    except StoreError:
        pass  # an entry that stays claimed by a finished attempt is unknown as well
    if asked.policy.if_unknown is IfUnknown.RAISE:
        raise _unknown(asked, error_text(error)) from error


def said_by(error: Exception, final: tuple[type[Exception], ...]) -> Meaning:
    """Tell what an error of a call says about its effect.

    ``final`` is the caller's word on classes of which nobody else knows anything.
    """
    said = meaning(error)
    if said in (None, Meaning.FINAL) and final and isinstance(error, final):
        return Meaning.FINAL
    return said or Meaning.UNKNOWN


def _said(asked: Request, error: Exception, *, first: bool) -> Meaning:
    """Tell the same of a call that may be a repeat.

    That was not sent, or was refused by its status: it says nothing about the call before it, which
    may have happened.
    """
    said = said_by(error, asked.final)
    declared = bool(asked.final) and isinstance(error, asked.final)
    return said if first or (said is Meaning.FINAL and declared) else Meaning.UNKNOWN


def _ask(asked: Request, entry: Entry, token: Token, events: Events) -> Steps[Any]:
    assert asked.resolver is not None, "a policy to ask comes with whom to ask"
    claimed_at = moment(Instant(entry.claimed))
    told = Effect(asked.scope, asked.key, asked.provider_key, claimed_at, entry.attempt)
    try:
        resolution = yield Call(asked.resolver, (told,))
    except Exception as error:
        yield from _record(asked, token, EntryState.UNKNOWN, events, error=error_text(error))
        raise
    match resolution:
        case Done(result):
            return (yield from _done(asked, token, result, events))
        case Redo():
            return (yield from _call(asked, token, events, first=True))
        case Failed(reason):
            yield from _record(asked, token, EntryState.FAILED, events, error=reason)
            raise EffectFailed(asked.scope, asked.key, reason)
        case _:
            why = "the provider cannot say"
            if not isinstance(resolution, Unknown):
                why = f"the resolver returned {type(resolution).__name__}, not a resolution"
            yield from _record(asked, token, EntryState.UNKNOWN, events, error=why)
            raise _unknown(asked, why)


def _record(
    asked: Request,
    token: Token,
    state: EntryState,
    events: Events,
    *,
    result: str | None = None,
    error: str | None = None,
) -> Steps[None]:
    command = ledger.record(
        asked.scope,
        asked.key,
        token=token,
        state=state,
        result=result,
        error=error,
        keep=asked.keep,
    )
    for tries_left in reversed(range(RECORD_TRIES)):
        try:
            accepted = yield command
        except StoreError:
            if not tries_left:
                raise
        else:
            if not accepted:
                raise superseded(asked.scope, asked.key, token, state, events)
            return


def _release(asked: Request, token: Token, events: Events) -> Steps[None]:
    try:
        accepted = yield ledger.release(asked.scope, asked.key, token=token)
    except StoreError:
        return  # the claim stays, and is settled as unknown: the safe side
    if not accepted:
        events.emit("effect.released", scope=asked.scope, key=asked.key, token=token, found=False)


def superseded(scope: str, key: str, token: Token, state: EntryState, events: Events) -> LeaseLost:
    """Report what a superseded caller knows: the entry is somebody else's now. To be raised."""
    events.emit("effect.superseded", scope=scope, key=key, token=token, outcome=state.value)
    why = f"somebody took it over during the call, which ended {state.value}"
    return LeaseLost(f"effect {key!r} in {scope!r}", token=token, why=why)


def _unknown(asked: Request, why: str) -> EffectUnknown:
    return EffectUnknown(asked.scope, asked.key, provider_key=asked.provider_key, why=why)
