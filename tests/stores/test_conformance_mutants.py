"""The suite's own proof: stores with one guard missing, each of which it must catch.

A checker that never failed is unproven. Each mutant is SQLite's text with one condition taken out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import product
from typing import ClassVar, TypeVar

import pytest

from onejob.commands.command import Command
from onejob.stores.protocol import Statement, Style
from onejob.stores.sqlite import SqliteStore
from onejob.testing import conformance
from onejob.testing.conformance.given import Run

T = TypeVar("T")
Case = Callable[[Run], None]

MUTANTS = [
    ("run_claim", "AND EXISTS (SELECT 1 FROM onejob_replica WHERE id = :replica AND dead_at = 0)"),
    ("run_claim", "AND r.due <= :now"),
    ("run_claim", "AND r.job IN (SELECT value FROM json_each(:jobs))"),
    ("run_settle", "AND r.token = json_extract(b.value, '$.token')"),
    ("run_settle", "AND r.replica = json_extract(b.value, '$.replica')"),
    ("run_settle", "AND r.state = 'running'"),
    ("run_fence", "AND token = :token"),
    ("run_progress", "AND replica = :replica"),
    ("replica_renew", "AND dead_at = 0"),
    ("replica_judge", "AND lease_until < :now"),
    ("ledger_first_in_run", "AND token = :token"),
    ("effect_claim_in_run", "AND token = :token"),
    ("effect_reclaim", "AND token = :held"),
    ("effect_record", "AND token = :token"),
    ("effect_release", "AND token = :token"),
    ("effect_claim_many_in_run", "AND r.token = :token"),
    ("effect_record_many", "AND l.token = given.value ->> 'token'"),
    (
        "effect_release_many",
        "AND (key, token) IN (SELECT value ->> 'key', value ->> 'token' FROM json_each(:entries))",
    ),
    ("ledger_purge", "AND kept_until < :now"),
    (
        "ledger_purge",
        "AND (state IN ('done', 'failed', 'free')\n"
        "                                      OR claim_until BETWEEN 1 AND :now)",
    ),
    ("claim_take", "l.run_id = 0\n                  AND "),
    ("claim_take", " AND l.claim_until BETWEEN 1 AND :now"),
    ("claim_take", " AND :even_if_unsure = 1"),
    ("claim_mark", "AND token = CAST(:token AS bigint)"),
    ("claim_mark", "AND owner = :owner"),
    ("claim_end", "AND token = CAST(:token AS bigint)"),
    ("claim_end", "AND owner = :owner"),
    ("claim_end", "AND state IN ('claimed', 'firing', CAST(:state AS text))"),
    ("claim_release", "AND token = :token"),
    ("claim_release", "AND state IN ('claimed', 'firing', 'free')"),
    ("claim_renew", "AND l.token = json_extract(given.value, '$.token')"),
    ("claim_renew", "AND l.owner = json_extract(given.value, '$.owner')"),
    ("claim_renew", "AND l.state IN ('claimed', 'firing')"),
    ("run_purge", "AND NOT EXISTS (SELECT 1 FROM onejob_run WHERE id = old.id)"),
    ("schedule_tick", "AND s.revision = json_extract(b.value, '$.revision')"),
    ("schedule_define", "WHERE s.revision = :revision"),
]

#: What a test may leave behind: all but the numbers that are drawn, and the schema's version.
EVERY_TABLE = """
SELECT name FROM sqlite_master
 WHERE type = 'table' AND name NOT IN ('onejob_counter', 'onejob_migration')
"""


class Mutant(SqliteStore):
    """A store that has lost one condition of one command."""

    mutated, lost = "", ""
    asked: ClassVar[set[str]] = set()

    def statements(self, command: Command[T], style: Style) -> Sequence[Statement]:
        statements = super().statements(command, style)
        self.asked.add(command.name)
        if command.name != self.mutated:
            return statements
        assert any(self.lost in statement.text for statement in statements)
        return [replace(one, text=one.text.replace(self.lost, "")) for one in statements]


@pytest.mark.parametrize(("command", "lost"), MUTANTS)
def test_the_suite_catches_a_store_that_has_lost_a_guard(
    command: str, lost: str, mutant: Mutant, askers: dict[str, list[Case]]
) -> None:
    mutant.mutated, mutant.lost = command, lost

    assert any(fails(case, mutant) for case in askers[command])


@pytest.fixture(scope="module")
def mutant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mutant]:
    store = Mutant(tmp_path_factory.mktemp("mutant") / "onejob.db")
    store.init()
    yield store
    store.close()


@pytest.fixture(scope="module")
def askers(mutant: Mutant) -> dict[str, list[Case]]:
    """Find which tests ask for which command; all of them pass before anything is lost."""
    found: dict[str, list[Case]] = {}
    for case in cases():
        mutant.asked.clear()
        assert not fails(case, mutant)
        for command in mutant.asked:
            found.setdefault(command, []).append(case)
    return found


def cases() -> Iterator[Case]:
    """Give every test that needs only ``run``, once for each of its parameters."""
    values = {"outcome", "way_out", "why", "live", "end", "act", "command", "miss"}
    for test in conformance.tests("run", *values).values():
        marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        for chosen in product(*(list(mark.args[1]) for mark in marks)):
            given = dict(zip((mark.args[0] for mark in marks), chosen, strict=True))
            yield partial(test, **given)


def fails(case: Case, store: SqliteStore) -> bool:
    with closing(sqlite3.connect(store.path)) as connection, connection:
        for (table,) in connection.execute(EVERY_TABLE).fetchall():
            connection.execute(f"DELETE FROM {table}")
    try:
        case(store.run)
    except (AssertionError, ValueError, IndexError, KeyError, sqlite3.IntegrityError):
        return True
    return False
