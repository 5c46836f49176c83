"""A session that holds an old snapshot is named, on a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psycopg

from onejob.cli import checks
from onejob.commands import health
from onejob.commands.health import OpenTransaction
from onejob.core.time import SECOND
from onejob.stores.postgres import PostgresStore
from onejob.stores.sqlite import SqliteStore


def test_the_oldest_transaction_is_named_with_its_pid(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    """F01"""
    with psycopg.connect(postgres_url, application_name="report") as session:
        session.execute("SELECT 1")

        oldest = postgres_store.run(health.oldest_transaction())

        assert oldest is not None
        assert oldest.age >= 0
        [row] = session.execute(
            "SELECT application_name FROM pg_stat_activity WHERE pid = %s", (oldest.pid,)
        ).fetchall()
        assert row == (oldest.application,)


def test_a_transaction_open_for_hours_fails_the_check_with_the_way_to_end_it() -> None:
    """F01"""
    check = checks.transactions(OpenTransaction(71, 7_200 * SECOND, "idle in transaction", "psql"))

    assert not check.ok
    assert "psql (pid 71, idle in transaction) has had one open for 2h" in check.detail
    assert "pg_terminate_backend(71)" in check.detail
    assert checks.transactions(None).ok
    assert checks.transactions(OpenTransaction(71, SECOND, "active", "psql")).ok


def test_commits_that_do_not_last_fail_the_check() -> None:
    assert checks.durability({"fsync": "on", "synchronous_commit": "on"}).ok
    assert not checks.durability({"fsync": "off", "synchronous_commit": "on"}).ok
    assert not checks.durability({"synchronous_commit": "off"}).ok
    assert not checks.durability({"journal_mode": "wal", "synchronous": "0"}).ok


def test_sqlite_tells_by_which_rules_it_commits(sqlite_store: SqliteStore) -> None:
    assert sqlite_store.run(health.settings())["journal_mode"] == "wal"


def test_whether_a_pooler_stands_in_between_is_said() -> None:
    """C14"""
    assert "polled" in checks.pooler(True).detail
    assert checks.pooler(False).ok


def test_the_doctor_makes_these_checks_on_a_real_server(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    schema = postgres_store.catalogue.schema
    command = Path(sys.executable).with_name("onejob")
    arguments = ("doctor", "--url", postgres_url, "--schema", schema, "--json")

    done = subprocess.run([str(command), *arguments], capture_output=True, text=True, check=False)

    names = {check["name"] for check in json.loads(done.stdout)["checks"]}
    assert names >= {"transactions", "durability", "pooler", "periods"}


def test_a_unique_key_that_was_dropped_fails_the_check(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    """E21"""
    schema = postgres_store.catalogue.schema
    assert checks.keys(postgres_store.run(health.keys()), health.KEYS).ok

    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f'ALTER TABLE "{schema}".ledger DROP CONSTRAINT ledger_pkey'.encode())
    check = checks.keys(postgres_store.run(health.keys()), health.KEYS)

    assert not check.ok
    assert "ledger (kind, scope, key)" in check.detail
    assert "onejob check-unique" in check.detail


def test_a_unique_index_that_is_invalid_or_partial_fails_the_check(
    postgres_store: PostgresStore, postgres_url: str
) -> None:
    """E21: as a failed CREATE INDEX CONCURRENTLY leaves it, or as somebody made it anew."""
    schema = postgres_store.catalogue.schema
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = "
            f"'\"{schema}\".lease_pkey'::regclass".encode()
        )
        owner.execute(f'ALTER TABLE "{schema}".fence DROP CONSTRAINT fence_pkey'.encode())
        owner.execute(
            f'CREATE UNIQUE INDEX ON "{schema}".fence (scope, resource) WHERE token > 0'.encode()
        )
    check = checks.keys(postgres_store.run(health.keys()), health.KEYS)

    assert not check.ok
    assert "fence (scope, resource), lease (scope, name)" in check.detail
