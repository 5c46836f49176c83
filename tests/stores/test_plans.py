"""Plans of the hot commands at size: none may read a whole table of runs, keys, ends or events.

Asked of the planner, never measured. On tables so small that reading them whole is cheaper, a plan
says nothing: these hold fifty thousand rows of each kind.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import psycopg
import pytest

from onejob.commands.hot import hot
from onejob.stores.plans import plan
from onejob.stores.postgres import PostgresStore
from onejob.stores.sqlite import SqliteStore

ROWS = 50_000

#: Tables that grow with the work: what reads one of them whole gets slower with every run.
_GROWING = "run|history|ledger|event"

_NUMBERS = f"""WITH RECURSIVE numbers (n) AS (
  SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {ROWS})"""

#: Future ones, parked ones and a few that run; far in the future, so that none is due.
_FILL = (
    """INSERT INTO {t}run (id, job, key, kind, keyed, queue, priority, state, due, wanted, created,
                           replica, on_loss, args)
       {numbers} SELECT n, 'job', 'k' || n, 'run', 1, 'default', 0,
                        CASE WHEN n % 200 = 0 THEN 'running' WHEN n % 2 = 0 THEN 'parked'
                             ELSE 'scheduled' END,
                        4000000000000000 + n, 0, 0, CASE WHEN n % 200 = 0 THEN 'r' || n ELSE '' END,
                        'retry', '{{}}' FROM numbers""",
    """INSERT INTO {t}history (id, token, job, key, kind, keyed, queue, priority, due, wanted,
                               created, attempt, deaths, interrupted, replica, started, ended,
                               keep_until, outcome, on_loss, schedule, fire_time, args)
       {numbers} SELECT n + 100000, n, 'job', 'h' || n, 'run', 1, 'default', 0, n, n, n, 1, 0, 0,
                        'r', n, n, 4000000000000000 + n, 'succeeded', 'retry', '', 0, '{{}}'
                   FROM numbers""",
    """INSERT INTO {t}ledger (kind, scope, key, state, owner, run_id, claimed, kept_until)
       {numbers} SELECT CASE WHEN n % 2 = 0 THEN 'run' ELSE 'effect' END, 'job', 'k' || n, 'done',
                        '', n, n, CASE WHEN n % 2 = 0 THEN 0 ELSE 4000000000000000 + n END
                   FROM numbers""",
    """INSERT INTO {t}event (at, kind, job, key, run_id, detail)
       {numbers} SELECT n, 'attempt.failed', 'job', 'k' || n, n, '{{}}' FROM numbers""",
)


def fill(prefix: str) -> list[str]:
    return [text.format(t=prefix, numbers=_NUMBERS) for text in _FILL]


@pytest.fixture
def filled_postgres(postgres_store: PostgresStore, postgres_url: str) -> PostgresStore:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for text in fill(postgres_store.catalogue.prefix):
            connection.execute(text.encode())
        for table in _GROWING.split("|"):
            connection.execute(f"VACUUM ANALYZE {postgres_store.catalogue.prefix}{table}".encode())
    return postgres_store


@pytest.fixture
def filled_sqlite(sqlite_store: SqliteStore) -> SqliteStore:
    with closing(sqlite3.connect(sqlite_store.path)) as connection, connection:
        for text in fill(sqlite_store.catalogue.prefix):
            connection.execute(text)
        connection.execute("ANALYZE")
    return sqlite_store


def test_no_hot_command_reads_a_growing_table_whole_on_postgresql(
    filled_postgres: PostgresStore,
) -> None:
    whole = re.compile(rf"Seq Scan on ({_GROWING})\b")

    found = {
        name: [line.strip() for line in plan(filled_postgres, command) if whole.search(line)]
        for name, command in hot().items()
    }

    assert {name: lines for name, lines in found.items() if lines} == {}


#: By SQLite's names: r is the table of replicas there. Its history has no index by time, so that
#: its purge, once in some leases, reads it.
_WHOLE_ON_SQLITE = {
    "replica_look": {"SCAN r"},
    "schedule_tick": {"SCAN r"},
    "run_purge": {"SCAN onejob_history"},
}


def test_no_hot_command_reads_a_growing_table_whole_on_sqlite(filled_sqlite: SqliteStore) -> None:
    # "SCAN r" reads all of it; "SCAN r USING INDEX" walks an index, which here is a partial one.
    whole = re.compile(rf"SCAN (onejob_)?({_GROWING}|r|l|h|e)\b(?! USING)")

    found = {
        name: {line.strip() for line in plan(filled_sqlite, command) if whole.search(line)}
        for name, command in hot().items()
    }

    assert {name: lines for name, lines in found.items() if lines} == _WHOLE_ON_SQLITE


def test_a_plan_without_its_index_is_found_out(
    filled_postgres: PostgresStore, postgres_url: str
) -> None:
    prefix = filled_postgres.catalogue.prefix
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = f"{prefix}run_replica"
        row = connection.execute("SELECT pg_get_indexdef(%s::regclass)", (name,)).fetchone()
        assert row is not None
        connection.execute(f"DROP INDEX {name}".encode())
        try:
            lines = plan(filled_postgres, hot()["run_held"])
        finally:
            connection.execute(str(row[0]).encode())

    assert any("Seq Scan on run" in line for line in lines), lines
