"""Every store against the memory model: random programs, each answer compared.

To see one program again: ``compare(seed, ...)`` with the seed that the failure names.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import psycopg
import pytest

from onejob.commands.command import Command, as_json
from onejob.stores.memory import MemoryStore
from onejob.stores.memory.tables import Tables
from onejob.stores.postgres import PostgresStore
from onejob.stores.sqlite import SqliteStore
from onejob.testing.conformance.claim_programs import ClaimProgram
from onejob.testing.conformance.given import NOW, Run
from onejob.testing.conformance.programs import Program
from onejob.testing.conformance.worlds import World

T = TypeVar("T")

PROGRAMS, COMMANDS = 25, 60
BATCHES = range(8)
TABLES = ("run", "cancel", "history", "ledger", "schedule", "event", "replica")


@pytest.mark.parametrize("batch", BATCHES)
def test_sqlite_answers_as_the_model_does(batch: int, sqlite_store: SqliteStore) -> None:
    def empty() -> None:
        connection = sqlite3.connect(sqlite_store.path)
        with connection:
            for table in TABLES:
                connection.execute(f"DELETE FROM onejob_{table}")
        connection.close()

    compare_batch(batch, sqlite_store.run, empty)
    compare_batch(batch, sqlite_store.run, empty, of=ClaimProgram)


@pytest.mark.parametrize("batch", BATCHES)
def test_postgresql_answers_as_the_model_does(
    batch: int, postgres_store: PostgresStore, postgres_url: str
) -> None:
    def empty() -> None:
        with psycopg.connect(postgres_url) as connection:
            for table in TABLES:
                connection.execute(f"DELETE FROM {postgres_store.catalogue.prefix}{table}")

    compare_batch(batch, postgres_store.run, empty)
    compare_batch(batch, postgres_store.run, empty, of=ClaimProgram)


def test_the_comparison_notices_a_store_that_forgets_the_token_in_its_guard() -> None:
    """A checker that never failed is unproven: this mutant must not get through."""
    mutant = MemoryStore(lambda: NOW)

    def without_the_token(command: Command[T]) -> T:
        if command.name != "run_settle":
            return mutant.run(command)
        batch = json.loads(str(command.parameters["batch"]))
        for one in batch:
            run = mutant.tables.runs.get(one["id"])
            one["token"] = run.token if run else one["token"]
        return mutant.run(
            replace(command, parameters={**command.parameters, "batch": as_json(batch)})
        )

    def empty() -> None:
        mutant.tables = Tables()

    with pytest.raises(AssertionError, match="seed"):
        compare_batch(0, without_the_token, empty)


def test_the_comparison_notices_a_store_that_lets_the_overtaken_end_a_claim() -> None:
    mutant = MemoryStore(lambda: NOW)

    def without_the_token(command: Command[T]) -> T:
        given = dict(command.parameters)
        row = mutant.tables.ledger.get((given.get("kind"), given.get("scope"), given.get("key")))  # type: ignore[arg-type]
        if command.name == "claim_end" and row is not None:
            given |= {"token": row.token, "owner": row.owner}
        return mutant.run(replace(command, parameters=given))

    def empty() -> None:
        mutant.tables = Tables()

    with pytest.raises(AssertionError, match="seed"):
        compare_batch(0, without_the_token, empty, of=ClaimProgram)


def compare_batch(
    batch: int, run: Run, empty: Callable[[], None], of: type[Program | ClaimProgram] = Program
) -> None:
    for seed in range(batch * PROGRAMS, (batch + 1) * PROGRAMS):
        empty()
        compare(seed, run, of(seed))


def compare(seed: int, run: Run, program: Program | ClaimProgram) -> None:
    model, other = World(MemoryStore(lambda: NOW).run), World(run)
    asked: list[str] = []
    for ask in [program.next() for _ in range(COMMANDS)] + program.everything():
        command = ask(model)
        asked.append(f"{command.name} {dict(command.parameters)}")
        wanted, got = model.ask(command), other.ask(ask(other))
        assert got == wanted, f"seed {seed}, command {len(asked)}:\n" + "\n".join(asked[-12:])
