"""Plans: a claim's cost must not grow with what it may not take.

Asked of the planner, never measured: figures belong to the benchmarks.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pytest

from onejob.commands import runs
from onejob.commands.runs import NewRun
from onejob.core.run import ReplicaId
from onejob.core.time import HOUR, SECOND
from onejob.core.watermark import full_probes
from onejob.stores.postgres import PostgresStore
from onejob.stores.sqlite import SqliteStore
from onejob.testing.conformance.given import NOW, claim, joined

CLAIM = runs.claim(
    full_probes(["default"]), jobs=["mail"], replica=ReplicaId("a"), limit=10, now=None
)
FUTURE = [NewRun("mail", f"k{n}", "{}", at=NOW + HOUR + n * SECOND) for n in range(5_000)]


def test_the_clock_bounds_the_index_on_postgresql(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    """By clock_timestamp() every future run would be read and thrown away, one by one."""
    postgres_store.run(runs.enqueue(FUTURE, now=NOW))
    [statement] = postgres_store.statements(CLAIM, "pyformat")

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"ANALYZE {postgres_store.catalogue.prefix}run".encode())
        rows = connection.execute(
            b"EXPLAIN " + statement.text.encode(), statement.parameters
        ).fetchall()

    plan = [str(row[0]).strip() for row in rows]
    assert any("using run_claim" in line for line in plan), plan
    [condition] = [line for line in plan if "Index Cond" in line and "due" in line]
    assert "queue = " in condition
    assert "priority = " in condition
    assert "(due <= " in condition
    assert "ROW(" in condition


def test_the_clock_bounds_the_index_on_sqlite(sqlite_store: SqliteStore) -> None:
    sqlite_store.run(runs.enqueue(FUTURE, now=NOW))
    statement = sqlite_store.statements(CLAIM, "named")[0]

    with closing(sqlite3.connect(sqlite_store.path)) as connection:
        rows = connection.execute(
            "EXPLAIN QUERY PLAN " + statement.text, statement.parameters
        ).fetchall()

    plan = [str(row[-1]) for row in rows]
    assert any("run_claim (queue=? AND priority=? AND due>? AND due<?)" in line for line in plan)
    assert not any("ORDER BY" in line for line in plan), plan


@pytest.mark.parametrize("store", ["sqlite_store", "postgres_store"])
def test_many_future_runs_hide_no_due_one(store: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(store).run
    run(runs.enqueue([*FUTURE, NewRun("mail", "due", "{}", priority=9)], now=NOW))

    [claimed] = claim(run, joined(run))

    assert claimed.key == "due"
