"""What both colours of a run know and check, and the procedures that they share.

Every write goes through the store under this attempt's claim (id, token, replica), so a superseded
attempt is refused there, whatever it believes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4
from zoneinfo import ZoneInfo

from onejob import fences
from onejob.commands import ledger, runs
from onejob.core.each import EachResult
from onejob.core.effect import claimant
from onejob.core.run import Claim, End, Outcome, State
from onejob.core.time import SECOND, Instant, in_zone
from onejob.each import OnError, loop
from onejob.effect import Options, Request, check_effect, refuse_called, request
from onejob.errors import InProgress, UsageError
from onejob.fences import Fence
from onejob.looping import Looping
from onejob.runtime.attempt import Attempt
from onejob.services import Services, any_holds
from onejob.steps import Steps

_NOTE_CHARACTERS_MAX: Final = 1_000


class Facts:
    """What both colours know and check. Safe to use from the handler's own threads."""

    def __init__(
        self, attempt: Attempt, services: Services, *, args: Mapping[str, object], tz: ZoneInfo
    ) -> None:
        self._attempt, self._services = attempt, services
        self._args, self._tz = args, tz
        self._calling: set[str] = set()
        remaining = attempt.remaining()
        self._deadline = None
        if remaining is not None:
            self._deadline = datetime.now(UTC) + timedelta(microseconds=remaining)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.job}/{self.key} attempt {self.attempt}>"

    @property
    def id(self) -> int:
        """Return the run's number; a retried run keeps it."""
        return int(self._attempt.run.id)

    @property
    def job(self) -> str:
        """Return the job's name."""
        return self._attempt.run.job

    @property
    def key(self) -> str:
        """Return what names this run among those of its job."""
        return self._attempt.run.key

    @property
    def attempt(self) -> int:
        """Return the number of this attempt, from 1."""
        return self._attempt.run.attempt

    @property
    def token(self) -> int:
        """Return this attempt's fencing token: higher than every earlier one."""
        return int(self._attempt.run.token)

    @property
    def replica(self) -> str:
        """Return the id of the replica that executes this attempt."""
        return str(self._attempt.run.replica)

    @property
    def args(self) -> Mapping[str, object]:
        """Return the arguments by name."""
        return self._args

    @property
    def fire_time(self) -> datetime | None:
        """Return the fire time in the schedule's zone; None for a run that no schedule made."""
        at = self._attempt.run.fire_time
        return in_zone(Instant(at), self._tz) if at else None

    @property
    def deadline(self) -> datetime | None:
        """Return when the job's timeout ends this attempt; None where it has none."""
        return self._deadline

    def check(self) -> None:
        """Raise LeaseLost once this attempt is superseded, cancelled or its lease is over."""
        self._attempt.check()

    def remaining(self) -> float | None:
        """Return the seconds left until the deadline; None where there is none."""
        remaining = self._attempt.remaining()
        return None if remaining is None else remaining / SECOND

    @property
    def _claim(self) -> Claim:
        return self._attempt.run.claim

    @property
    def _scope(self) -> str:
        return self._attempt.run.scope

    def _outside(self, what: str) -> Steps[None]:
        """Refuse what would wait for a row that this very context has locked."""
        self._attempt.check()
        mine = [fence for fence in fences.around() if fence.holder == self._claim]
        if (yield from any_holds(mine)):
            raise UsageError(
                f"{what} inside a fenced transaction of the same run would wait for itself: "
                "the run is locked until that transaction ends. Move it before or after the "
                "transaction."
            )

    def _fenced(self, adapter: Any, *, ours: bool) -> Fence:
        store = self._services.store
        return Fence(self._claim, store.dialect, store.where, adapter, ours)

    def _hold(self) -> Steps[None]:
        self._attempt.check()
        held = yield runs.fence(self._claim, idle_limit=self._services.longest)
        if not held:
            self._superseded()

    def _complete(self) -> Steps[None]:
        end = End(Outcome.SUCCEEDED)
        ended = yield runs.settle([(self._claim, end)], keep=self._services.keep)
        if not ended:
            self._superseded()

    def _fence(self, complete: bool) -> Steps[None]:
        yield from self._hold()
        if complete:
            yield from self._complete()

    def _first(self, key: str) -> Steps[bool]:
        check_effect(self._scope, key, what="key")
        keep = self._services.keep_effects
        inserted: bool = yield ledger.first_in_run(self._claim, self._scope, key, keep=keep)
        if not inserted:
            yield from self._hold()
            yield from refuse_called(self._scope, key)
        return inserted

    def _progress(self, done: float, total: float | None, note: str) -> Steps[None]:
        yield from self._outside("progress")
        # A file's name may hold what UTF-8 cannot; a note is no reason to fail.
        note = note.encode(errors="backslashreplace").decode()
        text = json.dumps({"done": done, "total": total, "note": note}, ensure_ascii=False)
        if (yield runs.progress(self._claim, text)):
            return
        # Refused, or its row is locked for a moment by a transaction in another thread.
        standing = (yield runs.standings([self._claim.id])).get(self._claim.id)
        if (
            standing is None
            or standing.state is not State.RUNNING
            or ((standing.token, standing.replica) != (self._claim.token, self._claim.replica))
        ):
            self._superseded()

    def _superseded(self) -> None:
        self._attempt.revoke("another attempt has superseded it, or it has ended")
        self._attempt.check()

    def _check_progress(self, done: float, total: float | None, note: str) -> None:
        for what, value in (("done", done), ("total", total)):
            if value is not None and not (isinstance(value, int | float) and 0 <= value < 2**63):
                raise UsageError(f"{what}={value!r} must be a number from 0.")
        if not isinstance(note, str) or len(note) > _NOTE_CHARACTERS_MAX:
            raise UsageError(f"note must be text of at most {_NOTE_CHARACTERS_MAX:,} characters.")

    def _request(
        self,
        key: str,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Options,
    ) -> Request:
        owner = claimant(f"{self.replica}/{self.token}", uuid4().hex[:12])
        claim = self._claim
        return request(
            self._services, self._scope, key, call, args, kwargs, options, owner=owner, run=claim
        )

    def _looping(
        self,
        items: object,
        call: Callable[..., Any],
        key: Callable[[Any], str],
        concurrency: int,
        on_error: OnError,
        transaction: bool,
        options: Options,
    ) -> Looping:
        asked = loop(
            self._services,
            items,
            call,
            key=key,
            concurrency=concurrency,
            on_error=on_error,
            transaction=transaction,
            options=options,
            scope=self._scope,
            claim=self._claim,
        )
        attempt, clock = self._attempt, self._services.clock
        return Looping(asked, self._services.events, lambda: attempt.lost, clock.now)

    def _passed(self, result: EachResult) -> EachResult:
        """Note what a loop left undone: the run's end says so, if its handler does not."""
        if result.set_aside or result.unknown:
            self._attempt.left.append(result)
        return result

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """Refuse the same key beside itself: an entry of this attempt is then always our own."""
        if key in self._calling:
            raise InProgress(self._scope, key, age_seconds=0.0)
        self._calling.add(key)
        try:
            yield
        finally:
            self._calling.discard(key)
