"""For tests of a Django project: see what was enqueued, perform it, in a test's transaction.

    class OrderTests(TestCase):
        def test_an_order_is_confirmed(self):
            with enqueued() as runs:
                self.client.post("/orders/7/")
            self.assertEqual([run.job for run in runs], ["confirm"])
            runs.perform()

While the block lasts, and in ``perform``, everything of onejob's goes over Django's own connection:
the transaction that ``TestCase`` rolls back takes it along, and SQLite in memory works as well.
Arguments are written and read as in production, and the run, its lease and its token are rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, overload
from uuid import uuid4

from asgiref.sync import async_to_sync

from onejob.commands import replicas, runs
from onejob.core.run import ClaimedRun, End, Outcome, ReplicaId
from onejob.core.time import SECOND, Span
from onejob.core.watermark import full_probes
from onejob.errors import UsageError
from onejob.queue import RunInfo
from onejob.runtime.attempt import Attempt
from onejob.runtime.clock import SystemClock
from onejob.runtime.membership import Membership

#: The lease of a replica that lives as long as a test.
_LEASE = Span(3_600 * SECOND)

#: How many runs one ``perform`` performs at the most.
PERFORMED_MOST = 1_000

#: How many runs one block sees at the most.
_SEEN_MOST = 10_000


class EnqueuedRuns(Sequence[RunInfo]):
    """What was enqueued in the block, oldest first; what was rolled back is not among it."""

    def __init__(self) -> None:
        self._found: list[RunInfo] = []

    @overload
    def __getitem__(self, place: int) -> RunInfo: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[RunInfo]: ...
    def __getitem__(self, place: int | slice) -> RunInfo | Sequence[RunInfo]:
        return self._found[place]

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"<EnqueuedRuns {[f'{run.job} {run.key}' for run in self._found]}>"

    def args(self, place: int = 0) -> dict[str, Any]:
        """Return the arguments of a run by name, as its handler will be given them."""
        from onejob.commands import views
        from onejob.django import app

        run = self._found[place]
        with app.inside():
            call = app.store.run(views.call(run.id))
        assert call is not None, "a run that was found was made"
        return app.jobs[run.job].signature.decode(call.args)

    def perform(self) -> list[RunInfo]:
        """Perform what is due, whoever enqueued it, until nothing is; return those runs.

        Handlers are called in this thread, one after another, async ones too. What one raises
        reaches the test. A run for a later time is left alone.
        """
        return perform()


@contextmanager
def enqueued() -> Iterator[EnqueuedRuns]:
    """Collect the runs that are made in the block."""
    from onejob.django import app

    seen = EnqueuedRuns()
    with app.inside():
        before = {run.id for run in app.runs.find(limit=_SEEN_MOST)}
        yield seen
        found = app.runs.find(limit=_SEEN_MOST)
        seen._found = sorted((r for r in found if r.id not in before), key=lambda run: run.id)


def perform() -> list[RunInfo]:
    """Perform every run that is due; see :meth:`EnqueuedRuns.perform`."""
    from onejob.django import app

    done: list[RunInfo] = []
    with app.inside(), _replica() as membership:
        while claimed := _claimed(membership):
            if len(done) >= PERFORMED_MOST:
                raise UsageError(
                    f"perform has performed {PERFORMED_MOST:,} runs, and more are due: does a job "
                    "enqueue itself? Give it a delay."
                )
            _perform(claimed, membership)
            ended = app.runs.get(claimed.id)
            assert ended is not None, "it was claimed just now"
            done.append(ended)
    return done


@contextmanager
def _replica() -> Iterator[Membership]:
    """Be a replica of the fleet while the block lasts: one that nobody judges meanwhile."""
    from onejob.django import app

    id = ReplicaId(uuid4().hex[:12])
    newcomer = replicas.NewReplica(
        id=id,
        name=app.name,
        host="test",
        pid=os.getpid(),
        version="",
        jobs=tuple(app.jobs),
        schedules={},
        lease=_LEASE,
    )
    app.store.run(replicas.join(newcomer))
    now = SystemClock().now()
    try:
        yield Membership(id, deadline=now + _LEASE, punctual_since=now)
    finally:
        app.store.run(replicas.leave(id))


def _claimed(membership: Membership) -> ClaimedRun | None:
    from onejob.django import app

    probes = full_probes(sorted(app.queue_names()))
    claim = runs.claim(probes, jobs=tuple(app.jobs), replica=membership.id, limit=1)
    found = app.store.run(claim)
    return found[0] if found else None


def _perform(run: ClaimedRun, membership: Membership) -> None:
    from onejob.django import app

    services = app._services()
    handler = app.jobs[run.job].handler(services, {})
    attempt = Attempt(run, membership, SystemClock())
    attempt.begin(handler.timeout)
    try:
        value = (
            async_to_sync(_awaited)(handler, attempt)
            if handler.is_async
            else (handler.invoke(attempt))
        )
    except Exception as error:
        end = End(Outcome.FAILED, error=f"{type(error).__name__}: {error}")
        services.store.run(runs.settle([(run.claim, end)], keep=services.keep))
        raise
    if not attempt.settled:
        end = End(Outcome.SUCCEEDED, result=handler.result(value))
        services.store.run(runs.settle([(run.claim, end)], keep=services.keep))


async def _awaited(handler: Any, attempt: Attempt) -> Any:
    return await handler.invoke(attempt)
