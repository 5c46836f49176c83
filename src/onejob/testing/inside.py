"""Test code that enqueues: its App over a store in memory, its jobs executed when the test says so.

``inline`` is what the pytest fixture ``onejob`` is made of, and what other test runners use::

    with inline(app) as jobs:
        sign_up("ada@example.com")
        jobs.assert_enqueued(send_welcome, args={"to": "ada@example.com"})
        jobs.drain()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime
from importlib import import_module
from typing import Any
from unittest.mock import patch

from onejob import forking
from onejob.app import App
from onejob.core.run import RunId
from onejob.core.time import Duration, Instant, moment
from onejob.counts import check_count
from onejob.errors import UsageError
from onejob.job import Job
from onejob.queue import RunInfo
from onejob.services import Services
from onejob.testing.drain import adrained, check_attempts, declare, drained
from onejob.testing.enqueued import EnqueuedRun, complaint, enqueued_run
from onejob.testing.place import Place, PlaceInLoop, PlaceServices
from onejob.testing.travel import TravelClock


@contextmanager
def inline(*apps: App) -> Iterator[Inline]:
    """Put Apps over a store in memory for the block: what they enqueue is executed by ``drain()``.

    Without ``apps`` it is every App of this process, also one that is made inside the block. Each
    keeps its jobs and schedules, and starts nothing. Raises UsageError for one that was started.
    """
    with ExitStack() as stack:
        inside = Inline(stack)
        for app in apps or forking.watched(App):
            inside.take(app)
        if not apps:
            stack.enter_context(_hearing_of_new(inside.take))
        yield inside


@contextmanager
def _hearing_of_new(take: Callable[[App], None]) -> Iterator[None]:
    """Tell of each App that is made: by a factory, or in a module that is imported late."""
    make = App.__init__

    def made(self: App, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        take(self)

    with patch.object(App, "__init__", made):
        yield


class Inline:
    """What a test may do with Apps that are inside: look, travel, drain.

    Any other name is looked up in the package ``onejob``, whose name the pytest fixture takes.
    """

    def __init__(self, stack: ExitStack) -> None:
        self._stack, self._clock = stack, TravelClock()
        self._inside: dict[App, Services] = {}
        self._places: dict[App, Place] = {}
        self._transactions: Callable[[], AbstractContextManager[Any]] | None = None

    def __repr__(self) -> str:
        return f"<Inline {', '.join(app.name for app in self._inside)}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(import_module("onejob"), name)

    def take(self, app: App) -> None:
        """Put one more App over a store in memory, its own: others may have jobs of its names."""
        place = Place(self._clock.store_now)
        place.transactions = self._transactions
        over = app.over(PlaceServices, PlaceInLoop(place), self._clock)
        self._inside[app], self._places[app] = self._stack.enter_context(over), place

    @property
    def now(self) -> datetime:
        """Return what the store's clock shows."""
        return moment(Instant(self._clock.store_now()))

    @property
    def transactions(self) -> Callable[[], AbstractContextManager[Any]] | None:
        """Say what ``run.transaction()`` of a sync job opens: a connection of the test's database.

        A function that returns a context manager, such as SQLAlchemy's ``engine.begin``.
        """
        return self._transactions

    @transactions.setter
    def transactions(self, opener: Callable[[], AbstractContextManager[Any]] | None) -> None:
        self._transactions = opener
        for place in self._places.values():
            place.transactions = opener

    def travel(self, span: Duration | None = None, *, to: datetime | None = None) -> None:
        """Move the clocks on by ``span``, or until they show ``to``, an aware datetime.

        Runs nothing, and ticks nothing on the way: ``drain()`` does, and what was due meanwhile
        follows each schedule's ``catch_up``. Going back starts the schedules of your code anew.
        """
        for app, services in self._inside.items():
            declare(app, services, self._clock)
        if self._clock.travel(span, to) < 0:
            for place in self._places.values():
                tables = place.tables
                tables.schedules = {n: s for n, s in tables.schedules.items() if s.dynamic}
            for app, services in self._inside.items():
                declare(app, services, self._clock)

    def drain(self) -> list[RunInfo]:
        """Tick schedules and execute runs that are due until none is; return those, as they ended.

        As a replica does it: claim, execute, settle. A run that failed and waits for its retry, and
        one that is due later, stay. Sync jobs run in this thread, async ones in a loop made for
        them. Raises UsageError inside a running loop, and after 10,000 attempts.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise UsageError("an event loop runs here already. In an async test: await adrain().")
        done: list[tuple[App, RunId]] = []
        while more := [(a, id) for a, s in self._listed() for id in drained(a, s, self._clock)]:
            done += more
            check_attempts(len(done))
        return _ends(done)

    async def adrain(self) -> list[RunInfo]:
        """The same in the running loop; sync jobs run in a thread."""
        done: list[tuple[App, RunId]] = []
        while more := [
            (a, id) for a, s in self._listed() for id in await adrained(a, s, self._clock)
        ]:
            done += more
            check_attempts(len(done))
        return _ends(done)

    def enqueued(self, job: Job[..., ..., Any] | str | None = None) -> list[EnqueuedRun]:
        """Return the runs of a job, or all, that were enqueued in this test, in their order.

        Those that were executed meanwhile are among them; those that a schedule made are not.
        """
        name = None if job is None else self._job(job).name
        return [run for run in self._all(job) if name in (None, run.job)]

    def assert_enqueued(
        self,
        job: Job[..., ..., Any] | str,
        *,
        count: int | None = None,
        key: str | None = None,
        args: Mapping[str, Any] | None = None,
    ) -> None:
        """Fail unless a run of ``job`` was enqueued: ``count`` times, where that is given.

        With ``key``, only runs of that key count; with ``args``, only those that have these
        arguments, by name: others may be there. The failure shows what was enqueued instead.
        """
        __tracebackhide__ = True
        if count is not None:
            check_count(count, what="count", least=0)
        found = self._job(job)
        wrong = complaint(self._all(job), found, count=count, key=key, args=args)
        if wrong:
            raise AssertionError(wrong)

    def _listed(self) -> list[tuple[App, Services]]:
        """Return the Apps that are inside now: a job may make another one."""
        return list(self._inside.items())

    def _all(self, job: object) -> list[EnqueuedRun]:
        """Return every run that was enqueued, at the App of ``job`` alone where that is a Job."""
        found: list[EnqueuedRun] = []
        for app, place in self._places.items():
            if isinstance(job, Job) and app.jobs.get(job.name) is not job:
                continue
            tables = place.tables
            rows = {end.run.id: end.run for end in tables.history.values()} | tables.runs
            for _, run in sorted(rows.items()):
                if run.job in app.jobs and not run.fire_time:
                    found.append(enqueued_run(run, app.jobs[run.job]))
        return found

    def _job(self, job: object) -> Job[..., ..., Any]:
        for app in self._inside:
            for name, known in app.jobs.items():
                if job is known or job == name:
                    return known
        names = sorted(name for app in self._inside for name in app.jobs)
        raise UsageError(
            f"{job!r} is no job of an App in this test. Those have: {', '.join(names) or 'none'}."
        )


def _ends(done: list[tuple[App, RunId]]) -> list[RunInfo]:
    """Read how the runs stand, each once: at the place where it was executed last."""
    last = {pair: place for place, pair in enumerate(done)}
    found = [app.runs.get(id) for place, (app, id) in enumerate(done) if last[app, id] == place]
    return [run for run in found if run is not None]
