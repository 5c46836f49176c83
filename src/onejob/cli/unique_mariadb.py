"""A table of MariaDB's or MySQL's, as its information_schema has it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from onejob.cli.unique_databases import Duplicates, Reader, counted, counting, is_text, too_long
from onejob.core.time import SECOND, Span
from onejob.core.unique_key import Column, Index, Table
from onejob.errors import StoreUnavailable, UsageError
from onejob.stores.mariadb import MariadbStore

#: A statement that ran for too long: MariaDB's number, MySQL's, and a reply that did not come.
_TOO_LONG = {1969, 3024, 2013}
#: The server or the account refuses, or the table is not to be read.
_REFUSED = {1044, 1142, 1143, 1146}

_TABLE = """\
SELECT table_schema, table_name, table_type, COALESCE(row_format, '')
  FROM information_schema.tables
 WHERE table_schema = COALESCE(%(schema)s, DATABASE()) AND table_name = %(name)s"""

_COLUMNS = """\
SELECT column_name, data_type, is_nullable, COALESCE(collation_name, ''), character_octet_length
  FROM information_schema.columns
 WHERE table_schema = %(schema)s AND table_name = %(name)s
 ORDER BY ordinal_position"""

_INDEXES = """\
SELECT index_name, non_unique, COALESCE(column_name, ''), sub_part IS NOT NULL
  FROM information_schema.statistics
 WHERE table_schema = %(schema)s AND table_name = %(name)s
 ORDER BY index_name, seq_in_index"""


@contextmanager
def opened(store: MariadbStore, timeout: Span) -> Iterator[Reader]:
    """Open a transaction that reads only, and whose statements end in time."""
    with closing(store.connect(max(1.0, timeout / SECOND))) as connection:
        try:
            with connection.cursor(Cursor) as cursor:
                if "MariaDB" not in connection.get_server_info():
                    cursor.execute(f"SET SESSION max_execution_time = {timeout // 1_000}")
                cursor.execute("START TRANSACTION READ ONLY")
                yield _Reader(cursor)
        except (pymysql.MySQLError, OSError) as error:
            code = error.args[0] if error.args else 0
            if code in _TOO_LONG:
                raise too_long(timeout) from error
            said = str(error.args[-1] if error.args else error)
            if code in _REFUSED:
                raise UsageError(f"{store.where} refuses to count: {said}") from error
            raise StoreUnavailable(store.where, said) from error


class _Reader:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def _all(self, text: str, asked: dict[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        self._cursor.execute(text, asked)
        rows: Sequence[Sequence[Any]] = self._cursor.fetchall()
        return rows

    def table(self, name: str) -> Table:
        found = re.fullmatch(r"(?:(?P<schema>`[^`]+`|[^.`]+)\.)?(?P<name>`[^`]+`|[^`]+)", name)
        schema = found["schema"].strip("`") if found and found["schema"] else None
        plain = found["name"].strip("`") if found else name
        rows = self._all(_TABLE, {"schema": schema, "name": plain})
        if not rows:
            raise UsageError(
                f"there is no table {name!r} in this database. Write another database before it: "
                "sales.invoices"
            )
        [[database, relation, kind, row_format]] = rows
        if kind != "BASE TABLE":
            raise UsageError(f"{name} is no table, so it has no unique key of its own.")
        asked = {"schema": database, "name": relation}
        columns = [
            Column(
                column,
                shown,
                nullable == "YES",
                collation,
                is_text=is_text(shown),
                folds_case=collation.endswith("_ci"),
                octets=_octets(shown, octets),
            )
            for column, shown, nullable, collation, octets in self._all(_COLUMNS, asked)
        ]
        return Table(
            "mariadb",
            database,
            relation,
            tuple(columns),
            tuple(self._indexes(asked)),
            row_format=row_format,
        )

    def _indexes(self, asked: dict[str, Any]) -> Iterator[Index]:
        parts: dict[str, list[tuple[str, bool, bool]]] = {}
        for index, non_unique, column, prefix in self._all(_INDEXES, asked):
            parts.setdefault(index, []).append((column, not non_unique, bool(prefix)))
        for index, found in parts.items():
            columns = tuple(column for column, _, _ in found)
            expression = "an expression" if "" in columns else ""
            prefix = any(cut for _, _, cut in found)
            yield Index(index, columns, found[0][1], expression=expression, prefix=prefix)

    def duplicates(self, table: Table, by: Sequence[Column]) -> Duplicates:
        return counted(self._all(counting(table, by)))


def _octets(kind: str, octets: int | None) -> int | None:
    """Return how many bytes a value takes in an index at most; None where there is no limit."""
    if kind.lower().endswith(("text", "blob")) or kind.lower() == "json":
        return None
    return int(octets) if octets is not None else 8
