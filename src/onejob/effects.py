"""``app.effects``: what the ledger has, and a person's own word on what nobody else can settle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from onejob.commands import ledger, runs
from onejob.core.effect import Entry, EntryState, attempt_of
from onejob.core.run import State
from onejob.core.time import SECOND, Instant, moment
from onejob.counts import LISTED_MAX, check_count
from onejob.effect import PLAIN, check_effect
from onejob.errors import InProgress, Refused, UsageError
from onejob.services import Services
from onejob.steps import Steps, acarry, carry


@dataclass(frozen=True, slots=True)
class EffectInfo:
    """An effect as the ledger has it. ``state`` is claimed, done, failed or unknown.

    ``age`` is how long ago it was claimed first, by the store's clock.
    """

    scope: str
    key: str
    state: str
    attempt: int
    claimed_at: datetime
    owner: str
    run_id: int | None
    result: Any
    error: str | None
    age: timedelta


class Effects:
    """``app.effects``: look effects up, and say what happened where only a person can."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services

    def get(self, scope: str, key: str) -> EffectInfo | None:
        """Read one effect; None where it was never claimed."""
        return carry(_get(scope, key), self._services().here())

    async def aget(self, scope: str, key: str) -> EffectInfo | None:
        """The same in a loop."""
        return await acarry(_get(scope, key), self._services().ahere())

    def unknown(self, *, limit: int = 100) -> list[EffectInfo]:
        """Read effects that nobody is working on and whose outcome nobody knows, oldest first."""
        return carry(_unknown(limit), self._services().here())

    async def aunknown(self, *, limit: int = 100) -> list[EffectInfo]:
        """The same in a loop."""
        return await acarry(_unknown(limit), self._services().ahere())

    def resolve(
        self, scope: str, key: str, answer: Literal["done", "redo", "failed"], *, result: Any = None
    ) -> EffectInfo | None:
        """Say what happened, after looking it up at the provider.

        ``done`` records ``result`` for whoever repeats the effect, ``failed`` that it was refused
        for good, and ``redo`` forgets the claim, so that it is called again. A run that waits in
        state unknown goes on. Returns what the ledger has now. Raises Refused for an effect that is
        settled already, InProgress (Refused too) while its call may be under way, and LookupError
        for one that was never claimed.
        """
        steps = _resolve(scope, key, answer, result, self._services())
        return carry(steps, self._services().here())

    async def aresolve(
        self, scope: str, key: str, answer: Literal["done", "redo", "failed"], *, result: Any = None
    ) -> EffectInfo | None:
        """The same in a loop."""
        steps = _resolve(scope, key, answer, result, self._services())
        return await acarry(steps, self._services().ahere())


def _entry(scope: str, key: str) -> Steps[Entry | None]:
    check_effect(scope, key)
    found: tuple[Entry, ...] = yield ledger.read(scope, [key])
    return found[0] if found else None


def _get(scope: str, key: str) -> Steps[EffectInfo | None]:
    entry = yield from _entry(scope, key)
    return None if entry is None else _info(entry)


def _unknown(limit: int) -> Steps[list[EffectInfo]]:
    check_count(limit, what="limit", most=LISTED_MAX)
    entries: tuple[Entry, ...] = yield ledger.unsettled(limit=limit)
    in_flight = yield from _in_flight(entries)
    return [_info(entry) for entry in entries if entry not in in_flight]


def _in_flight(entries: Iterable[Entry]) -> Steps[list[Entry]]:
    """Return those whose caller may be calling at this moment: its attempt runs, its time is not
    over."""
    claimed = [entry for entry in entries if entry.state is EntryState.CLAIMED]
    ids = {entry.run_id for entry in claimed if entry.run_id}
    standings = (yield runs.standings(ids)) if ids else {}
    working = {
        f"{standing.replica}/{standing.token}"
        for standing in standings.values()
        if standing.state is State.RUNNING
    }
    return [
        entry
        for entry in claimed
        if attempt_of(entry.owner) in working or entry.claim_until > entry.now
    ]


def _resolve(
    scope: str, key: str, answer: str, result: Any, services: Services
) -> Steps[EffectInfo | None]:
    if answer not in ("done", "redo", "failed"):
        raise UsageError(f"answer={answer!r} must be 'done', 'redo' or 'failed'.")
    if result is not None and answer != "done":
        raise UsageError(f"a result belongs to 'done', not to {answer!r}.")
    recorded = PLAIN.encode_result(result)
    entry = yield from _entry(scope, key)
    if entry is None:
        raise LookupError(f"no effect {key!r} in {scope!r} was ever claimed.")
    token = entry.token
    if entry.state in (EntryState.CLAIMED, EntryState.UNKNOWN):
        if (yield from _in_flight([entry])):
            # Nobody knows yet how the call ends, so no word on it can be right.
            raise InProgress(scope, key, age_seconds=entry.age / SECOND)
        # Under a token of our own: what the earlier caller may still record is refused.
        taken = ledger.NewEntry(scope, key, f"resolved by {services.owner}")
        token = yield ledger.reclaim(taken, held=entry.token)
    elif entry.state is EntryState.FAILED and answer == "redo":
        yield _recording(scope, key, token, EntryState.UNKNOWN, None, services)
    else:
        raise Refused(f"effect {key!r} in {scope!r} is settled: {entry.state}. Nothing changed.")
    if token is None:
        raise Refused(f"effect {key!r} in {scope!r} moved meanwhile. Look at it again.")
    if answer == "redo":
        yield ledger.release(scope, key, token=token)
    else:
        yield _recording(scope, key, token, EntryState(answer), recorded, services)
    return (yield from _get(scope, key))


def _recording(
    scope: str, key: str, token: Any, state: EntryState, result: str | None, services: Services
) -> Any:
    return ledger.record(
        scope,
        key,
        token=token,
        state=state,
        result=result,
        error="resolved as failed" if state is EntryState.FAILED else None,
        keep=services.keep_effects,
    )


def _info(entry: Entry) -> EffectInfo:
    return EffectInfo(
        scope=entry.scope,
        key=entry.key,
        state=entry.state.value,
        attempt=entry.attempt,
        claimed_at=moment(Instant(entry.claimed)),
        owner=entry.owner,
        run_id=entry.run_id or None,
        result=None if entry.result is None else json.loads(entry.result),
        error=entry.error,
        age=timedelta(microseconds=entry.age),
    )
