"""Write down how attempts ended: many at once, and until the store has answered.

While one batch is on its way the next one gathers, so a slow store makes batches larger and not
slower. A batch whose reply is lost is sent again: what the first sending did is then found by its
token in :func:`runs.standings`. Three answers are kept apart: *done*, *locked* (a fenced
transaction holds the row: again a little later) and *stale* (somebody newer holds the run, or has
ended it: reported, dropped).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

from onejob.commands import ledger, runs
from onejob.core.effect import EntryState
from onejob.core.run import Again, Claim, End, LeaveUnknown, Outcome, Park, Settlement, State
from onejob.errors import StoreError
from onejob.runtime.clock import Clock
from onejob.runtime.events import Events, log
from onejob.runtime.settings import Settings
from onejob.stores.protocol import AsyncStore

#: Most settlements in one command.
BATCH = 500
#: The pause before locked rows, or an unreachable store, are tried again.
PAUSE = 50_000


class Settler:
    """The settlements of one replica on their way to the store."""

    def __init__(
        self,
        store: AsyncStore,
        settings: Settings,
        *,
        clock: Clock,
        events: Events,
        settled: Callable[[Claim], None],
    ) -> None:
        self._store, self._settings, self._clock, self._events = store, settings, clock, events
        self._settled = settled
        self._pending: dict[Claim, Settlement] = {}
        self._something = asyncio.Event()
        self._nothing = asyncio.Event()
        self._nothing.set()

    def __len__(self) -> int:
        """Return how many are not yet known to be written."""
        return len(self._pending)

    def __contains__(self, claim: Claim) -> bool:
        """Tell whether the end of this attempt is on its way to the store."""
        return claim in self._pending

    def add(self, claim: Claim, settlement: Settlement) -> None:
        """Take a settlement over; ``settled`` is called once it is written, or is stale."""
        self._pending[claim] = settlement
        self._nothing.clear()
        self._something.set()

    async def serve(self) -> None:
        """Write settlements until cancelled."""
        while True:
            await self._something.wait()
            batch = dict(islice(self._pending.items(), BATCH))
            try:
                locked = await self._write(batch)
            except StoreError as error:
                self._events.emit("store.trouble", doing="settle", error=str(error))
                await self._clock.sleep(PAUSE * 4)
                continue
            except Exception as error:  # noqa: BLE001 - one must not hold up the rest
                log.exception("a batch of settlements could not be written; trying one by one")
                why = f"{type(error).__name__}: {error}"
                self._events.emit("loop.error", loop="settler", error=why)
                locked = await self._one_by_one(batch)
            if locked:
                await self._clock.sleep(PAUSE)

    async def flushed(self) -> None:
        """Wait until everything added so far is written."""
        await self._nothing.wait()

    async def _one_by_one(self, batch: dict[Claim, Settlement]) -> bool:
        """Write each by itself, and one that cannot be written as it is without its texts."""
        locked = False
        for claim, settlement in batch.items():
            try:
                locked |= await self._write({claim: settlement})
            except StoreError as error:
                self._events.emit("store.trouble", doing="settle", error=str(error))
                return True
            except Exception as error:  # noqa: BLE001 - told, and written down in other words
                self._events.emit("loop.error", loop="settler", error=type(error).__name__)
                # At its next turn, behind all others: it may be what no store will take at all.
                self._pending[claim] = _without_texts(self._pending.pop(claim))
                locked = True
        return locked

    async def _write(self, batch: dict[Claim, Settlement]) -> bool:
        """Send one batch; return whether some rows were locked and stay pending."""
        answer = await self._store.run(runs.settle(batch.items(), keep=self._settings.keep))
        done = set(answer)
        missing = [claim for claim in batch if claim not in done]
        locked: set[Claim] = set()
        if missing:
            found, locked = await self._sort_out(missing)
            done |= found
        quiet = not self._events.heard("run.ended")
        for claim, settlement in batch.items():
            if claim in locked:
                continue
            if claim in done and isinstance(settlement, LeaveUnknown):
                await self._look_again(claim, settlement)
            if claim in done:
                if not (quiet and _is_plain(settlement)):
                    self._tell(claim, settlement)
            else:
                ids = {"run": claim.id, "token": claim.token, "replica": claim.replica}
                self._events.emit("run.stale", **ids)
            del self._pending[claim]
            self._settled(claim)
        if not self._pending:
            self._something.clear()
            self._nothing.set()
        return bool(locked)

    async def _sort_out(self, missing: list[Claim]) -> tuple[set[Claim], set[Claim]]:
        """Find what an earlier sending has done, and what is locked; the rest is stale."""
        standings = await self._store.run(runs.standings(claim.id for claim in missing))
        done: set[Claim] = set()
        locked: set[Claim] = set()
        for claim in missing:
            now = standings.get(claim.id)
            if now is None or now.token != claim.token:
                continue
            if now.state is State.RUNNING and now.replica == claim.replica:
                locked.add(claim)
            else:
                done.add(claim)
        return done, locked

    async def _look_again(self, claim: Claim, settlement: LeaveUnknown) -> None:
        """Free a run whose effect was recorded just before the run became unknown.

        Recording wakes a run that is unknown already; settled after recording, nobody would.
        """
        if not settlement.key:
            return
        [entry] = await self._store.run(ledger.read(settlement.scope, [settlement.key])) or [None]
        if entry is None or entry.state in (EntryState.DONE, EntryState.FAILED):
            await self._store.run(runs.wake(claim))

    def _tell(self, claim: Claim, settlement: Settlement) -> None:
        ids = {"run": claim.id, "token": claim.token, "replica": claim.replica}
        match settlement:
            case End(Outcome.SUCCEEDED):
                self._events.emit("run.ended", **ids, outcome="succeeded")
            case End(outcome, error):
                self._events.emit("run.failed", **ids, outcome=outcome.value, error=error)
            case Again(delay, why, error):
                self._events.emit(
                    "run.retried", **ids, why=why.value, delay_seconds=delay / 1e6, error=error
                )
            case Park():
                self._events.emit("run.parked", **ids)
            case LeaveUnknown(reason=reason):
                self._events.emit("run.unknown", **ids, reason=reason)


def _without_texts(settlement: Settlement) -> Settlement:
    note = "its error or result could not be written down; see the log of its replica"
    match settlement:
        case End(outcome):
            return End(outcome, error=note)
        case Again(delay, why):
            return Again(delay, why, note)
        case LeaveUnknown(_, scope, key, lost):
            return LeaveUnknown(note, scope, key, lost)
        case Park():
            return settlement


def _is_plain(settlement: Settlement) -> bool:
    return isinstance(settlement, End) and settlement.outcome is Outcome.SUCCEEDED
