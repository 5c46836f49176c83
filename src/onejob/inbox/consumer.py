"""How a message is handled, whichever broker it comes from.

1. A message that the broker says it has delivered before is counted, on *our* id of it, before its
   handler begins: one that ends its consumer is told by that.
2. One transaction: first time? then the handler, then commit. Or one run, keyed by the message.
3. Only then is it acknowledged. Where that is lost, the next delivery finds it known.
4. Whatever fails is given back, after a pause, and set aside after ``max_deliveries``.

Nothing is counted, and nothing written but what the handler writes, while all goes well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any, Final

from onejob.core.redelivery import (
    PAUSE_MOST,
    Again,
    Dead,
    Handled,
    Verdict,
    after_failure,
    time_needed,
    too_often,
)
from onejob.core.run import error_text
from onejob.core.time import SECOND, Duration, Span, duration, show_span
from onejob.counts import check_count
from onejob.errors import LeaseLost, StoreError, UsageError
from onejob.inbox.messages import Inbox
from onejob.inbox.transactions import OpenTransaction, Transactions
from onejob.job import Job
from onejob.steps import Call, Steps, acarry, carry

#: Before a message's place in its topic, where that is counted. No id begins with a space.
_PLACE: Final = " "
#: The most messages that one process handles at once.
CONCURRENCY_MOST: Final = 1_000


class Consumer:
    """An inbox, what handles its messages, and within which bounds.

    ``handle(message, tx)`` is called in a transaction that is committed before the message is
    acknowledged; an async one in the loop, a sync one in a thread. ``transaction`` opens it, such
    as ``sessionmaker.begin``; without, it is the App's store's, and ``tx`` a connection of its
    driver. Or ``job`` and ``args(message)`` make each message a run.

    ``decode`` makes what the handler and the inbox's key get from what the broker's library gives.
    ``timeout`` ends an async handler; a sync one can't be interrupted, so bound its own waits.
    """

    def __init__(
        self,
        inbox: Inbox,
        handle: Callable[[Any, Any], Any] | None = None,
        *,
        job: Job[..., ..., Any] | None = None,
        args: Callable[[Any], Mapping[str, Any]] | None = None,
        decode: Callable[[Any], Any] | None = None,
        transaction: OpenTransaction | None = None,
        timeout: Duration = "30s",
        concurrency: int = 10,
        max_deliveries: int = 5,
        grace: Duration = "25s",
    ) -> None:
        if (handle is None) == (job is None):
            raise UsageError("give handle=, a function of (message, tx), or job= with args=.")
        if job is not None and (transaction is not None or args is None):
            raise UsageError(
                "job= goes with args=, a function that makes the job's arguments of a message, and "
                "without transaction=: handing over is a transaction of its own."
            )
        if handle is not None and args is not None:
            raise UsageError("args= goes with job=. handle gets the message itself.")
        self.inbox = inbox
        self.timeout = duration(timeout, what="timeout", least=Span(SECOND // 100))
        self.concurrency = check_count(concurrency, what="concurrency", most=CONCURRENCY_MOST)
        self.max_deliveries = check_count(max_deliveries, what="max_deliveries")
        self.grace = duration(grace, what="grace")
        self._handle, self._job, self._args = handle, job, args
        self._decode = decode or (lambda message: message)
        self._open = transaction
        self._kept: Transactions | None = None

    def check_limit(self, limit: Span, *, prefetch: int, name: str, advice: str) -> None:
        """Raise UsageError where the broker would hand a message out again while it is handled."""
        needed = time_needed(self.timeout, prefetch=prefetch, concurrency=self.concurrency)
        if needed < limit:
            return
        turns = -(-prefetch // self.concurrency)
        queued = f"{turns} turns of " if turns > 1 else ""
        raise UsageError(
            f"{name} is {show_span(limit)}: the broker hands a message out again when it was not "
            f"acknowledged by then, and handling may take {queued}{show_span(self.timeout)} and a "
            f"pause of {show_span(PAUSE_MOST)}. {advice} Long work belongs in a run: job=, and the "
            "message is acknowledged at once."
        )

    def check_sync(self, *, instead: str) -> None:
        """Raise UsageError for an async handler: this loop has threads for it, no event loop."""
        if iscoroutinefunction(self._handle):
            raise UsageError(
                f"this loop calls sync handlers, in threads. For async ones: {instead}."
            )

    async def deliver(
        self, given: Any, *, envelope_id: Callable[[Any], object], redelivered: bool | None
    ) -> Verdict:
        """Handle one delivery, and say what to tell the broker. Raises nothing but cancellation.

        ``redelivered`` is the broker's word on whether it has delivered the message before. None
        where it gives none, and this may be one that ended its consumer: its place is counted then,
        which is a word of our own.
        """
        steps = self._delivery(given, envelope_id, redelivered)
        return await acarry(steps, self.inbox.services().arun())

    def deliver_here(
        self, given: Any, *, envelope_id: Callable[[Any], object], redelivered: bool | None
    ) -> Verdict:
        """The same in this thread, for a sync handler."""
        assert not iscoroutinefunction(self._handle), "the loop has asked: check_sync"
        steps = self._delivery(given, envelope_id, redelivered)
        return carry(steps, self.inbox.services().run())

    async def close(self) -> None:
        """Close the connections that were kept for transactions."""
        if self._kept is not None:
            await self._kept.close()

    def _delivery(
        self, given: Any, envelope_id: Callable[[Any], object], redelivered: bool | None
    ) -> Steps[Verdict]:
        inbox, events = self.inbox, self.inbox.services().events
        begun = 0
        message_id = ""
        try:
            message = self._decode(given)
            message_id = inbox.identified(message, lambda: envelope_id(given))
        except Exception as error:  # noqa: BLE001 - the sender's content, whatever it breaks
            return self._told(Dead(f"it can't be read: {error_text(error)}"), "?")
        try:
            if redelivered is None:
                place = f"{_PLACE}{envelope_id(given)}"
                redelivered = (yield inbox.begun(place, redelivered=False)) > 1
            if redelivered:
                begun = yield inbox.begun(message_id, redelivered=True)
                dead = too_often(begun, self.max_deliveries)
                # One whose acknowledgements were lost is known, however often it comes.
                if dead is not None and not (yield from inbox.known(message_id)):
                    return self._told(dead, message_id)
            first = yield from self._handled(message, message_id)
        except (StoreError, LeaseLost) as error:
            # The store's trouble is none of the message's: not counted. Committed or not, the next
            # delivery finds out.
            events.emit("message.trouble", inbox=inbox.name, key=message_id, error=str(error))
            return Again(str(error), PAUSE_MOST)
        except Exception as error:  # noqa: BLE001 - the edge of the loop: counted, and told
            return (yield from self._failed(error, message_id, begun))
        events.emit("message.handled", inbox=inbox.name, key=message_id, first=first)
        return Handled(first)

    def _failed(self, error: Exception, message_id: str, begun: int) -> Steps[Verdict]:
        why = error_text(error)
        if not begun:
            # Counted here: a sender that sends it anew does not say that it came before.
            try:
                begun = yield self.inbox.begun(message_id, redelivered=False)
            except StoreError:
                begun = 1
        verdict = after_failure(begun, self.max_deliveries, why)
        if isinstance(verdict, Again):
            self.inbox.services().events.emit(
                "message.failed", inbox=self.inbox.name, key=message_id, begun=begun, error=why
            )
        return self._told(verdict, message_id)

    def _told(self, verdict: Verdict, message_id: str) -> Verdict:
        if isinstance(verdict, Dead):
            self.inbox.services().events.emit(
                "message.dead", inbox=self.inbox.name, key=message_id, error=verdict.why
            )
        return verdict

    def _handled(self, message: Any, message_id: str) -> Steps[bool]:
        """Make the message take effect, once; tell whether this was the first time."""
        if self._job is not None and self._args is not None:
            args = self._args(message)
            return (yield from self.inbox.handing_over(message_id, job=self._job, args=args))
        unit = self._aunit if iscoroutinefunction(self._handle) else self._unit
        first: bool = yield Call(unit, (message, message_id))
        return first

    async def _aunit(self, message: Any, message_id: str) -> bool:
        assert self._handle is not None, "asked of a handler only"
        async with asyncio.timeout(self.timeout / SECOND):
            opened: Any = self._open() if self._open is not None else self._transactions.aopen()
            async with opened as tx:
                arun = self.inbox.services().arun(tx)
                if not await arun(self.inbox.first_command(message_id)):
                    return False
                await self._handle(message, tx)
        return True

    def _unit(self, message: Any, message_id: str) -> bool:
        assert self._handle is not None, "asked of a handler only"
        opened: Any = self._open() if self._open is not None else self._transactions.open()
        with opened as tx:
            if not self.inbox.services().run(tx)(self.inbox.first_command(message_id)):
                return False
            self._handle(message, tx)
        return True

    @property
    def _transactions(self) -> Transactions:
        if self._kept is None:
            self._kept = Transactions(self.inbox.services(), self.timeout)
        return self._kept
