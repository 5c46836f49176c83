"""What became of fire times costs what is asked for, not what the ledger and the history hold."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg

from onejob.commands import ticks
from onejob.core.keys import fire_key
from onejob.core.time import MINUTE, Instant
from onejob.stores.postgres import PostgresStore
from onejob.stores.sqlite import SqliteStore
from onejob.testing.conformance.given import NOW

FIRES = [("mail", fire_key("nightly", Instant(NOW + n * MINUTE))) for n in range(50)]
MANY = 5_000


def test_postgresql_looks_each_fire_time_up_by_its_key(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    """A join read 200,000 entries for five fire times."""
    [statement] = postgres_store.statements(ticks.made(FIRES), "pyformat")
    ledger = f"{postgres_store.catalogue.prefix}ledger"

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO {ledger} (kind, scope, key, state, owner, run_id, claimed) "
            f"SELECT 'schedule', 'mail', 'k' || n, 'claimed', 'a', n, 0 "
            f"FROM generate_series(1, {MANY}) AS n".encode()
        )
        connection.execute(f"ANALYZE {ledger}".encode())
        rows = connection.execute(
            b"EXPLAIN " + statement.text.encode(), statement.parameters
        ).fetchall()

    plan = [str(row[0]).strip() for row in rows]
    assert any("using ledger_pkey" in line for line in plan), plan
    assert not [line for line in plan if "Seq Scan on ledger" in line], plan
    assert any("using history_pkey" in line for line in plan), plan
    assert not [line for line in plan if "Seq Scan on history" in line], plan


def test_sqlite_looks_each_fire_time_up_by_its_key(sqlite_store: SqliteStore) -> None:
    [statement] = sqlite_store.statements(ticks.made(FIRES), "named")

    with closing(sqlite3.connect(sqlite_store.path)) as connection:
        rows = connection.execute(
            "EXPLAIN QUERY PLAN " + statement.text, statement.parameters
        ).fetchall()

    plan = [row[3] for row in rows]
    scanned = {line.split()[1] for line in plan if line.startswith("SCAN")}
    assert scanned == {"fire", "asked", "e"}, plan
    assert [line for line in plan if line.startswith("SEARCH l USING PRIMARY KEY")], plan
