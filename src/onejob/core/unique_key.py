"""Is there a unique key on these columns, what would go around one, and how is it built?

Decided from what a database says of a table. A key keeps duplicates out only where it is unique,
valid, whole (neither partial nor on an expression nor on a prefix), and its columns have no NULLs
that count as different.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from onejob.core.sqlstates import Database
from onejob.errors import UsageError

#: PostgreSQL cuts longer names off, in bytes; MariaDB refuses them, in characters.
NAME_MOST: Final = {"postgresql": 63, "mariadb": 64, "sqlite": 255}
#: The first PostgreSQL whose unique index may take NULLs for equal.
NULLS_NOT_DISTINCT: Final = 15
#: What an InnoDB index takes, in bytes, in the row formats DYNAMIC and COMPRESSED, and the others.
KEY_BYTES_MOST: Final = 3_072
OLD_KEY_BYTES_MOST: Final = 767


@dataclass(frozen=True, slots=True)
class Column:
    """A column. ``octets`` is how long its value gets at most in an index; None: not limited."""

    name: str
    type: str = ""
    nullable: bool = False
    collation: str = ""
    is_text: bool = False
    folds_case: bool = False
    octets: int | None = 0


@dataclass(frozen=True, slots=True)
class Index:
    """An index. ``columns`` has "" for an expression; ``condition`` is a partial index's."""

    name: str
    columns: tuple[str, ...]
    unique: bool = True
    valid: bool = True
    condition: str = ""
    expression: str = ""
    prefix: bool = False
    nulls_equal: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """What a database says of one table; ``version`` is the server's major one."""

    database: Database
    schema: str
    name: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    version: int = 0
    partitioned: bool = False
    #: "" where it is unknown; MariaDB's ROW_FORMAT.
    row_format: str = field(default="")

    @property
    def quoted(self) -> str:
        """Return the table's name as it is written in a statement."""
        parts = (self.schema, self.name) if self.schema else (self.name,)
        return ".".join(quote(part, self.database) for part in parts)


