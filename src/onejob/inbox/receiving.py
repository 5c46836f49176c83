"""Receive a message: new, in progress, done or unknown, with a claim where it is new.

For messages whose effect is not in the database of the inbox. Between the claim and its record a
process can die; what it did is then unknown, and is taken over only where the caller said that a
repeat is harmless. The claim has a token: who was superseded records nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias

from onejob.commands import inbox
from onejob.commands.ledger import NewEntry
from onejob.core.effect import Entry, EntryState
from onejob.core.run import Token, error_text
from onejob.core.time import SECOND, Span
from onejob.effect import PLAIN
from onejob.errors import InProgress, KeyReused, LeaseLost, OutcomeUnknown, UsageError
from onejob.services import Services
from onejob.steps import Steps, acarry, carry

#: How often an entry that moves under our hands is looked at again.
ROUNDS: Final = 5

State: TypeAlias = Literal["new", "in_progress", "done", "unknown"]
IfUnknown: TypeAlias = Literal["wait", "repeat"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the inbox has on a message; ``token`` is set where it is ours to handle."""

    state: State
    age: Span = Span(0)
    result: str | None = None
    token: Token | None = None


def receive(entry: NewEntry, if_unknown: IfUnknown) -> Steps[Answer]:
    """Claim a message, or tell what stands in the way."""
    for _ in range(ROUNDS):
        try:
            token = yield inbox.claim(entry)
        except OutcomeUnknown:
            token = None  # the entry itself tells, by this call's own name in it
        if token is not None:
            return Answer("new", token=token)
        found: Entry | None = yield inbox.read(entry.scope, entry.key)
        if found is None:
            continue  # given back meanwhile
        answer = _answer(found, entry)
        if answer.state != "unknown" or if_unknown == "wait":
            return answer
        token = yield inbox.take_over(entry, held=found.token)
        if token is not None:
            return Answer("new", answer.age, token=token)
    raise InProgress(entry.scope, entry.key, age_seconds=0.0)


def _answer(found: Entry, asked: NewEntry) -> Answer:
    """Decide what a delivery that finds ``found`` is told.

    Content first: another payload must never be told to wait for somebody else's result.
    """
    if found.fingerprint and asked.fingerprint and found.fingerprint != asked.fingerprint:
        raise KeyReused(asked.scope, asked.key)
    match found.state:
        case EntryState.DONE | EntryState.FAILED:
            return Answer("done", found.age, found.result)
        case EntryState.CLAIMED if found.owner == asked.owner:
            return Answer("new", token=found.token)  # our own claim, whose reply was lost
        case EntryState.CLAIMED if found.claim_until > found.now:
            return Answer("in_progress", found.age)
        case _:
            return Answer("unknown", found.age)


class _Handle:
    """What both colours of a received message share."""

    def __init__(self, services: Services, entry: NewEntry, keep: Span, answer: Answer) -> None:
        self._services, self._entry, self._keep = services, entry, keep
        self._answer = answer
        self._settled = answer.token is None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._entry.key!r} in {self._entry.scope!r}: {self.state}>"

    @property
    def id(self) -> str:
        """Return the message's id."""
        return self._entry.key

    @property
    def state(self) -> State:
        """Return what the message was when it was received: new, in_progress, done or unknown."""
        return self._answer.state

    @property
    def new(self) -> bool:
        """Tell whether it is ours to handle."""
        return self.state == "new"

    @property
    def age(self) -> timedelta:
        """Return how long ago it was first claimed, by the store's clock; 0 for a new one."""
        return timedelta(microseconds=self._answer.age)

    @property
    def result(self) -> Any:
        """Return what was recorded with it, where it is done."""
        return PLAIN.decode_result(self._answer.result)

    @property
    def token(self) -> int | None:
        """Return the claim's token, where it is ours."""
        return self._answer.token

    def _record(self, state: EntryState, result: Any, error: str | None = None) -> Steps[None]:
        token = self._ours()
        recorded = PLAIN.encode_result(result)
        accepted = yield inbox.record(
            self._entry.scope,
            self._entry.key,
            token=token,
            state=state,
            result=recorded,
            error=error,
            keep=self._keep,
        )
        self._refuse_stale(accepted, token)

    def _give_back(self) -> Steps[None]:
        token = self._ours()
        accepted = yield inbox.give_back(self._entry.scope, self._entry.key, token=token)
        self._refuse_stale(accepted, token)

    def _leave(self, error: BaseException | None) -> Steps[None]:
        if self._settled:
            return
        if error is None:
            yield from self._record(EntryState.DONE, None)
        elif isinstance(error, Exception):
            try:
                yield from self._give_back()
            except LeaseLost:
                return  # the block's own error is the one to tell of
        else:
            # Interrupted, it does not know what it did.
            yield from self._record(EntryState.UNKNOWN, None, error_text(error))

    def _ours(self) -> Token:
        token = self._answer.token
        if token is None:
            raise UsageError(
                f"message {self.id!r} is {self.state}: only a new one is yours to record or to "
                "give back. Look at .new first."
            )
        if self._settled:
            raise UsageError(f"message {self.id!r} has been settled already, by this very handle.")
        return token

    def _refuse_stale(self, accepted: bool, token: Token) -> None:
        self._settled = True
        if not accepted:
            raise LeaseLost(
                f"message {self.id!r} in {self._entry.scope!r}",
                token=token,
                why="its time was over, and somebody took it over",
            )


class Received(_Handle):
    """A message as the inbox has it. As a context: done at the end, given back on an error.

    Where another attempt took the message over meanwhile, ``done`` and ``give_back`` raise
    LeaseLost and change nothing.
    """

    def done(self, result: Any = None) -> None:
        """Record that it is handled, with what a later delivery should be told (JSON)."""
        carry(self._record(EntryState.DONE, result), self._services.run())

    def give_back(self) -> None:
        """Forget the claim: nothing was done, and the next delivery is new."""
        carry(self._give_back(), self._services.run())

    def unknown(self, why: str) -> None:
        """Record that nobody knows what was done: left alone until a person says."""
        carry(self._record(EntryState.UNKNOWN, None, why), self._services.run())

    def __enter__(self) -> Received:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        carry(self._leave(error), self._services.run())


class AsyncReceived(_Handle):
    """The same in a loop."""

    async def done(self, result: Any = None) -> None:
        """Record that it is handled; see :meth:`Received.done`."""
        await acarry(self._record(EntryState.DONE, result), self._services.arun())

    async def give_back(self) -> None:
        """Forget the claim: nothing was done, and the next delivery is new."""
        await acarry(self._give_back(), self._services.arun())

    async def unknown(self, why: str) -> None:
        """Record that nobody knows what was done: left alone until a person says."""
        await acarry(self._record(EntryState.UNKNOWN, None, why), self._services.arun())

    async def __aenter__(self) -> AsyncReceived:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await acarry(self._leave(error), self._services.arun())


#: The shortest time that a claim may last.
LEAST_CLAIM: Final = Span(SECOND // 10)
