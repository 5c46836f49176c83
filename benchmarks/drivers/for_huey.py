"""huey with SQLite, and its own consumer as the worker. It has no enqueue in bulk."""

# Its library is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found,untyped-decorator"

from __future__ import annotations

import os
import sys
import time

from huey import SqliteHuey

from benchmarks.drivers.protocol import DIRECTORY, HOLD_SECONDS, OPTIONS, Driver, count, main, mark

# Its messages name tasks by their module, so this must be imported by the name it has here.
MODULE = "benchmarks.drivers.for_huey.huey"

huey = SqliteHuey(
    "bench", filename=os.path.join(DIRECTORY, "huey.db"), **OPTIONS.get("storage", {})
)


@huey.task(name="noop")
def noop(i: int) -> None:
    count()


@huey.task(name="ping")
def ping(i: int) -> None:
    mark("run", i)
    count()


@huey.task(name="hold")
def hold() -> None:
    mark("held", 0)
    time.sleep(HOLD_SECONDS)


class Huey(Driver):
    async def setup(self) -> None:
        huey.storage.flush_all()

    async def one(self, number: int) -> None:
        noop(number)

    async def many(self, numbers: int) -> None:
        for number in range(numbers):
            noop(number)

    async def ping(self, number: int) -> None:
        ping(number)

    async def hold(self) -> None:
        hold()

    async def work(self) -> None:
        command = os.path.join(os.path.dirname(sys.executable), "huey_consumer")
        os.execv(
            command,
            ["huey_consumer", "benchmarks.drivers.for_huey.huey", *OPTIONS.get("arguments", [])],
        )


if __name__ == "__main__":
    from benchmarks.drivers import for_huey

    main(for_huey.Huey())
