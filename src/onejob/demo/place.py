"""Where an act keeps its tables: a schema of its own in the given store, dropped at the end."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onejob.errors import UsageError
from onejob.stores.sqlite import SqliteStore
from onejob.url import parse

if TYPE_CHECKING:
    from onejob.stores.postgres import PostgresStore

    AnyStore = SqliteStore | PostgresStore

#: How long a home-made lock waits for SQLite's other writers.
PATIENCE_SECONDS = 10.0

#: How long the probe for "can the others still write" waits.
PROBE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Place:
    """A schema in a store, for statements that are written by hand: ``?`` is a parameter.

    Each call opens a connection of its own, so it may be used from any thread and process.
    ``{table}`` stands for the one table that the home-made lock needs.
    """

    dialect: str
    target: str
    schema: str

    @classmethod
    def at(cls, url: str, schema: str) -> Place:
        """Name a place by the URL of its store."""
        found = parse(url)
        if found.dialect == "memory":
            raise UsageError(
                "memory:// belongs to one process, and the demo has several. Use sqlite:///FILE or "
                "postgresql://."
            )
        if found.dialect not in ("sqlite", "postgresql"):
            raise UsageError(
                f"the demo's runs need a store that keeps runs, and {found.dialect} keeps locks in "
                "this version. Use sqlite:///FILE or postgresql://; for locks: onejob demo pause."
            )
        return cls(found.dialect, found.target, schema)

    def write(self, statement: str, *values: object) -> int:
        """Carry a write out by itself; return how many rows it changed."""
        if self.dialect == "sqlite":
            with closing(self._sqlite(PATIENCE_SECONDS)) as connection:
                return connection.execute(self.text(statement), values).rowcount
        with self._postgres() as connection:
            return int(connection.execute(self.text(statement), values).rowcount)

    def fetch(self, statement: str, *values: object) -> Sequence[Any]:
        """Return the rows of a query."""
        if self.dialect == "sqlite":
            with closing(self._sqlite(PATIENCE_SECONDS)) as connection:
                return connection.execute(self.text(statement), values).fetchall()
        with self._postgres() as connection:
            rows: Sequence[Any] = connection.execute(self.text(statement), values).fetchall()
            return rows

    def writable(self) -> bool:
        """Tell whether anybody can write: on SQLite a process frozen in a write stops all."""
        if self.dialect != "sqlite":
            return True
        with closing(self._sqlite(PROBE_SECONDS)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
            except sqlite3.OperationalError:
                return False
        return True

    def store(self) -> AnyStore:
        """Open the store that onejob itself uses here."""
        if self.dialect == "sqlite":
            return SqliteStore(self.target, schema=self.schema)
        # Only here: a demo on SQLite needs no driver.
        from onejob.stores.postgres import PostgresStore

        return PostgresStore(self.target, schema=self.schema)

    def check(self) -> None:
        """Raise StoreUnavailable unless the store answers."""
        store = self.store()
        try:
            store.version()
        finally:
            store.close()

    def prepare(self) -> None:
        """Make the schema where there is such a thing; on SQLite it is a prefix of table names."""
        if self.dialect == "postgresql":
            with self._postgres() as connection:
                connection.execute(f'CREATE SCHEMA "{self.schema}"')

    def drop(self) -> None:
        """Remove everything that the act made here."""
        if self.dialect == "sqlite":
            with closing(self._sqlite(PATIENCE_SECONDS)) as connection:
                for kind, name in connection.execute(_MADE, (f"{self.schema}_",)).fetchall():
                    connection.execute(f'DROP {kind} "{name}"')
            return
        with self._postgres() as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{self.schema}" CASCADE')

    def text(self, statement: str) -> str:
        """Return a statement as this store's driver takes it."""
        if self.dialect == "sqlite":
            return statement.replace("{table}", f'"{self.schema}_homemade"')
        return statement.replace("{table}", f'"{self.schema}"."homemade"').replace("?", "%s")

    def _sqlite(self, patience: float) -> sqlite3.Connection:
        return sqlite3.connect(self.target, timeout=patience, isolation_level=None)

    def _postgres(self) -> Any:
        import psycopg

        return psycopg.connect(self.target, autocommit=True, connect_timeout=5)


# Views first: they stand on the tables.
_MADE = """
SELECT type, name FROM sqlite_master
 WHERE type IN ('table', 'view') AND substr(name, 1, length(?1)) = ?1
 ORDER BY type DESC
"""
