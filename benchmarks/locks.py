"""Locks: taking a free one and giving it back, beside the two statements that this needs.

One process, nobody else. The bare statements are those that anybody would write by hand: UPDATE the
row where its time is over, UPDATE it where the token is ours, over a connection that is open.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psycopg

from benchmarks.field import Context
from benchmarks.places import Place
from benchmarks.rounds import Column, Entry, Figures, Skipped, Table
from onejob import App

COLUMNS = (
    Column("p50", "acquire and release: p50, us"),
    Column("p99", "p99, us"),
)
BARE = "two bare statements, PostgreSQL"
#: The first ones open connections and plan statements.
WARM = 20

Pair = Callable[[], None]


def table(context: Context) -> Table:
    """Measure pairs of acquire and release."""
    places, pairs = context.places, context.sizes.fenced

    def entry(label: str, make: Callable[[Place], Iterator[Pair]], *, postgres: bool) -> Entry:
        def measured() -> Figures:
            with places.postgres() if postgres else places.sqlite() as place:
                return _figures(make(place), pairs)

        return Entry(label, measured, ours=make is _ours)

    return Table(
        COLUMNS,
        [
            entry("app.lock, PostgreSQL", _ours, postgres=True),
            entry(BARE, _bare_postgres, postgres=True),
            entry("app.lock, SQLite", _ours, postgres=False),
            entry("two bare transactions, SQLite", _bare_sqlite, postgres=False),
        ]
        if places.server
        else [
            Skipped("PostgreSQL", "no server"),
            entry("app.lock, SQLite", _ours, postgres=False),
            entry("two bare transactions, SQLite", _bare_sqlite, postgres=False),
        ],
        against=BARE if places.server else "two bare transactions, SQLite",
    )


def _ours(place: Place) -> Iterator[Pair]:
    app = App(place.url, name="bench")
    app.store.init()  # type: ignore[attr-defined]

    def pair() -> None:
        with app.lock("one"):
            pass

    yield pair
    app.close()


def _bare_postgres(place: Place) -> Iterator[Pair]:
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE held (name text PRIMARY KEY, token bigint, until bigint)")
        connection.execute("CREATE SEQUENCE token")
        connection.execute("INSERT INTO held VALUES ('one', 0, 0)")

        def pair() -> None:
            row = connection.execute(
                "UPDATE held SET token = nextval('token'),"
                " until = extract(epoch FROM statement_timestamp()) * 1000000 + 30000000"
                " WHERE name = %s AND until <= extract(epoch FROM statement_timestamp()) * 1000000"
                " RETURNING token",
                ("one",),
            ).fetchone()
            assert row is not None, "nobody else is here"
            connection.execute("UPDATE held SET until = 0 WHERE name = %s AND token = %s",
                               ("one", row[0]))  # fmt: skip

        yield pair


def _bare_sqlite(place: Place) -> Iterator[Pair]:
    path = place.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            "CREATE TABLE held (name TEXT PRIMARY KEY, token INTEGER, until INTEGER)"
        )
        connection.execute("INSERT INTO held VALUES ('one', 0, 0)")

        def pair() -> None:
            now = time.time_ns() // 1_000
            with _writing(connection):
                [(token,)] = connection.execute(
                    "UPDATE held SET token = token + 1, until = ?"
                    " WHERE name = ? AND until <= ? RETURNING token",
                    (now + 30_000_000, "one", now),
                ).fetchall()
            with _writing(connection):
                connection.execute("UPDATE held SET until = 0 WHERE name = ? AND token = ?",
                                   ("one", token))  # fmt: skip

        yield pair


@contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("COMMIT")


def _figures(made: Iterator[Pair], pairs: int) -> Figures:
    pair = next(made)
    took = []
    for _ in range(WARM + pairs):
        began = time.perf_counter()
        pair()
        took.append((time.perf_counter() - began) * 1e6)
    for _ in made:
        pass
    ordered = sorted(took[WARM:])
    return {"p50": statistics.median(ordered), "p99": ordered[int(len(ordered) * 0.99)]}
