"""What each database says of a table, and how many duplicates stand in it; read-only, bounded."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from onejob.cli.failure import UNKNOWN, Failure
from onejob.core.time import SECOND, Span
from onejob.core.unique_key import Column, Index, Table, quote
from onejob.errors import StoreUnavailable, UsageError

#: Duplicate keys that are shown.
SAMPLED_MAX: Final = 10
#: What a row is counted as; no column of somebody's is called so.
_ROWS: Final = "onejob_rows"
#: How the names of types begin that hold text.
_TEXTS: Final = ("text", "varchar", "char", "clob", "citext", "bpchar", "name")


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Keys that come more than once. ``sample`` has for each how often, and its values."""

    keys: int = 0
    surplus: int = 0
    with_null: int = 0
    sample: tuple[tuple[int, tuple[Any, ...]], ...] = ()


class Reader(Protocol):
    """A connection that only reads."""

    def table(self, name: str) -> Table:
        """Return the table; UsageError where there is none of this name."""
        ...

    def duplicates(self, table: Table, by: Sequence[Column]) -> Duplicates:
        """Count, and sample, what comes more than once. NULLs count as equal here."""
        ...


@contextmanager
def reader(store: Any, timeout: Span) -> Iterator[Reader]:
    """Open a connection to the store's database that reads only, and no longer than that."""
    with _opening(store.dialect)(store, timeout) as found:
        yield found


def _opening(dialect: str) -> Callable[[Any, Span], AbstractContextManager[Reader]]:
    match dialect:
        case "postgresql":
            from onejob.cli import unique_postgres

            return unique_postgres.opened
        case "mariadb":
            from onejob.cli import unique_mariadb

            return unique_mariadb.opened
        case "sqlite":
            return _sqlite
        case _:
            raise UsageError(
                f"{dialect} has no tables. Name the database that has this one: --url postgresql://…"
            )


def counting(table: Table, by: Sequence[Column]) -> str:
    """Return the statement that counts: one pass, and as many rows as are sampled."""
    columns = ", ".join(quote(column.name, table.database) for column in by)
    missing = " OR ".join(f"{quote(column.name, table.database)} IS NULL" for column in by)
    # Names are quoted, and come from the database's own catalogue.
    return (
        f"SELECT COUNT(*) OVER (), SUM({_ROWS} - 1) OVER (), "  # noqa: S608
        f"SUM(CASE WHEN {missing} THEN 1 ELSE 0 END) OVER (), {_ROWS}, {columns} "
        f"FROM (SELECT COUNT(*) AS {_ROWS}, {columns} FROM {table.quoted} GROUP BY {columns} "
        f"HAVING COUNT(*) > 1) AS onejob_keys ORDER BY {_ROWS} DESC LIMIT {SAMPLED_MAX}"
    )


def counted(rows: Sequence[Sequence[Any]]) -> Duplicates:
    """Read what the statement above returns."""
    if not rows:
        return Duplicates()
    keys, surplus, with_null = (int(value) for value in rows[0][:3])
    sample = tuple((int(row[3]), tuple(row[4:])) for row in rows)
    return Duplicates(keys, surplus, with_null, sample)


def too_long(timeout: Span) -> Failure:
    """Return the error for a count that did not end in time."""
    return Failure(
        f"the count did not end within {timeout / SECOND:g} s, so nobody knows. Nothing was "
        "changed and nothing is locked. Give it more time (--timeout 10m), or ask a replica.",
        code=UNKNOWN,
    )


def is_text(kind: str) -> bool:
    """Tell whether a type holds text."""
    return any(kind.lower().startswith(text) for text in _TEXTS)


@contextmanager
def _sqlite(store: Any, timeout: Span) -> Iterator[Reader]:
    path = Path(store.path)
    if not path.is_file():
        raise StoreUnavailable(str(path), "there is no such file")
    # Percent-encoded, so that a name is never read as options.
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=min(5.0, timeout / SECOND))) as connection:
        ends = time.monotonic() + timeout / SECOND
        connection.set_progress_handler(lambda: time.monotonic() > ends, 10_000)
        try:
            yield _SqliteReader(connection)
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error):
                raise too_long(timeout) from error
            raise StoreUnavailable(str(path), str(error)) from error


class _SqliteReader:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def table(self, name: str) -> Table:
        asked = re.sub(r"^(?:main|\"main\")\.", "", name)
        asked = asked[1:-1].replace('""', '"') if re.fullmatch(r'".*"', asked) else asked
        rows = self._connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE",
            (asked,),
        ).fetchall()
        if not rows:
            raise UsageError(f"there is no table {name!r} in this database. See: sqlite3 .tables")
        [[found, created]] = rows
        columns = self._columns(found, "COLLATE" in (created or "").upper())
        return Table("sqlite", "", found, columns, tuple(self._indexes(found)))

    def _columns(self, table: str, collated: bool) -> tuple[Column, ...]:
        rows = self._connection.execute(
            'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table,)
        ).fetchall()
        keys = [row for row in rows if row[3]]
        return tuple(
            Column(
                name,
                kind,
                # INTEGER PRIMARY KEY is the row's number, and no NULL.
                nullable=not (notnull or (len(keys) == 1 and pk and kind.upper() == "INTEGER")),
                # Which column has a collation of its own only the table's text knows.
                is_text=is_text(kind) and not collated,
            )
            for name, kind, notnull, pk in rows
        )

    def _indexes(self, table: str) -> Iterator[Index]:
        keys = self._connection.execute(
            "SELECT name, type FROM pragma_table_info(?) WHERE pk", (table,)
        ).fetchall()
        if len(keys) == 1 and keys[0][1].upper() == "INTEGER":
            yield Index("PRIMARY KEY", (keys[0][0],))
        rows = self._connection.execute(
            'SELECT l.name, l."unique", s.sql FROM pragma_index_list(?) AS l '
            "LEFT JOIN sqlite_master AS s ON s.type = 'index' AND s.name = l.name",
            (table,),
        ).fetchall()
        for name, unique, text in rows:
            parts = self._connection.execute(
                "SELECT name FROM pragma_index_info(?) ORDER BY seqno", (name,)
            ).fetchall()
            columns = tuple(part or "" for (part,) in parts)
            condition, expression = _parts(text or "")
            if "" not in columns:
                expression = ""
            yield Index(name, columns, bool(unique), condition=condition, expression=expression)

    def duplicates(self, table: Table, by: Sequence[Column]) -> Duplicates:
        return counted(self._connection.execute(counting(table, by)).fetchall())


def _parts(created: str) -> tuple[str, str]:
    """Return the condition of an index, and what is in its parentheses, from its text."""
    _, _, on = " ".join(created.split()).partition("(")
    found = re.fullmatch(r"(?P<keyed>.*?)\)(?: WHERE (?P<condition>.*))?", on, re.IGNORECASE)
    return (found["condition"] or "", found["keyed"]) if found else ("", "")
