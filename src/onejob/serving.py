"""One replica of an App in this process: started, kept trying while its store is away, stopped."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass, replace

from onejob import environment
from onejob.core.lease import LEAST_LEASE
from onejob.core.names import check_name
from onejob.core.time import SECOND, Duration, duration
from onejob.counts import check_count
from onejob.definitions import Repertoire
from onejob.errors import SchemaMismatch, StoreError, UsageError
from onejob.opening import say
from onejob.runtime.lane import ThreadHost
from onejob.runtime.replica import Replica
from onejob.runtime.settings import Settings
from onejob.services import Services

_PAUSE_FIRST = 0.5
_PAUSE_LONGEST = 10.0

#: How long commands that are under way in threads may take to end, when all loops have.
REST_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Status:
    """Whether this process is a replica: ``str()`` says it in a sentence."""

    running: bool
    replica: str
    text: str

    def __str__(self) -> str:
        return self.text


def standing(serving: Serving | None, *, died: bool, inherited: int, where: str) -> Status:
    """Say how a process stands: what it serves, if anything, and the pid that started it."""
    if died:
        return Status(False, "", "not running here: its thread has ended by itself")
    if serving is not None and serving.id:
        return Status(True, serving.id, f"running here as replica {serving.id}")
    if serving is not None:
        return Status(False, "", f"starting: waiting for the store at {where}")
    if inherited:
        return Status(False, "", f"not running here: started in pid {inherited}")
    if environment.disabled(os.environ):
        return Status(False, "", "not running here: ONEJOB_DISABLED is set")
    return Status(False, "", "not running here: not started")


class Serving:
    """A replica with a beginning and an end. ``serve`` runs it in the caller's loop, once."""

    def __init__(
        self,
        services: Services,
        repertoire: Repertoire,
        settings: Settings,
        *,
        check: Callable[[], None],
    ) -> None:
        self.settings = settings
        self._services, self._check = services, check
        self._repertoire = repertoire
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._stopped = False
        self.replica: Replica | None = None

    @property
    def id(self) -> str:
        """Return the replica's id, "" until it has joined the fleet."""
        replica = self.replica
        membership = None if replica is None else replica.membership
        return "" if membership is None else str(membership.id)

    async def serve(self) -> bool:
        """Work until stopped; return whether work was left unfinished, or the store silent."""
        with self._lock:
            self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
            if self._stopped:
                return False
        if not await self._answered(self._stopping):
            return False
        services = self._services
        if getattr(services.store, "pooled", False):
            say(
                f"onejob: {services.store.where} is behind a pooler: new work is polled for every "
                f"{self.settings.poll / SECOND:g} s, instead of being heard of at once."
            )
        lane = services.store.lane(patience=self.settings.lease // 3)  # type: ignore[arg-type]
        host = ThreadHost(lane, services.store.where, tidy=services.store.reap)
        self.replica = Replica(
            services.astore,
            host,
            self._repertoire.handlers,
            self._repertoire.declared,
            self.settings,
            events=services.events,
            targets=self._repertoire.targets,
            wall=_wall,
        )
        if self._stopping.is_set():
            self.replica.stop()
        try:
            left = await self.replica.serve()
        finally:
            self.replica = None
        # A thread that waits for a silent store would be waited for at the process's end, too.
        return left or not await services.astore.at_rest(REST_SECONDS)

    def stop(self) -> None:
        """Begin the drain. Safe from any thread, at any time."""
        with self._lock:
            self._stopped = True
            loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._stop)

    def wake(self) -> None:
        """Say that there may be work. Safe from any thread."""
        replica = self.replica
        if replica is not None and self._loop is not None and not self._loop.is_closed():
            replica.wake()

    def _stop(self) -> None:
        assert self._stopping is not None, "a loop comes with its event"
        self._stopping.set()
        if self.replica is not None:
            self.replica.stop()

    async def _answered(self, stopping: asyncio.Event) -> bool:
        """Wait until the store is there with the right schema. False: stopped before that."""
        pause = _PAUSE_FIRST
        while not stopping.is_set():
            try:
                await asyncio.to_thread(self._check)
            except StoreError as error:
                missing = isinstance(error, SchemaMismatch)
                name = "store.schema" if missing else "store.trouble"
                self._services.events.emit(name, where=self._services.store.where, error=str(error))
            else:
                return True
            try:
                await asyncio.wait_for(stopping.wait(), pause)
            except TimeoutError:
                pause = min(pause * 2, _PAUSE_LONGEST)
        return False


def _wall() -> int:
    return time.time_ns() // 1_000


class Background:
    """A Serving in a daemon thread with a loop of its own."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.left = False
        self._thread = threading.Thread(target=self._main, name="onejob", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Tell whether the thread runs."""
        return self._thread.is_alive()

    def stop(self, seconds: float) -> bool:
        """Drain and end the thread, waiting so long at most; return whether work was left."""
        self.serving.stop()
        if self._thread is not threading.current_thread():
            self._thread.join(seconds)
        return self.left or self._thread.is_alive()

    def _main(self) -> None:
        self.left = asyncio.run(self.serving.serve())


def settings_of(
    default: Settings,
    *,
    known: Set[str],
    queues: Sequence[str] | None,
    concurrency: int | None,
    grace: Duration | None,
    lease: Duration | None,
    work: bool,
    schedule: bool,
) -> Settings:
    """Return the settings of one replica in this process; UsageError for what cannot be right.

    It serves the ``known`` queues unless ``queues`` names others.
    """
    return replace(
        default,
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=tuple(sorted(known if queues is None else _checked(queues))),
        concurrency=(
            default.concurrency
            if concurrency is None
            else check_count(concurrency, what="concurrency")
        ),
        grace=default.grace if grace is None else duration(grace, what="grace"),
        lease=default.lease if lease is None else duration(lease, what="lease", least=LEAST_LEASE),
        work=work,
        schedule=schedule,
    )


def _checked(queues: object) -> set[str]:
    """Return the queues to serve; a text would be read as one queue for each of its letters."""
    if isinstance(queues, str) or not isinstance(queues, Collection) or not queues:
        raise UsageError(f"queues={queues!r} must be a list of names, such as ['default'].")
    return {check_name(queue, what="queue") for queue in queues}