def quote(name: str, database: Database) -> str:
    """Quote an identifier once."""
    if "\0" in name:
        raise UsageError("a name has no NUL character in it.")
    mark = "`" if database == "mariadb" else '"'
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def named(table: Table, by: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns that are meant; UsageError where one is not there, or comes twice."""
    exact = {column.name: column for column in table.columns}
    folded = {column.name.casefold(): column for column in table.columns}
    found: list[Column] = []
    for name in by:
        column = exact.get(name) or folded.get(name.casefold())
        if column is None:
            close = get_close_matches(name, exact, n=1)
            hint = f"Did you mean {close[0]}?" if close else f"It has: {', '.join(exact)}."
            raise UsageError(f"{table.name} has no column {name!r}. {hint}")
        if column in found:
            raise UsageError(f"--by names {column.name!r} twice.")
        found.append(column)
    return tuple(found)


def standing(table: Table, by: Sequence[Column]) -> Index | None:
    """Return the key that keeps duplicates of these columns out already; None where none does."""
    wanted = {column.name for column in by}
    nullable = any(column.nullable for column in by)
    for index in table.indexes:
        whole = not (index.condition or index.expression or index.prefix)
        strict = index.unique and index.valid and whole and (not nullable or index.nulls_equal)
        if strict and set(index.columns) == wanted:
            return index
    return None


def cautions(table: Table, by: Sequence[Column], name: str) -> list[str]:
    """Return what would go around the key, or be taken for it."""
    return [
        *_about_nulls(table, by),
        *(_about_index(table, index) for index in _near(table, by) if _about_index(table, index)),
        *_about_case(table, by),
        *_about_length(table, by),
        *_about_name(table, by, name),
    ]


def statements(table: Table, by: Sequence[Column], name: str) -> list[str]:
    """Return what builds the key without keeping writers waiting, where the database can."""
    key = quote(name, table.database)
    columns = ", ".join(quote(column.name, table.database) for column in by)
    match table.database:
        case "postgresql":
            return _of_postgresql(table, by, name, columns)
        case "mariadb":
            add = f"ALTER TABLE {table.quoted} ADD UNIQUE KEY {key} ({columns})"
            return [f"{add}, ALGORITHM=INPLACE, LOCK=NONE;"]
        case "sqlite":
            return [f"CREATE UNIQUE INDEX {key} ON {table.quoted} ({columns});"]


def key_name(table: Table, by: Sequence[Column]) -> str:
    """Return a name for the key, as PostgreSQL would make one: ``invoices_customer_period_key``."""
    most, end = NAME_MOST[table.database], "_key"
    whole = "_".join([table.name, *(column.name for column in by)])
    room = most - len(end)
    return whole.encode()[:room].decode(errors="ignore").rstrip("_") + end


def _of_postgresql(table: Table, by: Sequence[Column], name: str, columns: str) -> list[str]:
    key = quote(name, "postgresql")
    equal = any(column.nullable for column in by) and table.version >= NULLS_NOT_DISTINCT
    nulls = " NULLS NOT DISTINCT" if equal else ""
    if table.partitioned:
        return [f"ALTER TABLE {table.quoted} ADD CONSTRAINT {key} UNIQUE{nulls} ({columns});"]
    in_schema = f"{quote(table.schema, 'postgresql')}.{key}" if table.schema else key
    left = any(index.name == name and not index.valid for index in table.indexes)
    return [
        *([f"DROP INDEX CONCURRENTLY {in_schema};"] if left else []),
        f"CREATE UNIQUE INDEX CONCURRENTLY {key} ON {table.quoted} ({columns}){nulls};",
        f"ALTER TABLE {table.quoted} ADD CONSTRAINT {key} UNIQUE USING INDEX {key};",
    ]


def _about_nulls(table: Table, by: Sequence[Column]) -> list[str]:
    nullable = [column.name for column in by if column.nullable]
    if not nullable:
        return []
    names = " and ".join(nullable)
    said = f"{names} may be NULL, and NULLs are not equal to a unique key: such rows pass it"
    if table.database == "postgresql" and table.version >= NULLS_NOT_DISTINCT:
        return [f"{said}. The statements say NULLS NOT DISTINCT, which takes them for equal."]
    instead = "Make it NOT NULL" if len(nullable) == 1 else "Make them NOT NULL"
    return [f"{said}. {instead} first, with a value that stands for none."]


def _near(table: Table, by: Sequence[Column]) -> list[Index]:
    """Return the unique indexes that somebody may take for the key."""
    wanted = {column.name for column in by}
    return [
        index
        for index in table.indexes
        if index.unique
        and (
            set(index.columns) == wanted
            or (not index.valid and wanted & set(index.columns))
            or (index.expression and any(name in index.expression for name in wanted))
        )
    ]


def _about_index(table: Table, index: Index) -> str:
    if not index.valid:
        drop = f"{quote(table.schema, 'postgresql')}." if table.schema else ""
        return (
            f"{index.name} is invalid: CREATE INDEX CONCURRENTLY failed, or is at work. It keeps "
            f"nothing out that was there before. Where nobody is building it: DROP INDEX "
            f"CONCURRENTLY {drop}{quote(index.name, 'postgresql')}"
        )
    if index.condition:
        return (
            f"{index.name} is partial (WHERE {index.condition}): rows outside its condition may be "
            "duplicates, and ON CONFLICT has to repeat the condition."
        )
    if index.expression:
        return (
            f"{index.name} is on an expression ({index.expression}), which is another key than the "
            "columns, and ON CONFLICT has to repeat the expression."
        )
    if index.prefix:
        return (
            f"{index.name} compares the beginning of a column only: longer values count as equal."
        )
    return ""


def _about_case(table: Table, by: Sequence[Column]) -> list[str]:
    found = []
    for column in by:
        how = f" ({column.collation})" if column.collation else ""
        if column.is_text and column.folds_case:
            found.append(
                f"{column.name} compares without regard to case{how}: 'A' and 'a' are one key."
            )
        elif column.is_text:
            found.append(
                f"{column.name} compares with case{how}: 'A' and 'a' are two keys. Where they are "
                "one to you, write it in one case, or build the key on lower(…)."
            )
    return found


def _about_length(table: Table, by: Sequence[Column]) -> list[str]:
    if table.database != "mariadb":
        return []
    dynamic = table.row_format.upper() in ("", "DYNAMIC", "COMPRESSED")
    most = KEY_BYTES_MOST if dynamic else OLD_KEY_BYTES_MOST
    unlimited = [column.name for column in by if column.octets is None]
    total = sum(column.octets or 0 for column in by)
    if not unlimited and total <= most:
        return []
    size = f"{' and '.join(unlimited)} has no limit" if unlimited else f"{total:,} bytes"
    return [
        f"the key is too long for an index: {size}, of {most:,} bytes. MySQL refuses it, and "
        "MariaDB copies the table to build a hash, so LOCK=NONE fails. Make the columns shorter, "
        "or put the key on a generated column: SHA2(CONCAT_WS('|', …), 256)."
    ]


def _about_name(table: Table, by: Sequence[Column], name: str) -> list[str]:
    found = []
    if table.partitioned:
        found.append(
            f"{table.name} is partitioned: the key must have the partition columns in it, and the "
            "statement keeps writers waiting. To avoid that, build it on each partition "
            "CONCURRENTLY, and ATTACH those."
        )
    taken = next((index for index in table.indexes if index.name == name and index.valid), None)
    if taken is not None:
        found.append(f"there is an index {name} already, which is not this key: give --name.")
    return found
