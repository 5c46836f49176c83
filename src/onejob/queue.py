"""Runs from outside a handler: enqueue them, look at them, act on them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from onejob.commands import runs, views
from onejob.commands.runs import Known, Made, NewRun
from onejob.commands.views import RunView
from onejob.core.names import check_name
from onejob.core.payload import BATCH_BYTES_MAX, BATCH_MAX
from onejob.core.run import Outcome, RunId, State
from onejob.core.time import SECOND, Duration, Instant, duration, instant, moment
from onejob.counts import LISTED_MAX, check_count
from onejob.errors import InProgress, OutcomeUnknown, UsageError
from onejob.services import Services
from onejob.steps import Steps, acarry, carry

#: How often a key is tried whose run cannot be seen: it was deleted, or is not committed yet.
ROUNDS: Final = 5

_STATES: Final = (*map(str, State), *map(str, Outcome))

_LOOK_FIRST: Final = 0.02
_LOOK_LONGEST: Final = 1.0


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What enqueueing answers.

    ``created`` is False where ``key`` was known: ``run_id`` is then the earlier run, and
    ``conflict`` tells that its arguments were others. It is False as well where the store's reply
    was lost and the key shows that the run is there.
    """

    run_id: int
    created: bool
    conflict: bool
    key: str


def enqueue_one(run: NewRun) -> Steps[Enqueued]:
    """Make a run, or find the one that holds its key."""
    for _ in range(ROUNDS):
        made: tuple[Made, ...] = ()
        try:
            made = yield runs.enqueue([run])
        except OutcomeUnknown:
            # A key answers the question that the missing reply leaves open.
            if not run.keyed:
                raise
        if made:
            return Enqueued(made[0].id, True, False, run.key)
        known: Known | None = yield runs.by_key(run.kind, run.job, run.key)
        if known is not None:
            return _earlier(run, known)
    raise _hidden(run)


def enqueue(batch: Sequence[NewRun]) -> Steps[list[Enqueued]]:
    """Make runs, or find the ones that hold their keys; answers in the order of ``batch``."""
    answers: list[Enqueued] = []
    for part in _parts(batch):
        answers += yield from _enqueue(part)
    return answers


def enqueue_alike(
    like: NewRun, lists: Sequence[str], stems: Iterator[str]
) -> Steps[list[Enqueued]]:
    """Make runs without keys of the caller's, alike but for their arguments: JSON lists of them.

    Each of ``stems`` is a fresh random text for the keys of one list.
    """
    answers: list[Enqueued] = []
    for batch, stem in zip(lists, stems, strict=False):
        made: tuple[Made, ...] = yield runs.enqueue_alike(like, batch, stem=stem)
        answers += [Enqueued(m.id, True, False, runs.alike_key(stem, m.place)) for m in made]
    return answers


def _parts(batch: Sequence[NewRun]) -> Iterator[Sequence[NewRun]]:
    """Part a batch where one command would hold too many runs, or too much of arguments."""
    first, size = 0, 0
    for place, run in enumerate(batch):
        if place - first == BATCH_MAX or (place > first and size + len(run.args) > BATCH_BYTES_MAX):
            yield batch[first:place]
            first, size = place, 0
        size += len(run.args)
    if batch:
        yield batch[first:]


def _enqueue(batch: Sequence[NewRun]) -> Steps[list[Enqueued]]:
    answers: dict[int, Enqueued] = {}
    places: Sequence[int] = range(len(batch))
    for _ in range(ROUNDS):
        made: tuple[Made, ...] = ()
        try:
            made = yield runs.enqueue([batch[place] for place in places])
        except OutcomeUnknown:
            if not all(batch[place].keyed for place in places):
                raise
        for one in made:
            place = places[one.place]
            answers[place] = Enqueued(one.id, True, False, batch[place].key)
        places = [place for place in places if place not in answers]
        for place in places:
            run = batch[place]
            known: Known | None = yield runs.by_key(run.kind, run.job, run.key)
            if known is not None:
                answers[place] = _earlier(run, known)
        if len(answers) == len(batch):
            return [answers[place] for place in range(len(batch))]
        places = [place for place in places if place not in answers]
    raise _hidden(batch[places[0]])


