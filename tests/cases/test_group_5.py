"""Group 5: keys, unique constraints, and what happens beside them in your own transaction."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import onejob
from cases.conftest import Place
from onejob import UsageError


@contextmanager
def connected(place: Place) -> Iterator[Any]:
    """Open a connection of the user's own, a transaction begun on it."""
    if place.url.startswith("sqlite"):
        connection: Any = sqlite3.connect(place.url.removeprefix("sqlite:///"))
        connection.isolation_level = None
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection = psycopg.connect(place.url)
    try:
        yield connection
    finally:
        connection.close()


@pytest.fixture
def table(place: Place) -> Iterator[str]:
    """A table of the user's own with a unique column."""
    name = f"mail_{place.schema}"
    with connected(place) as connection:
        connection.execute(f"CREATE TABLE {name} (address text UNIQUE)")
        connection.execute(f"INSERT INTO {name} VALUES ('ann@example.org')")
        connection.execute("COMMIT")
    yield name
    with connected(place) as connection:
        connection.execute(f"DROP TABLE {name}")
        connection.execute("COMMIT")


def test_another_constraints_violation_is_not_taken_for_a_duplicate(
    place: Place, table: str
) -> None:
    """E01, E08: the driver's error comes as it is, and the key goes back with the transaction."""
    app, seen = place.app(), []
    for _ in range(2):
        with connected(place) as connection:
            seen.append(app.first("signup", "order 7", within=connection))
            with pytest.raises((sqlite3.IntegrityError, psycopg.errors.UniqueViolation)):
                connection.execute(f"INSERT INTO {table} VALUES ('ann@example.org')")
            connection.execute("ROLLBACK")

    assert seen == [True, True]


CONFLICT = re.compile(r"ON CONFLICT\s*(\S+)", re.IGNORECASE)


def test_every_upsert_names_the_key_that_it_means() -> None:
    """E07: without a target, a conflict on any other key would change the wrong row in silence."""
    package = Path(str(onejob.__file__)).parent
    targets = {
        f"{file.name}: {target}": target
        for file in sorted(package.rglob("*.sql"))
        for target in CONFLICT.findall(re.sub(r"--[^\n]*", "", file.read_text(encoding="utf-8")))
    }

    assert targets
    assert [place for place, target in targets.items() if not target.startswith("(")] == []


class Counted(psycopg.Connection[Any]):
    """A connection that counts how often it has sent something and waited for the answer."""

    waits = 0

    def wait(self, *args: Any, **options: Any) -> Any:
        self.waits += 1
        return super().wait(*args, **options)


def test_a_first_time_costs_one_statement_on_postgresql(postgres_place: Place) -> None:
    """E10: no savepoint around it, known or not."""
    app = postgres_place.app()

    with Counted.connect(postgres_place.url) as connection:
        connection.execute("SELECT 1")
        before = connection.waits
        answers = [app.first("digest", "7", within=connection) for _ in range(2)]
        after = connection.waits

    assert answers == [True, False]
    assert after - before == 2


def test_a_first_time_costs_one_statement_on_sqlite(sqlite_place: Place) -> None:
    """E10"""
    app, sent = sqlite_place.app(), []

    with connected(sqlite_place) as connection:
        connection.set_trace_callback(sent.append)
        answers = [app.first("digest", "7", within=connection) for _ in range(2)]

    assert answers == [True, False]
    assert len(sent) == 2


def test_an_effect_costs_two_commands(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """E10: claimed and recorded; a repeat claims in vain and reads."""
    app, sent = place.app(), []
    run: Callable[..., Any] = app.store.run

    def counted(command: Any, within: Any = None) -> Any:
        sent.append(command.name)
        return run(command, within)

    monkeypatch.setattr(app.store, "run", counted)

    for _ in range(2):
        assert app.effect("invoice", "7", lambda: "receipt") == "receipt"

    assert sent == ["effect_claim", "effect_record", "effect_claim", "effect_read"]


def test_no_unique_key_of_ours_has_a_nullable_column(place: Place) -> None:
    """E20: NULLs are never equal, so a key with one in it keeps nobody out."""
    with connected(place) as connection:
        if isinstance(connection, sqlite3.Connection):
            columns = _sqlite_key_columns(connection)
        else:
            text = (
                "SELECT c.relname, a.attname, a.attnotnull FROM pg_index i"
                " JOIN pg_class c ON c.oid = i.indrelid"
                " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)"
                " WHERE i.indisunique AND c.relnamespace = %s::regnamespace"
            )
            columns = connection.execute(text, (place.schema,)).fetchall()

    assert len(columns) > 8
    assert [(table, column) for table, column, required in columns if not required] == []


def _sqlite_key_columns(connection: sqlite3.Connection) -> list[tuple[str, str, bool]]:
    found = []
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        info = connection.execute(f"PRAGMA table_info({table})").fetchall()
        required = {row[1]: bool(row[3]) or (row[2] == "INTEGER" and row[5] == 1) for row in info}
        for index in connection.execute(f"PRAGMA index_list({table})").fetchall():
            if index[2]:
                names = connection.execute(f"PRAGMA index_info({index[1]})").fetchall()
                found += [(table, name, required[name]) for _, _, name in names]
        found += [(table, row[1], required[row[1]]) for row in info if row[5]]
    return found


@pytest.mark.parametrize(("scope", "key"), [(None, "7"), ("digest", None), ("digest", "")])
def test_a_key_with_a_missing_part_is_refused_before_any_statement(scope: Any, key: Any) -> None:
    """E20, E14: the store's host does not even exist."""
    app = onejob.App("sqlite:////nowhere/at/all.db")

    with pytest.raises(UsageError):
        app.first(scope, key, within=None)
    with pytest.raises(UsageError):
        app.effect(scope, key, lambda: None)


DYING = """
import os, signal, sqlite3, sys
sys.path.insert(0, sys.argv[1])
from cases.test_group_5 import handle
steps = 0
def step():
    global steps
    if steps == int(sys.argv[6]):
        os.kill(os.getpid(), signal.SIGKILL)
    steps += 1
handle(*sys.argv[2:6], step)
"""


def handle(url: str, schema: str, table: str, order: str, step: Callable[[], None]) -> None:
    """Handle a message as a consumer does: remember it, note the order, ask for a receipt."""
    place = Place(url, schema, [])
    app = place.app()

    @app.job()
    def receipt() -> None: ...

    with connected(place) as connection:
        if app.first("orders", order, within=connection):
            step()
            connection.execute(f"INSERT INTO {table} VALUES ('{order}')")
            step()
            receipt.using(key=order, within=connection).enqueue()
            step()
        connection.execute("COMMIT")
        step()
    app.close()


def test_killed_at_any_step_a_message_is_neither_lost_nor_doubled(place: Place, table: str) -> None:
    """E24, E26: mark, effect and run are in one transaction; the sender sends until it hears."""
    tests = str(Path(__file__).parents[1])
    for kill_at in range(4):
        order = (place.url, place.schema, table, f"order {kill_at}")
        command = [sys.executable, "-c", DYING, tests, *order, str(kill_at)]
        assert subprocess.run(command, check=False).returncode == -9

        handle(*order, lambda: None)

    with connected(place) as connection:
        rows = connection.execute(f"SELECT address FROM {table} ORDER BY address").fetchall()
    orders = [f"order {n}" for n in range(4)]
    assert [row[0] for row in rows] == ["ann@example.org", *orders]
    assert sorted(run.key for run in place.app().runs.find(job="receipt")) == orders
