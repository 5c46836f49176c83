"""The App: the one place where store, jobs, schedules and replica are put together.

Building one opens nothing, reads no file and starts nothing, so it is safe at import, in a
migration and in a test. The first use opens the store; ``start``, ``lifespan`` or ``onejob worker``
makes this process a replica.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import Any

from onejob import environment, forking
from onejob import url as urls
from onejob.core.lease import LEAST_LEASE
from onejob.core.names import check_name, check_schema
from onejob.core.time import DAY, SECOND, Duration, Span, duration
from onejob.core.version import version_key
from onejob.counts import check_count
from onejob.definitions import Definitions
from onejob.effects import Effects
from onejob.errors import SchemaMismatch, StoreError, UnsupportedByStore, UsageError
from onejob.guards import Guard, OnStoreDown, OnUnknown
from onejob.inbox.messages import Inboxes
from onejob.job import Job
from onejob.locking import Locking
from onejob.locks import Locks
from onejob.opening import open_store, say
from onejob.outside import Outside
from onejob.period import Periods
from onejob.queue import Runs
from onejob.queues import Queues
from onejob.runtime.clock import Clock, SystemClock
from onejob.runtime.events import Events, log
from onejob.runtime.settings import Settings
from onejob.schedules import Schedules
from onejob.services import Services
from onejob.serving import Background, Serving, Status, settings_of, standing
from onejob.stores import migrate
from onejob.stores.protocol import Store
from onejob.stores.threaded import ThreadedStore

#: Commands of one process that run at once, and so its connections beside the keeper's.
STORE_THREADS = 2

#: How long effects are kept where nobody says.
KEEP_EFFECTS = Span(400 * DAY)

#: What a drain may take beyond the grace period.
_STOP_SECONDS = 10.0

#: Stores that keep locks, fences and claims, and no runs.
_LOCKS_ONLY = {"redis": "Redis", "mariadb": "MariaDB"}


class App(Definitions):
    """Jobs, schedules and effects over one store. Raises UsageError for what cannot be right.

    ``url`` is ONEJOB_URL where it is not given, else a SQLite file in the working directory;
    ``schema`` is ONEJOB_SCHEMA, else ``onejob``. Ended runs are kept for ``keep``; effects for
    ``keep_effects``: 400 days, or as long as runs where that is longer.
    """

    #: What this App's objects reach the store through: a framework's own know of its connections.
    _services_kind: type[Services] = Services

    def __init__(
        self,
        url: str | None = None,
        *,
        schema: str | None = None,
        name: str | None = None,
        version: int | str | None = None,
        lease: Duration = "12s",
        poll: Duration = "2s",
        keep: Duration = "30d",
        keep_effects: Duration | None = None,
        concurrency: int = 20,
        grace: Duration = "25s",
        single_machine: bool = False,
    ) -> None:
        given = url if url is not None else os.environ.get("ONEJOB_URL") or None
        self._url = urls.parse(urls.DEFAULT if given is None else given)
        self._by_default = given is None
        self.schema = check_schema(
            os.environ.get("ONEJOB_SCHEMA") or "onejob" if schema is None else schema
        )
        self.name = check_name(self.schema if name is None else name, what="app name")
        if version is not None:
            version_key(version)
        self._single_machine = single_machine
        self._settings = Settings(
            name=self.name,
            host="",
            pid=0,
            version="" if version is None else str(version),
            lease=duration(lease, what="lease", least=LEAST_LEASE),
            poll=duration(poll, what="poll", least=Span(SECOND // 100)),
            keep=(kept := duration(keep, what="keep")),
            keep_effects=(
                max(KEEP_EFFECTS, kept)
                if keep_effects is None
                else duration(keep_effects, what="keep_effects")
            ),
            concurrency=check_count(concurrency, what="concurrency"),
            grace=duration(grace, what="grace"),
        )
        if self._settings.keep_effects < self._settings.keep:
            raise UsageError(
                f"keep_effects={keep_effects!r} is shorter than keep={keep!r}: a run that is kept "
                "can be retried, and would repeat the effects that were forgotten. Keep effects at "
                "least as long as runs."
            )
        super().__init__(self._services)
        self.events = Events()
        self.runs = Runs(self._services)
        self.queues = Queues(self._services, self.queue_names)
        self.schedules = Schedules(self._services, self.jobs, self._declared)
        self.effects = Effects(self._services)
        outside = Outside(self._services)
        self.first, self.afirst = outside.first, outside.afirst
        self.first_many, self.afirst_many = outside.first_many, outside.afirst_many
        self.inbox = Inboxes(self._services).inbox
        self.effect, self.aeffect = outside.effect, outside.aeffect
        self._locking = locking = Locking(self._services, Random())
        self.lock, self.fence, self.afence = locking.lock, locking.fence, locking.afence
        self.once_per = Periods(self._services, self._disabled).once_per
        self.locks = Locks(self._services)
        self._lock = threading.RLock()
        self._opened: Services | None = None
        self._lent: Services | None = None
        self._serving: Serving | None = None
        self._background: Background | None = None
        self._inherited = 0
        forking.watch(self)

    def __repr__(self) -> str:
        return f"<App {self.name} at {self._url.where}>"

    # The store

    @property
    def store(self) -> Store:
        """Return the store of this process, opened at its first use."""
        return self._services().store

    def check(self) -> None:
        """Ask the store whether it is there and has the right tables.

        Raises StoreUnavailable or SchemaMismatch. Creates nothing.
        """
        store: Any = self._services().store
        if store.dialect == "sqlite" and not os.path.exists(store.path):
            raise migrate.mismatch(store.catalogue, store.where)
        if store.dialect != "memory":
            store.check()

    async def acheck(self) -> None:
        """The same in a loop."""
        await asyncio.to_thread(self.check)

    def _services(self) -> Services:
        with self._lock:
            if self._lent is not None:
                return self._lent
            if self._opened is None:
                store: Any = self._open_store()
                if self._by_default and store.version() is None:
                    store.init()
                astore = ThreadedStore(store, threads=STORE_THREADS)
                self._opened = self._services_kind.made(
                    astore, self._settings, self.events, self._wake, SystemClock()
                )
            return self._opened

    @contextmanager
    def over(self, kind: type[Services], store: ThreadedStore, clock: Clock) -> Iterator[Services]:
        """Work over another store for as long as the block lasts, and start nothing: for tests.

        Raises UsageError where this process is a replica of this App: that one has its store.
        """
        lent = kind.made(store, self._settings, self.events, self._wake, clock)
        with self._lock:
            if self._serving is not None:
                raise UsageError(
                    f"{self!r} is a replica in this process, over its own store. Stop it before "
                    "the test (app.stop()), or start it in those tests only that need it."
                )
            before, self._lent = self._lent, lent
        try:
            yield lent
        finally:
            with self._lock:
                self._lent = before
            lent.close()

    def _open_store(self) -> Any:
        return open_store(self._url, self.schema)

    def _wake(self) -> None:
        serving = self._serving
        if serving is not None:
            serving.wake()

    # This process as a replica

    def serving(
        self,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        grace: Duration | None = None,
        lease: Duration | None = None,
        work: bool = True,
        schedule: bool = True,
    ) -> Serving:
        """Return a replica of this App that the caller runs: ``await app.serving().serve()``.

        For ``onejob worker`` and for hosts with a loop and signals of their own. It serves the
        queues of the App's jobs unless ``queues`` names others. Raises UsageError on SQLite where
        the environment shows a fleet.
        """
        self._refuse_fleet()
        if self._url.dialect in _LOCKS_ONLY:
            raise UnsupportedByStore(
                "keep runs and schedules",
                _LOCKS_ONLY[self._url.dialect],
                instead="This version keeps locks, periods and guarded ticks there, which need no "
                "start. For jobs use postgresql:// or sqlite:///.",
            )
        settings = settings_of(
            self._settings,
            known=self.queue_names(),
            queues=queues,
            concurrency=concurrency,
            grace=grace,
            lease=lease,
            work=work,
            schedule=schedule,
        )
        services = self._services()
        self._say_for_how_many()
        return Serving(services, self.repertoire(services), settings, check=self.check)

    def start(self) -> None:
        """Make this process a replica, in a background thread. Does nothing where it is one.

        Raises SchemaMismatch where the tables are missing. A store that cannot be reached is
        logged and tried again. After a fork the child starts a replica of its own.
        """
        with self._lock:
            if self._died():
                log.warning("the replica's thread has ended by itself: starting another")
                self._serving = self._background = None
            if self._lent is not None or self._disabled() or self._serving is not None:
                return
            serving = self.serving()
            self._first_check()
            self._inherited = 0
            self._serving, self._background = serving, Background(serving)

    def stop(self) -> bool:
        """End what ``start`` began, within the grace period; return whether work was left."""
        with self._lock:
            background = self._background
            self._inherited = 0
            if background is None:
                return False
            self._serving = self._background = None
        return background.stop(self._settings.grace / SECOND + _STOP_SECONDS)

    def close(self) -> None:
        """Stop, and close every connection; a later use opens them anew."""
        self.stop()
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    @asynccontextmanager
    async def lifespan(self, host: object = None) -> AsyncIterator[None]:
        """Make this process a replica for as long as the block lasts, in the running loop.

        ``FastAPI(lifespan=app.lifespan)``; ``host`` is what the framework passes, and is not used.
        """
        if self._lent is not None or self._disabled():
            yield
            return
        with self._lock:
            if self._serving is not None:
                raise UsageError("this process is a replica already. Use lifespan or start.")
            serving = self._serving = self.serving()
        try:
            await asyncio.to_thread(self._first_check)
            task = asyncio.create_task(serving.serve())
            try:
                yield
            finally:
                serving.stop()
                await task
        finally:
            self._serving = None

    def guard(
        self,
        scheduler: object,
        *,
        on_store_down: OnStoreDown = "skip",
        on_unknown: OnUnknown = "skip",
    ) -> Guard:
        """Claim each tick of another library's scheduler before it fires, in every process alike.

        Knows APScheduler 3, Flask-APScheduler, Celery's beat, Huey, RQ's cron, Taskiq, schedule.
        Raises UsageError for any other, and for a release of these that was never tried. Opens
        nothing: the first tick does. Where the store can't be reached, ticks are skipped, or fire
        unguarded with ``on_store_down="fire"``; a tick whose replica died while it fired is left
        alone and listed, or fired again with ``on_unknown="fire"``. Both are said and counted.
        """
        from onejob.integrations.guard import attach

        self._refuse_fleet()
        self._say_for_how_many()
        made = Guard(
            self._services,
            on_store_down=on_store_down,
            on_unknown=on_unknown,
            disabled=self._disabled(),
        )
        return attach(scheduler, made)

    def status(self) -> Status:
        """Say whether this process is a replica, and where it was started if not here."""
        return standing(
            self._serving, died=self._died(), inherited=self._inherited, where=self._url.where
        )

    def after_fork(self, parent: int) -> None:
        """Give up, in a forked child, what its parent started."""
        self._lock = threading.RLock()
        self._locking.after_fork()
        started, serving = self._background, self._serving
        self._serving = self._background = self._opened = None
        if serving is not None:
            self._inherited = parent
        if started is not None:
            forking.restart_later(self._restart)

    def _restart(self) -> None:
        if self._inherited:
            log.info("onejob: restarting in pid %s after a fork", os.getpid())
            self.start()

    def _died(self) -> bool:
        """Tell whether what ``start`` began has ended, though nobody stopped it."""
        background = self._background
        return background is not None and not background.alive

    def _first_check(self) -> None:
        try:
            self.check()
        except SchemaMismatch:
            raise
        except StoreError as error:
            log.warning("onejob starts without its store, and keeps trying: %s", error)

    def _disabled(self) -> bool:
        if not environment.disabled(os.environ):
            return False
        if not environment.LOOKING.get():
            say("onejob: ONEJOB_DISABLED is set: nothing is started and nothing fires here.")
        return True

    def _say_for_how_many(self) -> None:
        if self._url.dialect == "sqlite":
            say(f"onejob: {self._url.where} is SQLite, for one machine only.")

    def _refuse_fleet(self) -> None:
        platform = environment.fleet(os.environ)
        if self._url.dialect == "sqlite" and platform and not self._single_machine:
            raise UsageError(
                f"this looks like one of many instances, on {platform}, and SQLite is a file of "
                "this one: each would fire every schedule. Use postgresql://, or say "
                "single_machine=True where there is only ever one."
            )

    def _defined(self, job: Job[..., ..., Any]) -> None:
        if self._serving is not None:
            log.warning("job %s is defined after the start: this replica lacks it", job.name)