def _earlier(run: NewRun, known: Known) -> Enqueued:
    return Enqueued(known.id, False, known.fingerprint != run.fingerprint, run.key)


def _hidden(run: NewRun) -> InProgress:
    # A snapshot that is older than the run which holds the key will never show it.
    return InProgress(run.job, run.key, age_seconds=0.0)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as the store has it. ``outcome`` is set once ``state`` is ended."""

    id: int
    job: str
    key: str
    state: str
    outcome: str | None
    attempt: int
    deaths: int
    interrupted: int
    token: int
    replica: str | None
    queue: str
    priority: int
    due: datetime
    started: datetime | None
    ended: datetime | None
    error: str | None
    result: Any
    progress: Any
    schedule: str | None
    fire_time: datetime | None


class Runs:
    """``app.runs``: look runs up, retry, cancel, wait for them."""

    def __init__(self, services: Callable[[], Services]) -> None:
        self._services = services

    def get(self, run_id: int) -> RunInfo | None:
        """Read one run; None where it is unknown, or was purged."""
        return carry(_get(run_id), self._services().here())

    async def aget(self, run_id: int) -> RunInfo | None:
        """The same in a loop."""
        return await acarry(_get(run_id), self._services().ahere())

    def find(
        self,
        *,
        job: str = "",
        key: str = "",
        state: str = "",
        schedule: str = "",
        queue: str = "",
        since: datetime | None = None,
        limit: int = 50,
    ) -> list[RunInfo]:
        """Read runs, newest first. ``state`` may also be an outcome; "" means any.

        ``since`` is an aware datetime: those that were made, began or ended before are left out.
        """
        steps = _find(
            job=job,
            key=key,
            state=state,
            schedule=schedule,
            queue=queue,
            since=since,
            limit=limit,
        )
        return carry(steps, self._services().here())

    async def afind(
        self,
        *,
        job: str = "",
        key: str = "",
        state: str = "",
        schedule: str = "",
        queue: str = "",
        since: datetime | None = None,
        limit: int = 50,
    ) -> list[RunInfo]:
        """The same in a loop."""
        steps = _find(
            job=job,
            key=key,
            state=state,
            schedule=schedule,
            queue=queue,
            since=since,
            limit=limit,
        )
        return await acarry(steps, self._services().ahere())

    def retry(self, run_id: int) -> bool:
        """Bring an ended, parked or unknown run back under its old id and key.

        False: it is live already, unknown, or its key has gone to another run meanwhile.
        """
        return carry(_retry(run_id, self._services()), self._services().here())

    async def aretry(self, run_id: int) -> bool:
        """The same in a loop."""
        return await acarry(_retry(run_id, self._services()), self._services().ahere())

    def cancel(self, run_id: int) -> bool:
        """End a run as cancelled, also while it runs. False: it has ended, or is unknown.

        A running attempt loses its claim at once: whatever it still writes is refused, its
        ``check()`` raises LeaseLost, and an async handler is cancelled. While a transaction of its
        own is open under its fence, the request waits for the end of that one.
        """
        return carry(_cancel(run_id, self._services()), self._services().here())

    async def acancel(self, run_id: int) -> bool:
        """The same in a loop."""
        return await acarry(_cancel(run_id, self._services()), self._services().ahere())

    def discard(self, run_id: int) -> bool:
        """Forget an ended run before its time, with its key: a failed one that nobody will retry.

        False: it lives, or is unknown. Its effects stay known for as long as effects are kept.
        """
        return carry(_discard(run_id), self._services().here())

    async def adiscard(self, run_id: int) -> bool:
        """The same in a loop."""
        return await acarry(_discard(run_id), self._services().ahere())

    def wait(self, run_id: int, *, timeout: Duration | None = None) -> RunInfo:
        """Wait until a run has ended, and return it.

        Raises TimeoutError after ``timeout``, LookupError for a run that nobody knows.
        """
        for pause in _pauses(timeout):
            if (ended := _ended(run_id, self.get(run_id))) is not None:
                return ended
            time.sleep(pause)
        raise _timed_out(run_id, timeout)

    async def await_(self, run_id: int, *, timeout: Duration | None = None) -> RunInfo:
        """The same in a loop (``await`` itself is a word of the language)."""
        for pause in _pauses(timeout):
            if (ended := _ended(run_id, await self.aget(run_id))) is not None:
                return ended
            await asyncio.sleep(pause)
        raise _timed_out(run_id, timeout)


def _get(run_id: int) -> Steps[RunInfo | None]:
    view: RunView | None = yield views.run_get(_checked(run_id))
    return None if view is None else _info(view)


def _find(
    *,
    job: str,
    key: str,
    state: str,
    schedule: str,
    queue: str,
    since: datetime | None,
    limit: int,
) -> Steps[list[RunInfo]]:
    check_count(limit, what="limit", most=LISTED_MAX)
    for what, name in (("job", job), ("key", key), ("schedule", schedule), ("queue", queue)):
        if name != "":
            check_name(name, what=what)
    if state != "" and state not in _STATES:
        raise UsageError(f"state={state!r} is none. Give one of {', '.join(_STATES)}; '' is any.")
    found: tuple[RunView, ...] = yield views.runs(
        job=job,
        state=state,
        key=key,
        schedule=schedule,
        queue=queue,
        since=0 if since is None else instant(since, what="since"),
        limit=limit,
    )
    return [_info(view) for view in found]


def _retry(run_id: int, services: Services) -> Steps[bool]:
    back: bool = yield runs.retry(RunId(_checked(run_id)))
    if back:
        services.wake()
    return back


def _cancel(run_id: int, services: Services) -> Steps[bool]:
    ended: bool = yield runs.cancel(RunId(_checked(run_id)), keep=services.keep)
    if ended:
        services.wake()
    return ended


def _discard(run_id: int) -> Steps[bool]:
    discarded: bool = yield runs.discard(RunId(_checked(run_id)))
    if discarded:
        yield runs.purge(limit=BATCH_MAX)
    return discarded


def _checked(run_id: object) -> int:
    if not isinstance(run_id, int) or isinstance(run_id, bool) or not 0 <= run_id < 2**63:
        raise UsageError(
            f"a run's id is a whole number, not {run_id!r}. enqueue() returns it as run_id."
        )
    return run_id


def _pauses(timeout: Duration | None) -> Iterator[float]:
    """Yield how long to pause between looks: longer each time, within the timeout."""
    ends = None
    if timeout is not None:
        ends = time.monotonic() + duration(timeout, what="timeout") / SECOND
    pause = _LOOK_FIRST
    while True:
        left = pause if ends is None else ends - time.monotonic()
        yield max(0.0, min(pause, left))
        if left <= 0:
            return
        pause = min(pause * 1.5, _LOOK_LONGEST)


def _ended(run_id: int, run: RunInfo | None) -> RunInfo | None:
    if run is None:
        raise LookupError(
            f"no run {run_id} is known here; runs are purged once their time has passed."
        )
    return run if run.ended is not None else None


def _timed_out(run_id: int, timeout: Duration | None) -> TimeoutError:
    return TimeoutError(
        f"run {run_id} has not ended within {timeout}; it goes on, look at it later."
    )


def _info(view: RunView) -> RunInfo:
    return RunInfo(
        id=view.id,
        job=view.job,
        key=view.key,
        state=view.state,
        outcome=view.outcome,
        attempt=view.attempt,
        deaths=view.deaths,
        interrupted=view.interrupted,
        token=view.token,
        replica=view.replica or None,
        queue=view.queue,
        priority=view.priority,
        due=moment(Instant(view.due)),
        started=_moment(view.started),
        ended=_moment(view.ended),
        error=view.error,
        result=_json(view.result),
        progress=_json(view.progress),
        schedule=view.schedule or None,
        fire_time=_moment(view.fire_time),
    )


def _moment(at: int | None) -> datetime | None:
    return moment(Instant(at)) if at else None


def _json(text: str | None) -> Any:
    return json.loads(text) if text else None
