"""Plain loops: what this machine, this server and Python allow, with no library in between.

    python -m benchmarks.drivers.loops NAME N     on the database BENCH_URL, which must be empty

``keep`` claims 100 rows and moves them on, keeping them; ``task`` claims 100, runs a task for each
and deletes them (needs asyncpg); ``enqueue_one`` and ``enqueue_many`` insert; ``fenced`` does by
hand what a fenced transaction with a completion does. Prints the runs a second.
"""

# Its library is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Callable

import psycopg

from benchmarks.drivers.protocol import URL, answer

BATCH = 100

SCHEMA = """
CREATE TABLE job (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  task text NOT NULL,
  payload jsonb NOT NULL,
  state smallint NOT NULL DEFAULT 0,
  due timestamptz NOT NULL DEFAULT now(),
  attempt integer NOT NULL DEFAULT 0,
  lease_until timestamptz,
  worker integer
);
CREATE INDEX job_due ON job (due, id) WHERE state = 0;
CREATE INDEX job_lease ON job (lease_until) WHERE state = 1;
CREATE TABLE done (LIKE job);
CREATE TABLE effect (id bigint PRIMARY KEY);
"""

FILL = """
INSERT INTO job (task, payload)
SELECT 'noop', jsonb_build_object('i', n) FROM generate_series(1, %s) AS n
"""

CLAIM = """
UPDATE job
   SET state = 1, attempt = attempt + 1, lease_until = now() + interval '30s', worker = {worker}
 WHERE id IN (SELECT id FROM job WHERE state = 0 AND due <= now()
               ORDER BY due, id FOR UPDATE SKIP LOCKED LIMIT {limit})
RETURNING id, payload, attempt
"""
INSERT = "INSERT INTO job (task, payload) VALUES ('noop', %s)"


def keep(runs: int) -> float:
    """Claim 100 with one statement, finish them with another, keep the rows as history."""
    claim = CLAIM.format(worker="%s", limit="%s")
    finish = "UPDATE job SET state = 2, lease_until = NULL WHERE id = ANY(%s) AND worker = %s"
    with psycopg.connect(URL, autocommit=True) as connection:
        began, finished = time.perf_counter(), 0
        while finished < runs:
            rows = connection.execute(claim, (1, BATCH), prepare=True).fetchall()
            connection.execute(finish, ([row[0] for row in rows], 1), prepare=True)
            finished += len(rows)
        return finished / (time.perf_counter() - began)


def task(runs: int) -> float:
    """Claim 100, run an asyncio task for each, delete them: the fastest that forgets."""
    import asyncpg

    async def noop(payload: object) -> None:
        return None

    async def loop() -> float:
        connection = await asyncpg.connect(URL)
        claim = await connection.prepare(CLAIM.format(worker="$1", limit="$2"))
        delete = await connection.prepare(
            "DELETE FROM job WHERE id = ANY($1::bigint[]) AND worker = $2"
        )
        began, finished = time.perf_counter(), 0
        while finished < runs:
            rows = await claim.fetch(1, BATCH)
            await asyncio.gather(*[asyncio.create_task(noop(row["payload"])) for row in rows])
            await delete.fetch([row["id"] for row in rows], 1)
            finished += len(rows)
        rate = finished / (time.perf_counter() - began)
        await connection.close()
        return rate

    return asyncio.run(loop())


def enqueue_one(runs: int) -> float:
    """One INSERT and one commit for each."""
    with psycopg.connect(URL, autocommit=True) as connection:
        began = time.perf_counter()
        for number in range(runs):
            connection.execute(INSERT, (f'{{"i": {number}}}',), prepare=True)
        return runs / (time.perf_counter() - began)


def enqueue_many(runs: int) -> float:
    """All of them in one statement."""
    text = "INSERT INTO job (task, payload) SELECT 'noop', p::jsonb FROM unnest(%s::text[]) AS p"
    with psycopg.connect(URL, autocommit=True) as connection:
        payloads = [f'{{"i": {number}}}' for number in range(runs)]
        began = time.perf_counter()
        connection.execute(text, (payloads,))
        return runs / (time.perf_counter() - began)


def fenced(runs: int) -> float:
    """Lock the row under its attempt, write one effect, move the row on, commit."""
    claim = CLAIM.format(worker="%s", limit="%s")
    hold = "SELECT 1 FROM job WHERE id = %s AND attempt = %s AND worker = 1 FOR NO KEY UPDATE"
    end = (
        "WITH gone AS (DELETE FROM job WHERE id = %s AND attempt = %s AND worker = 1 RETURNING *)"
        " INSERT INTO done SELECT * FROM gone"
    )
    took: list[float] = []
    with psycopg.connect(URL, autocommit=True) as connection:
        while len(took) < runs:
            for id, _, attempt in connection.execute(claim, (1, BATCH), prepare=True).fetchall():
                began = time.perf_counter()
                with connection.transaction():
                    connection.execute(hold, (id, attempt), prepare=True)
                    connection.execute("INSERT INTO effect (id) VALUES (%s)", (id,), prepare=True)
                    connection.execute(end, (id, attempt), prepare=True)
                took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


LOOPS: dict[str, tuple[Callable[[int], float], bool]] = {
    "keep": (keep, True),
    "task": (task, True),
    "enqueue_one": (enqueue_one, False),
    "enqueue_many": (enqueue_many, False),
    "fenced": (fenced, True),
}


def main() -> None:
    name, runs = sys.argv[1], int(sys.argv[2])
    loop, filled = LOOPS[name]
    with psycopg.connect(os.environ["BENCH_URL"], autocommit=True) as connection:
        connection.execute(SCHEMA)
        if filled:
            # Whole batches, so that the last claim of a loop is as full as the others.
            connection.execute(FILL, (-(-runs // BATCH) * BATCH,))
            connection.execute("VACUUM ANALYZE job")
        connection.execute("CHECKPOINT")
    answer(figure=loop(runs))


if __name__ == "__main__":
    main()
