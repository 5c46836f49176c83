"""The table of what has landed, in the order in which it has, and who judges it.

Each recipe has a document, a row. Whoever writes raises the document's version and notes who it was
under that version, in one transaction: the row's own lock puts writes in an order, whatever any
process says. A new holder marks the document, without asking anybody, before it does anything else.
A write below a mark, or below another write, that carries a lower token is stale.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

TABLES = (
    "CREATE TABLE {document} (recipe VARCHAR(20) PRIMARY KEY, version BIGINT NOT NULL,"
    " token_seen BIGINT NOT NULL)",
    "CREATE TABLE {effect} (recipe VARCHAR(20) NOT NULL, version BIGINT NOT NULL,"
    " kind VARCHAR(8) NOT NULL, token BIGINT NOT NULL, who VARCHAR(40) NOT NULL,"
    " PRIMARY KEY (recipe, version))",
)
RECIPES = ("transaction", "lease_fence", "app_fence", "token_seen", "bare")

BUMP = "UPDATE {document} SET version = version + 1 WHERE recipe = ?"
GUARDED = (
    "UPDATE {document} SET version = version + 1, token_seen = ? "
    "WHERE recipe = ? AND token_seen <= ?"
)
SEEN = "UPDATE {document} SET token_seen = ? WHERE recipe = ? AND token_seen < ?"
NOTE = (
    "INSERT INTO {effect} SELECT recipe, version, ?, CAST(? AS {integer}), ? "
    "FROM {document} WHERE recipe = ?"
)


@dataclass(frozen=True, slots=True)
class Landed:
    """One line of the table."""

    recipe: str
    kind: str
    token: int
    who: str


@dataclass(frozen=True, slots=True)
class Data:
    """The user's own tables, in a database that may be the store's."""

    url: str
    prefix: str

    def connect(self) -> Any:
        """Open a connection as the docs do: a transaction begins with the first statement."""
        if self.url.startswith("sqlite"):
            return sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=20)
        if self.url.startswith("postgres"):
            import psycopg

            return psycopg.connect(self.url)
        return self._mysql()

    def _mysql(self) -> Any:
        from urllib.parse import urlsplit

        import pymysql

        at = urlsplit(self.url)
        return pymysql.connect(
            host=at.hostname or "127.0.0.1",
            port=at.port or 3306,
            user=at.username or "root",
            password=at.password or "",
            database=at.path.strip("/"),
        )

    def execute(self, connection: Any, text: str, *values: object) -> Any:
        """Send one statement; returns the cursor."""
        named = text.format(
            document=f"{self.prefix}document",
            effect=f"{self.prefix}effect",
            integer="SIGNED" if "mysql" in self.url or "mariadb" in self.url else "BIGINT",
        )
        cursor = connection.cursor()
        cursor.execute(named if self.url.startswith("sqlite") else named.replace("?", "%s"), values)
        return cursor

    def lay_out(self) -> None:
        """Make the tables, with a document for each recipe."""
        with closing(self.connect()) as connection:
            for table in TABLES:
                self.execute(connection, table)
            for recipe in RECIPES:
                self.execute(connection, "INSERT INTO {document} VALUES (?, 0, 0)", recipe)
            connection.commit()

    def note(self, connection: Any, recipe: str, token: int, who: str, kind: str = "write") -> None:
        """Write to a document, in the transaction of whoever may."""
        self.execute(connection, BUMP, recipe)
        self.execute(connection, NOTE, kind, token, who, recipe)

    def note_guarded(self, connection: Any, token: int, who: str) -> bool:
        """Write to the document that compares tokens by itself; False where it refuses."""
        guarded = self.execute(connection, GUARDED, token, "token_seen", token)
        if guarded.rowcount != 1:
            return False
        self.execute(connection, NOTE, "write", token, who, "token_seen")
        return True

    def landed(self) -> list[Landed]:
        """Read the table, each recipe in its own order."""
        with closing(self.connect()) as connection:
            rows = self.execute(
                connection, "SELECT recipe, kind, token, who FROM {effect} ORDER BY recipe, version"
            ).fetchall()
        return [Landed(*row) for row in rows]


def stale(landed: Iterable[Landed]) -> list[Landed]:
    """Return the writes that came after a higher token had been there."""
    highest: dict[str, int] = {}
    found = []
    for line in landed:
        before = highest.get(line.recipe, 0)
        if line.kind == "write" and line.token < before:
            found.append(line)
        highest[line.recipe] = max(before, line.token)
    return found
