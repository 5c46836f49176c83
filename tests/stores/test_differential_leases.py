"""Every store against the memory model, about named locks: random programs, each answer compared.

To see one program again: ``compare(seed, ...)`` with the seed that the failure names.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

import psycopg
import pytest

from onejob.commands.command import Command
from onejob.stores.memory import MemoryStore
from onejob.stores.memory.tables import Tables
from onejob.stores.postgres import PostgresStore
from onejob.stores.sqlite import SqliteStore
from onejob.testing.conformance.given import NOW, Run
from onejob.testing.conformance.lease_programs import LeaseProgram, LeaseWorld

T = TypeVar("T")

PROGRAMS, COMMANDS = 12, 60
BATCHES = range(2)
TABLES = ("lease", "waiter", "fence", "event")


@pytest.mark.parametrize("batch", BATCHES)
def test_sqlite_answers_about_locks_as_the_model_does(
    batch: int, sqlite_store: SqliteStore
) -> None:
    def empty() -> None:
        with closing(sqlite3.connect(sqlite_store.path)) as connection, connection:
            for table in TABLES:
                connection.execute(f"DELETE FROM onejob_{table}")

    compare_batch(batch, sqlite_store.run, empty)


@pytest.mark.parametrize("batch", BATCHES)
def test_postgresql_answers_about_locks_as_the_model_does(
    batch: int, postgres_store: PostgresStore, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def empty() -> None:
            for table in TABLES:
                connection.execute(f"DELETE FROM {postgres_store.catalogue.prefix}{table}")

        compare_batch(batch, postgres_store.run, empty)


def test_the_comparison_notices_a_store_that_renews_whoever_asks() -> None:
    """A checker that never failed is unproven: this mutant must not get through."""
    mutant = MemoryStore(lambda: NOW)

    def whoever_asks(command: Command[T]) -> T:
        if command.name == "lease_renew":
            for lease in mutant.tables.leases.values():
                lease.expires = max(lease.expires, int(command.parameters["now"] or 0) + 1)
        return mutant.run(command)

    def empty() -> None:
        mutant.tables = Tables()

    with pytest.raises(AssertionError, match="seed"):
        compare_batch(0, whoever_asks, empty)


def compare_batch(batch: int, run: Run, empty: Callable[[], None]) -> None:
    for seed in range(batch * PROGRAMS, (batch + 1) * PROGRAMS):
        compare(seed, run, empty)


def compare(seed: int, run: Run, empty: Callable[[], None]) -> None:
    empty()
    program = LeaseProgram(seed)
    model, other = LeaseWorld(MemoryStore(lambda: NOW).run), LeaseWorld(run)
    asked: list[str] = []
    for ask in [program.next() for _ in range(COMMANDS)] + program.everything():
        command = ask(model)
        asked.append(f"{command.name} {dict(command.parameters)}")
        wanted, got = model.ask(command), other.ask(ask(other))
        assert got == wanted, f"seed {seed}, command {len(asked)}:\n" + "\n".join(asked[-12:])
