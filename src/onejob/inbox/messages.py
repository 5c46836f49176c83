"""``app.inbox(name)``: what has been handled, by the message's id, for as long as is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args

from onejob.commands import inbox, ledger
from onejob.commands.command import Command
from onejob.commands.ledger import NewEntry
from onejob.commands.runs import NewRun
from onejob.core.effect import Entry, EntryState
from onejob.core.fingerprint import fingerprint as hashed
from onejob.core.names import check_name
from onejob.core.run import Kind
from onejob.core.time import SECOND, Duration, Instant, Span, duration, moment
from onejob.counts import LISTED_MAX, check_count
from onejob.effect import PLAIN
from onejob.errors import InProgress, Refused, UsageError
from onejob.inbox.identity import KeyOfMessage, check_inbox_name, identify
from onejob.inbox.receiving import (
    LEAST_CLAIM,
    Answer,
    AsyncReceived,
    IfUnknown,
    Received,
    receive,
)
from onejob.job import Job
from onejob.outside import own_name
from onejob.queue import Enqueued, enqueue
from onejob.services import Services, required
from onejob.steps import Steps, acarry, carry


@dataclass(frozen=True, slots=True)
class MessageInfo:
    """A message as the inbox has it. ``state`` is claimed, done or unknown."""

    id: str
    state: str
    attempt: int
    claimed_at: datetime
    owner: str
    result: Any
    error: str | None


class Inbox:
    """Messages of one name. ``keep`` counts from when a message was done.

    It must be longer than the sender may go on delivering the same message: after that time a copy
    counts as new.
    """

    def __init__(
        self,
        services: Callable[[], Services],
        name: str,
        *,
        keep: Duration = "14d",
        key: KeyOfMessage | None = None,
    ) -> None:
        self.name = check_inbox_name(name)
        self.keep = duration(keep, what="keep", least=SECOND)
        self._identify, self._keyed = identify(key), key is not None
        self.services = services

    def __repr__(self) -> str:
        return f"<Inbox {self.name}>"

    def id_of(self, message: Any) -> str:
        """Return the id of a message: itself, or what ``key`` makes of it. UsageError: none."""
        return self._identify(message)

    def identified(self, message: Any, envelope_id: Callable[[], object]) -> str:
        """Return the id of a broker's message: of its content where there is a key, else its own.

        UsageError for a message that has none.
        """
        if self._keyed:
            return self.id_of(message)
        return check_name(envelope_id(), what="message id")

    def first(self, message: Any, *, within: object) -> bool:
        """Tell whether this is the first time for a message, in your transaction.

        True: handle it there, commit, then acknowledge. False: it has been handled; acknowledge.
        Waits for another transaction that handles it now; if that one rolls back, this is first.
        """
        command = self.first_command(self.id_of(message))
        answer: bool = self.services().run(required(within))(command)
        return answer

    async def afirst(self, message: Any, *, within: object) -> bool:
        """The same in a loop."""
        command = self.first_command(self.id_of(message))
        answer: bool = await self.services().arun(required(within))(command)
        return answer

    def first_command(self, message_id: str) -> Command[bool]:
        """Return what :meth:`first` asks of the store."""
        owner = own_name(self.services())
        return ledger.first(self.name, message_id, owner=owner, keep=self.keep, kind="inbox")

    def receive(
        self,
        message: Any,
        *,
        fingerprint: object = None,
        claim_for: Duration = "10m",
        if_unknown: IfUnknown = "wait",
    ) -> Received:
        """Claim a message whose effect is outside your database, or tell what is known of it.

        ``with inbox.receive(id, fingerprint=body) as received:`` and look at ``received.state``.
        ``claim_for`` is how long handling may take. A claim that nobody recorded in time is
        unknown, until somebody resolves it; with ``if_unknown="repeat"`` it is handled again.
        Raises KeyReused for the same id with other content.
        """
        services = self.services()
        entry = self._entry(message, fingerprint, claim_for, if_unknown)
        answer: Answer = carry(receive(entry, if_unknown), services.run())
        return Received(services, entry, self.keep, answer)

    async def areceive(
        self,
        message: Any,
        *,
        fingerprint: object = None,
        claim_for: Duration = "10m",
        if_unknown: IfUnknown = "wait",
    ) -> AsyncReceived:
        """The same in a loop: ``async with await inbox.areceive(...) as received:``."""
        services = self.services()
        entry = self._entry(message, fingerprint, claim_for, if_unknown)
        answer: Answer = await acarry(receive(entry, if_unknown), services.arun())
        return AsyncReceived(services, entry, self.keep, answer)

    def hand_over(
        self,
        message: Any,
        *,
        job: Job[..., ..., Any],
        args: Mapping[str, Any] | None = None,
        within: object = None,
    ) -> Enqueued:
        """Make a run of a message, one for each job and id; then acknowledge it.

        A second delivery makes none: ``created`` is False, and ``conflict`` tells that its
        arguments were others.
        """
        services = self.services()
        run = self._run(self.id_of(message), job, args, services)
        [answer] = carry(enqueue([run]), services.run(within))
        services.wake()
        return answer

    async def ahand_over(
        self,
        message: Any,
        *,
        job: Job[..., ..., Any],
        args: Mapping[str, Any] | None = None,
        within: object = None,
    ) -> Enqueued:
        """The same in a loop."""
        services = self.services()
        run = self._run(self.id_of(message), job, args, services)
        [answer] = await acarry(enqueue([run]), services.arun(within))
        services.wake()
        return answer

    def handing_over(
        self, message_id: str, *, job: Job[..., ..., Any], args: Mapping[str, Any]
    ) -> Steps[bool]:
        """Make a run of the message of this id; False: there is one."""
        services = self.services()
        [answer] = yield from enqueue([self._run(message_id, job, args, services)])
        services.wake()
        return answer.created

    def unknown(self, *, limit: int = 100) -> list[MessageInfo]:
        """Read the messages of which nobody knows whether they were handled, oldest first."""
        return carry(self._unknown(limit), self.services().run())

    async def aunknown(self, *, limit: int = 100) -> list[MessageInfo]:
        """The same in a loop."""
        return await acarry(self._unknown(limit), self.services().arun())

    def resolve(
        self, message_id: str, answer: Literal["done", "redo"], *, result: Any = None
    ) -> None:
        """Say what became of an unknown message: done, or to be handled at its next delivery.

        Raises InProgress while it may be under way, Refused where it is settled, LookupError where
        it was never claimed.
        """
        carry(self._resolve(message_id, answer, result), self.services().run())

    async def aresolve(
        self, message_id: str, answer: Literal["done", "redo"], *, result: Any = None
    ) -> None:
        """The same in a loop."""
        await acarry(self._resolve(message_id, answer, result), self.services().arun())

    def begun(self, message_id: str, *, redelivered: bool) -> Command[int]:
        """Return the command that counts a beginning of this message, on its id."""
        least = 2 if redelivered else 1
        return inbox.begun(self.name, message_id, least=least, keep=self.keep)

    def known(self, message_id: str) -> Steps[bool]:
        """Tell whether the message of this id has been handled."""
        entry: Entry | None = yield inbox.read(self.name, message_id)
        return entry is not None and entry.state is EntryState.DONE

    def _entry(
        self, message: Any, content: object, claim_for: Duration, if_unknown: str
    ) -> NewEntry:
        if if_unknown not in get_args(IfUnknown):
            raise UsageError(f"if_unknown={if_unknown!r} must be 'wait' or 'repeat'.")
        span: Span = duration(claim_for, what="claim_for", least=LEAST_CLAIM)
        return NewEntry(
            self.name,
            self.id_of(message),
            own_name(self.services()),
            "" if content is None else hashed(content),
            span,
        )

    def _run(
        self,
        message_id: str,
        job: Job[..., ..., Any],
        args: Mapping[str, Any] | None,
        services: Services,
    ) -> NewRun:
        given: object = job
        if not isinstance(given, Job):
            raise UsageError(f"job={given!r} must be a job of an App (@app.job).")
        if self.keep > services.keep:
            raise UsageError(
                f"inbox {self.name!r} keeps messages for longer than this App keeps runs, and a "
                "run's key is what a second delivery of its message finds. Give App(keep=) at "
                "least the inbox's time."
            )
        key = check_name(f"{self.name}/{message_id}", what="inbox name and message id together")
        made = job.new_run(key, {} if args is None else args)
        return replace(made, kind=Kind.MESSAGE)

    def _unknown(self, limit: int) -> Steps[list[MessageInfo]]:
        check_count(limit, what="limit", most=LISTED_MAX)
        entries: tuple[Entry, ...] = yield inbox.unsettled(self.name, limit=limit)
        return [_info(entry) for entry in entries]

    def _resolve(self, message_id: str, answer: str, result: Any) -> Steps[None]:
        if answer not in ("done", "redo"):
            raise UsageError(f"answer={answer!r} must be 'done' or 'redo'.")
        if result is not None and answer != "done":
            raise UsageError(f"a result belongs to 'done', not to {answer!r}.")
        check_name(message_id, what="message id")
        recorded = PLAIN.encode_result(result)
        entry: Entry | None = yield inbox.read(self.name, message_id)
        if entry is None:
            raise LookupError(f"no message {message_id!r} of inbox {self.name!r} was claimed.")
        if entry.state not in (EntryState.CLAIMED, EntryState.UNKNOWN):
            raise Refused(f"message {message_id!r} is settled: {entry.state}. Nothing changed.")
        # Under a claim of our own: what the earlier holder may still record is refused.
        mine = NewEntry(self.name, message_id, f"resolved by {self.services().owner}")
        token = yield inbox.take_over(replace(mine, claim_for=SECOND), held=entry.token)
        if token is None:
            raise InProgress(self.name, message_id, age_seconds=entry.age / SECOND)
        if answer == "redo":
            yield inbox.give_back(self.name, message_id, token=token)
        else:
            yield inbox.record(
                self.name,
                message_id,
                token=token,
                state=EntryState.DONE,
                result=recorded,
                keep=self.keep,
            )


class Inboxes:
    """``app.inbox``."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services

    def inbox(self, name: str, *, keep: Duration = "14d", key: KeyOfMessage | None = None) -> Inbox:
        """Return the inbox of this name: what has been handled of what a broker delivers.

        ``keep`` must be longer than the sender may go on delivering one message. ``key`` makes a
        message's id from its content, where envelope ids change: a function, or a template such as
        ``"{shop}/{order}"``. Opens nothing. The same name is the same inbox in every process.
        """
        return Inbox(self._services, name, keep=keep, key=key)


def _info(entry: Entry) -> MessageInfo:
    return MessageInfo(
        id=entry.key,
        state=entry.state.value,
        attempt=entry.attempt,
        claimed_at=moment(Instant(entry.claimed)),
        owner=entry.owner,
        result=None if entry.result is None else json.loads(entry.result),
        error=entry.error,
    )
