"""What every driver understands, whatever library it drives. Standard library only.

    setup             make the tables
    one N             enqueue N runs, one by one
    many N            enqueue N runs at once
    ping N SPAN       enqueue N runs, SPAN seconds apart, and mark when
    hold              enqueue one run that goes on for a minute
    work              be a worker, until terminated

The place is told by BENCH_URL and BENCH_DIRECTORY. Handlers leave one byte in ``count`` for each
run, the same for every library, and marks (kind, number, monotonic second, process) in ``marks``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

URL = os.environ.get("BENCH_URL", "")
DIRECTORY = os.environ.get("BENCH_DIRECTORY", ".")
OPTIONS: dict[str, Any] = json.loads(os.environ.get("BENCH_OPTIONS", "{}"))
HOLD_SECONDS = 60.0


class Driver:
    """A library's own way to do each of these. ``ping`` and ``hold`` are jobs that mark."""

    async def setup(self) -> None:
        """Make the tables."""
        raise NotImplementedError

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Have the connections that enqueueing needs."""
        yield

    async def one(self, number: int) -> None:
        """Enqueue one run of the job that only counts."""
        raise NotImplementedError

    async def many(self, numbers: int) -> None:
        """Enqueue many at once."""
        raise NotImplementedError

    async def ping(self, number: int) -> None:
        """Enqueue a run of the job that marks ``run``."""
        raise NotImplementedError

    async def hold(self) -> None:
        """Enqueue a run of the job that marks ``held`` and goes on for a minute."""
        raise NotImplementedError

    async def work(self) -> None:
        """Execute runs until the process is terminated."""
        raise NotImplementedError


def main(driver: Driver) -> None:
    """Do what the command line says."""
    match sys.argv[1:]:
        case ["setup"]:
            asyncio.run(driver.setup())
        case ["work"]:
            asyncio.run(driver.work())
        case ["one", number]:
            asyncio.run(_timed(driver, int(number), lambda n: _each(driver, n)))
        case ["many", number]:
            asyncio.run(_timed(driver, int(number), driver.many))
        case ["ping", number, span]:
            asyncio.run(_pings(driver, int(number), float(span)))
        case ["hold"]:
            asyncio.run(_hold(driver))
        case other:
            sys.exit(f"not a command of drivers: {' '.join(other)}")


def count() -> None:
    """Leave one byte. Whole in any process or thread, since the file is opened to append."""
    os.write(_file("count"), b".")


def mark(what: str, number: int, at: float | None = None) -> None:
    """Leave a mark, of now unless told otherwise."""
    moment = time.monotonic() if at is None else at
    os.write(_file("marks"), f"{what} {number} {moment:.6f} {os.getpid()}\n".encode())


def answer(**figures: float) -> None:
    """Print what was found, for the harness."""
    print(json.dumps(figures), flush=True)


async def _each(driver: Driver, numbers: int) -> None:
    for number in range(numbers):
        await driver.one(number)


async def _timed(
    driver: Driver, numbers: int, enqueue: Callable[[int], Coroutine[Any, Any, None]]
) -> None:
    async with driver.opened():
        began = time.perf_counter()
        await enqueue(numbers)
        seconds = time.perf_counter() - began
    answer(seconds=seconds, rate=numbers / seconds)


async def _pings(driver: Driver, numbers: int, span: float) -> None:
    async with driver.opened():
        for number in range(numbers):
            # Before the call: what the user waits for begins there.
            mark("sent", number)
            await driver.ping(number)
            await asyncio.sleep(span)
    answer(sent=numbers)


async def _hold(driver: Driver) -> None:
    async with driver.opened():
        await driver.hold()
    answer(sent=1)


@cache
def _file(name: str) -> int:
    path = os.path.join(DIRECTORY, name)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
