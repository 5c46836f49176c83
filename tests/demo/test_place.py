"""Where the demo keeps its tables: never in anybody's way, and gone afterwards."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from onejob.demo.place import Place
from onejob.errors import StoreUnavailable, UsageError


def test_a_writer_that_stands_still_is_noticed(tmp_path: Path) -> None:
    """On SQLite a process frozen inside a write stops every other: it is frozen again elsewhere."""
    place = Place.at(f"sqlite:///{tmp_path / 'demo.db'}", "demo_1")
    place.write("CREATE TABLE {table} (name TEXT)")

    with closing(sqlite3.connect(place.target, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        while_writing = place.writable()
        writer.execute("ROLLBACK")

    assert not while_writing
    assert place.writable()


def test_dropping_leaves_what_belongs_to_others(tmp_path: Path) -> None:
    theirs = Place.at(f"sqlite:///{tmp_path / 'demo.db'}", "demo_1")
    ours = Place.at(f"sqlite:///{tmp_path / 'demo.db'}", "demo_2")
    for place in (theirs, ours):
        store = place.store()
        store.init()
        store.close()
    ours.write("CREATE TABLE {table} (name TEXT)")

    ours.drop()

    with closing(sqlite3.connect(tmp_path / "demo.db")) as connection:
        left = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert left
    assert all(name.startswith(("demo_1_", "sqlite_")) for (name,) in left)


def test_on_postgresql_the_schema_comes_and_goes(postgres_url: str, schema: str) -> None:
    place = Place.at(postgres_url, schema)

    place.prepare()
    place.write("CREATE TABLE {table} (name TEXT)")
    changed = place.write("INSERT INTO {table} VALUES (?)", "nightly")
    rows = place.fetch("SELECT name FROM {table}")
    place.drop()

    assert (changed, [tuple(row) for row in rows]) == (1, [("nightly",)])
    assert place.writable()
    place.prepare()  # refused if anything were left


def test_a_place_that_is_none_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(UsageError):
        Place.at("memory://", "demo_1")
    with pytest.raises(StoreUnavailable):
        Place.at("postgresql://nobody@127.0.0.1:1/none", "demo_1").check()


@pytest.mark.parametrize("url", ["redis://127.0.0.1:6379/0", "mariadb://root@127.0.0.1:3306/test"])
def test_a_store_that_keeps_no_runs_is_refused_by_name(url: str) -> None:
    with pytest.raises(UsageError, match=r"sqlite:///FILE or postgresql://"):
        Place.at(url, "demo_x")
