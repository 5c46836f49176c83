"""A table of PostgreSQL's, as its catalogue has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from onejob.cli.unique_databases import Duplicates, Reader, counted, counting, too_long
from onejob.core.time import Span
from onejob.core.unique_key import Column, Index, Table
from onejob.errors import StoreUnavailable, UsageError
from onejob.stores.postgres import PostgresStore

#: A lock that somebody holds on the table is not waited for longer than this.
LOCK_MILLISECONDS = 3_000

_TABLE = """\
SELECT c.oid, n.nspname, c.relname, c.relkind::text,
       current_setting('server_version_num')::int / 10000
  FROM pg_catalog.pg_class AS c
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.oid = COALESCE(to_regclass(%(name)s), to_regclass(quote_ident(%(name)s)))"""

_COLUMNS = """\
SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
       COALESCE(o.collname, ''), t.typcategory = 'S',
       t.typname = 'citext' OR NOT COALESCE(o.collisdeterministic, true)
  FROM pg_catalog.pg_attribute AS a
  JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
  LEFT JOIN pg_catalog.pg_collation AS o ON o.oid = a.attcollation
 WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum"""

#: INCLUDE's columns come after those of the key. Without an attribute number it is an expression.
_INDEXES = """\
SELECT i.relname,
       ARRAY(SELECT COALESCE(a.attname, '')
               FROM unnest(x.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)
               LEFT JOIN pg_catalog.pg_attribute AS a
                 ON a.attrelid = x.indrelid AND a.attnum = k.attnum AND k.attnum > 0
              WHERE k.place <= x.indnkeyatts
              ORDER BY k.place)::text[],
       x.indisunique, x.indisvalid AND x.indisready,
       COALESCE(pg_get_expr(x.indpred, x.indrelid), ''),
       COALESCE(pg_get_expr(x.indexprs, x.indrelid), ''),
       COALESCE((to_jsonb(x) ->> 'indnullsnotdistinct')::boolean, false)
  FROM pg_catalog.pg_index AS x
  JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
 WHERE x.indrelid = %(oid)s AND x.indislive
 ORDER BY i.relname"""


@contextmanager
def opened(store: PostgresStore, timeout: Span) -> Iterator[Reader]:
    """Open a transaction that reads only, and whose statements end in time."""
    with closing(store.connect()) as connection:
        connection.row_factory = tuple_row
        try:
            with connection.transaction():
                connection.execute("SET TRANSACTION READ ONLY")
                connection.execute(
                    "SELECT set_config('statement_timeout', %s, true), "
                    "set_config('lock_timeout', %s, true)",
                    (str(max(1, timeout // 1_000)), str(LOCK_MILLISECONDS)),
                )
                yield _Reader(connection)
        except psycopg.errors.QueryCanceled as error:
            raise too_long(timeout) from error
        except psycopg.OperationalError as error:
            raise StoreUnavailable(store.where, _said(error)) from error
        except psycopg.Error as error:
            raise UsageError(f"{store.where} refuses to count: {_said(error)}.") from error


class _Reader:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def table(self, name: str) -> Table:
        try:
            row = self._connection.execute(_TABLE, {"name": name}).fetchone()
        except psycopg.errors.InvalidName:
            row = None
        if row is None:
            raise UsageError(
                f"there is no table {name!r} on the search path. Write its schema before it: "
                "sales.invoices"
            )
        oid, schema, relation, kind, version = row
        if kind not in ("r", "p"):
            raise UsageError(f"{name} is no table, so it has no unique key of its own.")
        asked = {"oid": oid}
        columns = [
            Column(
                column, shown, nullable, "" if collation == "default" else collation, text, folds
            )
            for column, shown, nullable, collation, text, folds in self._connection.execute(
                _COLUMNS, asked
            )
        ]
        indexes = [
            Index(index, tuple(names), unique, valid, condition, expression, False, nulls_equal)
            for (
                index,
                names,
                unique,
                valid,
                condition,
                expression,
                nulls_equal,
            ) in self._connection.execute(_INDEXES, asked)
        ]
        return Table(
            "postgresql", schema, relation, tuple(columns), tuple(indexes), version, kind == "p"
        )

    def duplicates(self, table: Table, by: Sequence[Column]) -> Duplicates:
        return counted(self._connection.execute(counting(table, by).encode()).fetchall())


def _said(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).strip().rstrip(".")
