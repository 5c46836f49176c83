"""Plans of ticks and looks: their cost depends on what is due here, not on what exists.

Asked of the planner over tables that nobody has analysed yet, which is when it is most mistaken.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from onejob.commands import replicas, schedules
from onejob.commands.command import Command
from onejob.core.time import DAY
from onejob.stores.postgres import PostgresStore
from onejob.stores.sqlite import SqliteStore
from onejob.testing.conformance.given import NOW
from onejob.testing.conformance.put import PUT

MANY = [
    replace(PUT, name=f"s{n}", job="mail" if n % 2 else "gone", next_fire=NOW + n % 7 * DAY)
    for n in range(3_000)
]
ASKED = {
    "due": schedules.due(["nightly", "hourly"], ["mail", "bill"], limit=10, now=None),
    "look": replicas.look(schedules=["nightly", "hourly"], ticks=["mail", "bill"], now=None),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
def test_postgresql_walks_past_no_schedule_that_is_not_fired_here(
    postgres_store: PostgresStore, postgres_url: str, asked: Command[object]
) -> None:
    """Neither by name nor by job is anything read that is not due, or not ours."""
    assert len(postgres_store.run(schedules.put(MANY, now=NOW))) == len(MANY)
    [statement] = postgres_store.statements(asked, "pyformat")

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        rows = connection.execute(
            b"EXPLAIN (ANALYZE) " + statement.text.encode(), statement.parameters
        ).fetchall()

    plan = [str(row[0]).strip() for row in rows]
    assert any("using schedule_dynamic" in line for line in plan), plan
    assert not [line for line in plan if "Seq Scan on schedule" in line], plan
    assert not [line for line in plan if "Rows Removed by Filter" in line], plan


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
def test_sqlite_walks_past_no_schedule_that_is_not_fired_here(
    sqlite_store: SqliteStore, asked: Command[object]
) -> None:
    statement = sqlite_store.statements(asked, "named")[0]

    with closing(sqlite3.connect(sqlite_store.path)) as connection:
        rows = connection.execute(
            "EXPLAIN QUERY PLAN " + statement.text, {**statement.parameters, "now": NOW}
        ).fetchall()

    plan = [str(row[-1]) for row in rows]
    assert any("schedule_dynamic (job=?" in line for line in plan), plan
    assert not [line for line in plan if line.startswith("SCAN onejob_schedule")], plan
