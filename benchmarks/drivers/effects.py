"""Effects by one library each: ``NAME URL COUNT``. Prints its figures as JSON.

``first`` and its bare twin: microseconds a statement in one open transaction. The others: effects
a second, of calls that take no time, or of a call over HTTP of 20 ms, fifty at once.
"""

# Their libraries are in environments of their own, where no type checker looks.
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: The first ones open connections and plan statements.
WARM = 50
#: Statements in a transaction, so that its commit is not what is measured.
IN_ONE = 500
AT_ONCE = 50


def first(url: str, count: int) -> dict[str, float]:
    import psycopg

    app = _ours(url)
    with psycopg.connect(url) as connection:
        return _statements(
            count,
            lambda number: app.first("bench", f"key {number}", within=connection),
            connection.commit,
        )


def bare_insert(url: str, count: int) -> dict[str, float]:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE TABLE seen (scope text, key text, owner text, at bigint, keep bigint,"
            " PRIMARY KEY (scope, key))"
        )
        return _statements(
            count,
            lambda number: connection.execute(
                "INSERT INTO seen VALUES (%s, %s, %s, %s, %s)",
                ("bench", f"key {number}", "me", time.time_ns() // 1000, 1),
            ),
            connection.commit,
        )


def first_many(url: str, count: int) -> dict[str, float]:
    import psycopg

    app = _ours(url)
    with psycopg.connect(url) as connection:
        began = time.perf_counter()
        for start in range(0, count, 10_000):
            keys = [f"key {number}" for number in range(start, start + 10_000)]
            assert len(app.first_many("bench", keys, within=connection)) == 10_000
            connection.commit()
    return {"rate": count / (time.perf_counter() - began)}


def effect(url: str, count: int) -> dict[str, float]:
    app = _ours(url)
    return _one_by_one(count, lambda number: app.effect("bench", f"key {number}", _nothing))


def justonce(url: str, count: int) -> dict[str, float]:
    import justonce as theirs
    from justonce.stores import PostgresStore

    theirs.configure(PostgresStore(url))
    call = theirs.idempotent(key=lambda number: theirs.operation_key("bench", str(number)))(
        lambda number: None
    )
    return _one_by_one(count, call)


def dbos(url: str, count: int) -> dict[str, float]:
    """One workflow whose steps are the effects: what its documentation has for a loop."""
    from dbos import DBOS

    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})

    @DBOS.step()
    def step(number: int) -> None: ...

    @DBOS.workflow()
    def loop(start: int, many: int) -> float:
        began = time.perf_counter()
        for number in range(start, start + many):
            step(number)
        return time.perf_counter() - began

    DBOS.launch()
    loop(0, WARM)
    took = loop(WARM, count)
    DBOS.destroy()
    return {"rate": count / took}


def powertools(url: str, count: int) -> dict[str, float]:
    """On Redis, which does not write to disk before it answers: its other store is DynamoDB."""
    import redis
    from aws_lambda_powertools.utilities.idempotency import (
        IdempotencyConfig,
        idempotent_function,
    )
    from aws_lambda_powertools.utilities.idempotency.persistence.redis import (
        RedisCachePersistenceLayer,
    )

    layer = RedisCachePersistenceLayer(client=redis.Redis.from_url(url, decode_responses=True))

    @idempotent_function(
        data_keyword_argument="data", persistence_store=layer, config=IdempotencyConfig()
    )
    def call(*, data: dict[str, int]) -> None: ...

    return _one_by_one(count, lambda number: call(data={"number": number}))


def each(url: str, count: int) -> dict[str, float]:
    """``run.each`` in an async handler, with a call that takes no time."""

    async def call(number: int) -> None: ...

    return {"rate": count / _in_a_run(url, count, call, at_once=200)}


def each_http(url: str, count: int) -> dict[str, float]:
    """``run.each`` with a call over HTTP, fifty at once."""
    import aiohttp

    with _provider() as provider:
        sessions: list[aiohttp.ClientSession] = []

        async def call(number: int) -> None:
            if not sessions:
                sessions.append(aiohttp.ClientSession())
            async with sessions[0].get(provider) as response:
                await response.read()

        return {"rate": count / _in_a_run(url, count, call, at_once=AT_ONCE)}


def bare_http(url: str, count: int) -> dict[str, float]:
    """The same calls with nothing around them."""
    import aiohttp

    async def loop(provider: str) -> float:
        numbers = iter(range(count))

        async def one_after_the_other(session: aiohttp.ClientSession) -> None:
            for _ in numbers:
                async with session.get(provider) as response:
                    await response.read()

        async with aiohttp.ClientSession() as session:
            began = time.perf_counter()
            await asyncio.gather(*(one_after_the_other(session) for _ in range(AT_ONCE)))
            return time.perf_counter() - began

    with _provider() as provider:
        return {"rate": count / asyncio.run(loop(provider))}


def _ours(url: str) -> Any:
    from onejob import App

    app = App(url, name="bench", single_machine=True)
    app.store.init()  # type: ignore[attr-defined]
    return app


def _nothing() -> None: ...


def _statements(
    count: int, statement: Callable[[int], object], commit: Callable[[], None]
) -> dict[str, float]:
    took = []
    for number in range(WARM + count):
        if number % IN_ONE == 0:
            commit()
        began = time.perf_counter()
        statement(number)
        took.append((time.perf_counter() - began) * 1e6)
    commit()
    usual = statistics.median(took[WARM:])
    return {"rate": 1e6 / usual, "microseconds": usual}


def _one_by_one(count: int, call: Callable[[int], object]) -> dict[str, float]:
    for number in range(WARM):
        call(number)
    began = time.perf_counter()
    for number in range(WARM, WARM + count):
        call(number)
    return {"rate": count / (time.perf_counter() - began)}


def _in_a_run(
    url: str, count: int, call: Callable[[int], Awaitable[None]], *, at_once: int
) -> float:
    from onejob import AsyncRun

    app = _ours(url)

    @app.job()
    async def loop(run: AsyncRun, start: int, many: int) -> float:
        began = time.perf_counter()
        result = await run.each(range(start, start + many), call, key=str, concurrency=at_once)
        assert result.done == many
        return time.perf_counter() - began

    app.start()
    took = 0.0
    for start, many in ((0, WARM), (WARM, count)):
        ended = app.runs.wait(loop.enqueue(start=start, many=many).run_id, timeout=300)
        assert ended.outcome == "succeeded", ended
        took = ended.result
    app.stop()
    return took


@contextmanager
def _provider() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.drivers.provider"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
        finally:
            process.kill()


def main() -> None:
    name, url, count = sys.argv[1:]
    print(json.dumps(globals()[name](url, int(count))))


if __name__ == "__main__":
    main()
