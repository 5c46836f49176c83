"""Execute what is due, one run after another, until nothing is: claim, run, settle.

The commands, the executor and the settler are those of a replica; what is left out is everything
that waits. Async handlers run in the loop that drains. Sync ones run in the thread that drains,
while its loop stands still, so that they see the test's own connections and no running loop.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor as ThreadPool
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, TypeVar
from uuid import uuid4

from onejob.app import App
from onejob.commands import replicas, runs
from onejob.core.run import ClaimedRun, ReplicaId, RunId, Settlement
from onejob.core.time import DAY, Span
from onejob.core.watermark import full_probes
from onejob.errors import UsageError
from onejob.runtime.attempt import Attempt
from onejob.runtime.clock import Clock
from onejob.runtime.executor import Executor
from onejob.runtime.membership import Membership
from onejob.runtime.scheduler import Scheduler
from onejob.runtime.settings import Settings
from onejob.runtime.settler import Settler
from onejob.services import Services

T = TypeVar("T")

#: One drain executes so many attempts at the most.
ATTEMPTS_MOST = 10_000

#: The lease of a replica that nobody judges: longer than a test travels within one drain.
FOR_EVER = Span(10_000 * DAY)


class Even(Random):
    """Chance without chance: the wait after a failure is the policy's nominal one."""

    def random(self) -> float:
        """Return the middle."""
        return 0.5


class Here(ThreadPool):
    """Calls sync handlers in the thread that drains, while ``loop`` stands still."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Stop the loop; whoever runs it makes the call."""
        future: Future[T] = Future()
        self._calls.append((future, partial(fn, *args, **kwargs)))
        self._loop.stop()
        return future

    def call(self) -> None:
        """Make the calls that are waiting."""
        while self._calls:
            future, call = self._calls.popleft()
            _, error = answer = call()
            if error is not None and not isinstance(error, (Exception, SystemExit)):
                # An interrupt, a pytest.fail: the test's, not the job's.
                raise error
            future.set_result(answer)


def check_attempts(done: int) -> None:
    """Raise UsageError after so many attempts that there may be no end of them."""
    if done >= ATTEMPTS_MOST:
        raise UsageError(
            f"drain has executed {ATTEMPTS_MOST:,} attempts, and more are due: does a job enqueue "
            "itself, or fail with Retry(base=0)? Give it a delay, and travel."
        )


def declare(app: App, services: Services, clock: Clock) -> None:
    """Store the schedules of the code as of now, and tick what is due. Needs no loop."""
    turn = Drain(app, services, clock, ThreadPoolExecutor(1)).declare()
    try:
        turn.send(None)
    except StopIteration:
        return
    raise AssertionError("a store in memory answers at once")


def drained(app: App, services: Services, clock: Clock) -> list[RunId]:
    """Execute what is due in this thread; return the runs in the order in which they ended."""
    loop = asyncio.new_event_loop()
    try:
        here = Here(loop)
        drain = loop.create_task(Drain(app, services, clock, here).all())
        drain.add_done_callback(lambda _: loop.stop())
        try:
            while not drain.done():
                loop.run_forever()
                here.call()
        except BaseException:
            _cancel_all(loop)
            raise
        return drain.result()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


async def adrained(app: App, services: Services, clock: Clock) -> list[RunId]:
    """The same in the running loop; sync handlers run in a thread, which ends with it."""
    with ThreadPoolExecutor(1, thread_name_prefix="onejob-job") as threads:
        return await Drain(app, services, clock, threads).all()


class Drain:
    """One replica's work, from its joining to its leaving. Make it inside the loop it runs in."""

    def __init__(self, app: App, services: Services, clock: Clock, threads: ThreadPool) -> None:
        self._services, self._clock, self._threads = services, clock, threads
        self._store = services.store
        repertoire = app.repertoire(services)
        self._repertoire = repertoire
        self._settings = Settings(
            name=services.app,
            host="test",
            pid=os.getpid(),
            keep=services.keep,
            keep_effects=services.keep_effects,
            queues=tuple(sorted(app.queue_names())),
        )
        self._ended: asyncio.Event | None = None

    async def declare(self) -> None:
        """Store what the code declares, and tick what is due."""
        with self._joined() as membership:
            await self._scheduler().turn(membership)

    async def all(self) -> list[RunId]:
        """Tick what is due, execute what is due, until nothing is."""
        events = self._services.events
        self._ended = asyncio.Event()
        self._settler = Settler(
            self._services.astore,
            self._settings,
            clock=self._clock,
            events=events,
            settled=lambda claim: self._executor.settled(claim),
        )
        self._executor = Executor(
            self._repertoire.handlers,
            slots=1,
            clock=self._clock,
            random=Even(),
            events=events,
            finished=self._finished,
            freed=self._ended.set,
            threads=self._threads,
        )
        scheduler = self._scheduler()
        settling = asyncio.create_task(self._settler.serve())
        done: list[RunId] = []
        try:
            with self._joined() as membership:
                await scheduler.turn(membership)
                while run := self._claim(membership):
                    await self._execute(run, membership)
                    done.append(run.id)
                    check_attempts(len(done))
                    await scheduler.turn(membership)
        finally:
            settling.cancel()
            await asyncio.wait([settling])
        return done

    @contextmanager
    def _joined(self) -> Iterator[Membership]:
        """Join the fleet of this store for as long as the block lasts."""
        id = ReplicaId(uuid4().hex[:12])
        self._store.run(
            replicas.join(
                replicas.NewReplica(
                    id=id,
                    name=self._settings.name,
                    host=self._settings.host,
                    pid=self._settings.pid,
                    version="",
                    jobs=tuple(self._repertoire.handlers),
                    schedules={d.name: d.definition for d in self._repertoire.declared},
                    lease=FOR_EVER,
                    ticks=tuple(self._repertoire.targets),
                )
            )
        )
        now = self._clock.now()
        try:
            yield Membership(id, deadline=now + FOR_EVER, punctual_since=now)
        finally:
            self._store.run(replicas.leave(id))

    def _scheduler(self) -> Scheduler:
        return Scheduler(
            self._services.astore,
            self._repertoire.declared,
            self._settings,
            clock=self._clock,
            events=self._services.events,
            fired=lambda: None,
            targets=self._repertoire.targets,
            random=Even(),
        )

    def _claim(self, membership: Membership) -> ClaimedRun | None:
        claimed = self._store.run(
            runs.claim(
                full_probes(self._settings.queues),
                jobs=tuple(self._repertoire.handlers),
                replica=membership.id,
                limit=1,
            )
        )
        return claimed[0] if claimed else None

    async def _execute(self, run: ClaimedRun, membership: Membership) -> None:
        assert self._ended is not None, "set before the first claim"
        self._ended.clear()
        self._executor.take(run, membership)
        await self._ended.wait()
        await self._settler.flushed()

    def _finished(self, attempt: Attempt, settlement: Settlement) -> None:
        if attempt.settled:
            self._executor.settled(attempt.claim)
        else:
            self._settler.add(attempt.claim, settlement)
