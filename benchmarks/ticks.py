"""Ticks: an every-second schedule in several processes, one of them killed and another started.

Counted is what a user would see: seconds that were fired more than once, or not at all, and how
late a handler began where the library names the fire time. Where it names none, a firing belongs to
the second in which its handler began.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from benchmarks import brokers
from benchmarks.contenders import ROOT
from benchmarks.environments import Unavailable, python_with
from benchmarks.field import Context
from benchmarks.places import Place
from benchmarks.processes import Process, running
from benchmarks.rounds import Column, Entry, Failed, Figures, Skipped, Table

COLUMNS = (
    Column("doubled", "ticks fired twice or more", target="0"),
    Column("missed", "ticks missed", target="0"),
    Column("ticks", "ticks"),
    Column("fired", "fires a tick", 2, target="1"),
    Column("p50", "late p50 ms", 1, target="20 or less"),
    Column("p99", "late p99 ms", 1, target="150 or less"),
)
SETUP_SECONDS = 60.0
#: From a start to where every library has found its rhythm.
WARM_SECONDS = 10.0
APART_SECONDS = 0.7
#: From the kill of one process to the start of its successor.
GONE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Ticker:
    """A library's scheduler as it is measured. ``worker``: a process apart executes it."""

    label: str
    module: str
    store: Literal["postgres", "sqlite"] = "postgres"
    packages: tuple[str, ...] = ()
    replicas: int = 3
    redis: bool = False
    worker: bool = False
    setup: bool = False
    option: str = ""


OURS = (
    Ticker("onejob, 3 processes", "for_onejob", setup=True),
    Ticker("onejob, 10 processes", "for_onejob", replicas=10, setup=True),
    Ticker("onejob, SQLite, 3 processes", "for_onejob", "sqlite", setup=True),
)
PEERS = (
    Ticker("APScheduler 3", "for_apscheduler", "sqlite", ("apscheduler<4",)),
    Ticker(
        "APScheduler 3, shared database",
        "for_apscheduler_shared",
        packages=("apscheduler<4", "sqlalchemy", "psycopg2-binary"),
    ),
    Ticker("Celery beat", "for_celery", "sqlite", ("celery[redis]",), redis=True, worker=True),
    Ticker(
        "RedBeat",
        "for_celery",
        "sqlite",
        ("celery[redis]", "celery-redbeat"),
        redis=True,
        worker=True,
        option="redbeat",
    ),
    Ticker("arq", "for_arq", "sqlite", ("arq",), redis=True),
    Ticker("procrastinate", "for_procrastinate", packages=("procrastinate",), setup=True),
    Ticker("pgqueuer", "for_pgqueuer", packages=("pgqueuer[asyncpg,cli]",), setup=True),
    Ticker("DBOS", "for_dbos", packages=("dbos", "psycopg[binary,pool]"), setup=True),
)


def table(context: Context) -> Table:
    """Measure ours at three sizes, and everybody else at three processes."""
    return Table(COLUMNS, [_entry(ticker, context) for ticker in (*OURS, *PEERS)])


def _entry(ticker: Ticker, context: Context) -> Entry | Skipped:
    if ticker.packages and not context.peers:
        return Skipped(ticker.label, "peers were not asked for")
    if ticker.store == "postgres" and context.places.server is None:
        return Skipped(ticker.label, "no PostgreSQL")
    if ticker.redis and not brokers.have_redis():
        return Skipped(ticker.label, "no Redis server to start")
    try:
        python = python_with(ticker.packages) if ticker.packages else Path(sys.executable)
    except Unavailable as why:
        return Skipped(ticker.label, str(why))
    measure = partial(measured, ticker, context, python)
    return Entry(ticker.label, measure, ours=not ticker.packages)


def measured(ticker: Ticker, context: Context, python: Path) -> Figures:
    """Let it tick for a while; in the middle kill the process that began first, start another."""
    seconds = context.sizes.ticks
    with _cast(ticker, context, python) as (place, start):
        schedulers: list[Process] = []
        for number in range(ticker.replicas):
            schedulers.append(start("schedule", number))
            # As a deployment does: several make their tables at their first start, and collide.
            _pass(schedulers, APART_SECONDS)
        if ticker.worker:
            start("work", ticker.replicas)
        _pass(schedulers, min(WARM_SECONDS, seconds * 2.0))
        began = time.time()
        _pass(schedulers, seconds / 2)
        schedulers.pop(0).kill()
        _pass(schedulers, min(GONE_SECONDS, seconds / 4))
        schedulers.append(start("schedule", ticker.replicas + 1))
        _pass(schedulers, began + seconds - time.time())
        ended = time.time()
        # What was due in the last second may still be on its way.
        _pass(schedulers, 1.5)
        return _counted(place.directory / "fired", began, ended)


@contextmanager
def _cast(ticker: Ticker, context: Context, python: Path) -> Iterator[tuple[Place, _Start]]:
    places = context.places
    with ExitStack() as stack:
        place: Place = stack.enter_context(
            places.postgres() if ticker.store == "postgres" else places.sqlite()
        )
        port = stack.enter_context(brokers.redis(place.directory)) if ticker.redis else 0
        start = _Start(ticker, place, python, port, stack)
        if ticker.setup:
            start.setup()
        yield place, start


class _Start:
    """Starts processes of one ticker in one place."""

    def __init__(
        self, ticker: Ticker, place: Place, python: Path, port: int, stack: ExitStack
    ) -> None:
        self._command = [str(python), "-m", f"benchmarks.tickers.{ticker.module}"]
        self._place, self._stack = place, stack
        self._environment = {
            **os.environ,
            "BENCH_URL": place.url,
            "BENCH_REDIS": str(port),
            "BENCH_DIRECTORY": str(place.directory),
            "BENCH_OPTION": ticker.option,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }

    def __call__(self, role: str, number: int) -> Process:
        environment = {**self._environment, "BENCH_NUMBER": str(number)}
        log = self._place.directory / f"{role}-{number}.log"
        return self._stack.enter_context(running([*self._command, role], environment, log))

    def setup(self) -> None:
        done = subprocess.run(
            [*self._command, "setup"],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SETUP_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise Failed(f"setup: {(done.stderr.strip().splitlines() or ['?'])[-1]}")


def _pass(processes: list[Process], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for process in processes:
            process.check()
        time.sleep(0.05)


def _counted(path: Path, began: float, ended: float) -> Figures:
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except FileNotFoundError as error:
        raise Failed("nothing has fired") from error
    fires: Counter[int] = Counter()
    late = []
    for named, at, _ in lines:
        fires[int(float(at if named == "-" else named))] += 1
        if named != "-" and began <= float(named) < ended:
            late.append((float(at) - float(named)) * 1000)
    # Whole seconds that lie in the span entirely.
    ticks = [fires[second] for second in range(int(began) + 1, int(ended))]
    figures = {
        "doubled": float(sum(1 for count in ticks if count > 1)),
        "missed": float(sum(1 for count in ticks if count == 0)),
        "ticks": float(len(ticks)),
        "fired": sum(ticks) / len(ticks),
    }
    if len(late) > 1:
        figures |= {"p50": statistics.median(late), "p99": statistics.quantiles(late, n=100)[98]}
    return figures
