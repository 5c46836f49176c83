"""The processes of these tests: what each of them does, and how a test starts and ends them.

A fork server imports the library once and forks each process, so that hundreds of deaths are cheap.
Whatever is started is ended by its process id, whatever becomes of the test.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from types import TracebackType
from typing import Any

import onejob.app
from boundaries.doom import Boundary, Doom, DoomedPostgres, DoomedSqlite
from boundaries.place import Place
from onejob import App, AsyncRun, Retry, Run
from onejob.commands import replicas
from onejob.core.run import ReplicaId
from onejob.serving import Background

SOON = Retry(attempts=50, base="50ms", cap="300ms")
KEYS = 2
ASKED = {f"{job}/{n}" for job in ("write", "finish", "send") for n in range(KEYS)}

processes = multiprocessing.get_context("forkserver")


def build(
    place: Place,
    *,
    doom: Doom | None = None,
    lease: str = "2s",
    ticking: bool = True,
    **options: Any,
) -> App:
    """Return the App that every process here runs: fenced writes, outside effects, a tick."""
    doom = doom or Doom(None)
    opened(doom)
    settings = {"poll": "200ms", "concurrency": 4, **options}
    app = App(place.url, schema=place.schema, name="boundaries", lease=lease, **settings)

    @app.job(retry=SOON)
    def write(run: Run) -> None:
        doom.reach("handler", "start")
        with run.transaction() as connection:
            if run.first("row", within=connection):
                place.land(connection, f"{run.job}/{run.key}")
                doom.reach("handler", "written")
        doom.reach("handler", "end")

    @app.job(retry=SOON)
    def finish(run: Run) -> None:
        with run.transaction(complete=True) as connection:
            place.land(connection, f"{run.job}/{run.key}")

    @app.job(retry=SOON)
    def send(run: Run) -> str:
        def call() -> str:
            doom.reach("call", "before")
            receipt = place.call(f"{run.job}/{run.key}")
            doom.reach("call", "after")
            return receipt

        return run.effect("send", call)

    @app.job(retry=SOON)
    def naive(run: Run) -> None:
        place.call(f"{run.job}/{run.key}")
        doom.reach("naive", "called")

    @app.job(retry=SOON)
    def slow(run: Run) -> None:
        time.sleep(0.5)
        with run.transaction() as connection:
            if run.first("row", within=connection):
                place.land(connection, f"{run.job}/{run.key}")

    @app.job(retry=SOON)
    def hold(run: Run) -> None:
        with told(place, run.attempt), run.transaction() as connection:
            place.land(connection, f"{run.job}/{run.key}")
            if run.attempt == 1:
                place.mark("held")
                until(lambda: place.marked("go"), seconds=40, what="it is let go")

    @app.job(retry=SOON)
    async def ahold(run: AsyncRun) -> None:
        with told(place, run.attempt):
            async with run.transaction() as connection:
                await connection.execute(
                    f"INSERT INTO {place.prefix}landed VALUES (%s)", (f"ahold/{run.key}",)
                )
                if run.attempt == 1:
                    place.mark("held")
                    while not place.marked("go"):  # noqa: ASYNC110 - another process says so
                        await asyncio.sleep(0.02)

    @app.job(retry=SOON)
    async def linger(run: AsyncRun) -> None:
        if run.attempt == 1:
            place.mark("held")
            with told(place, 1):
                await asyncio.sleep(30)
        await run.effect("linger", place.call, f"{run.job}/{run.key}")
        place.mark("out-2", "committed")

    if ticking:

        @app.every("1s", catch_up="all", overlap="allow", retry=SOON)
        def tick(run: Run) -> None:
            with run.transaction(complete=True) as connection:
                place.land(connection, f"{run.job}/{run.key}")

    return app


def opened(doom: Doom) -> None:
    """Let Apps of this process open stores that the doom watches."""

    def open_store(url: Any, schema: str) -> Any:
        store: Any
        if url.dialect == "sqlite":
            store = DoomedSqlite(url.target, schema=schema)
        else:
            store = DoomedPostgres(url.target, schema=schema)
        store.doom = doom
        return store

    # Where an App makes its store; the library itself has no place for another one.
    onejob.app.open_store = open_store


def ask(app: App) -> None:
    """Enqueue what all processes ask for, each under the same keys."""
    for name in ("write", "finish", "send"):
        for n in range(KEYS):
            app.jobs[name].using(key=str(n)).enqueue()


def doomed(place: Place, boundary: Boundary, ticking: bool) -> None:
    """Ask, work, leave: and die on the way."""
    logging.disable(logging.CRITICAL)
    app = build(place, doom=Doom(boundary), ticking=ticking)
    ask(app)
    app.start()
    patience = time.monotonic() + 20
    leaving = boundary.command == "replica_leave"
    while time.monotonic() < patience and not (leaving and place.open_runs() == 0):
        time.sleep(0.05)
    app.stop()


def recovering(place: Place, ticking: bool) -> None:
    """Ask for the same again, and work until everything has ended."""
    logging.disable(logging.CRITICAL)
    app = build(place, ticking=ticking)
    ask(app)
    app.start()
    patience = time.monotonic() + 25
    since = time.monotonic()
    while place.open_runs() or (ticking and (time.monotonic() < since + 1.2 or not place.ticked())):
        if time.monotonic() > patience:
            os._exit(3)
        time.sleep(0.05)
    app.close()


def working(place: Place, ticking: bool, options: dict[str, Any], errors: str = "") -> None:
    """Work until this process is ended. What is logged goes to a file."""
    if errors:
        logging.basicConfig(filename=errors, level=logging.WARNING, force=True)
    else:
        logging.disable(logging.CRITICAL)
    number = int(options.pop("replicas", 1))
    apps = [build(place, ticking=ticking, **options) for _ in range(number)]
    for app in apps:
        app.start()
    signal.pause()


@contextmanager
def told(place: Place, attempt: int) -> Iterator[None]:
    """Say how an attempt came out of its transaction."""
    try:
        yield
    except BaseException as error:
        place.mark(f"out-{attempt}", type(error).__name__)
        raise
    place.mark(f"out-{attempt}", "committed")


def sweeping(place: Place, number: int, errors: str) -> None:
    """Be so many replicas that neither work nor schedule, only sweep, until ended."""
    logging.basicConfig(filename=errors, level=logging.WARNING, force=True)
    for _ in range(number):
        app = build(place, ticking=False, lease="1s")
        Background(app.serving(work=False, schedule=False))
    signal.pause()


class Fleet:
    """Processes that end with the block."""

    def __init__(self) -> None:
        self._started: list[ForkServerProcess] = []
        self._lock = threading.Lock()

    def start(self, work: Callable[..., None], *arguments: object) -> ForkServerProcess:
        """Start a process that does this work."""
        process = processes.Process(target=work, args=arguments, daemon=True)
        with self._lock:
            process.start()
            self._started.append(process)
        return process

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._started:
            kill(process)


def bury(place: Place) -> None:
    """Let the dead one's lease be over, once the server has done what it was still sent."""
    if place.dialect == "postgresql":
        mine = (
            f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{place.schema}'"
            " AND pid <> pg_backend_pid()"
        )
        until(lambda: place.query(mine) == [(0,)], seconds=10, what="its sessions are over")
    app = build(place)
    for [id] in place.query("SELECT id FROM {t}replica WHERE dead_at = 0"):
        app.store.run(replicas.leave(ReplicaId(id)))
    app.close()


def kill(process: ForkServerProcess) -> None:
    """End a process now, frozen or not, and wait until it is gone."""
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
    process.join(10)
    assert not process.is_alive()


def until(reached: Callable[[], object], *, seconds: float, what: str) -> None:
    """Wait for something that other processes do."""
    patience = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < patience, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def names(job: str, numbers: Iterable[int]) -> set[str]:
    """Return how runs of a job are named in counts."""
    return {f"{job}/{n}" for n in numbers}
