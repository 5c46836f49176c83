"""How databases word a violation, in the languages that they speak: one message in, names out.

Only names of keys, tables and columns are taken out; the values of a row stand in the same messages
and are kept apart. Where a wording is not known, a name is not guessed: it could be a value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

#: What stands between the columns of a key and its values in a DETAIL: the same in every language.
_IS = ")=("
#: A key has 32 columns at most, with names of 63 bytes; expressions may be longer.
_COLUMNS_CHARACTERS_MAX = 4_000
_QUOTED = re.compile(r"[\"»«„“”]\s*([^\"»«„“”]+?)\s*[\"»«„“”]")

#: PostgreSQL's words in English, where a text has no SQLSTATE.
_ENGLISH: Final = tuple(
    (re.compile(pattern), code)
    for pattern, code in (
        (r"duplicate key value violates unique constraint", "23505"),
        (r"could not create unique index", "23505"),
        (
            r"(?:insert or update|update or delete) on table .{1,200}? violates "
            r"(?:foreign key constraint|RESTRICT setting)",
            "23503",
        ),
        (r"null value in column .{1,200}? violates not-null constraint", "23502"),
        (r"new row for relation .{1,200}? violates check constraint", "23514"),
        (r"conflicting key value violates exclusion constraint", "23P01"),
        (r"current transaction is aborted, commands ignored", "25P02"),
        (r"could not serialize access due to", "40001"),
        (r"\bdeadlock detected", "40P01"),
        (r"cannot execute .{1,80}? in a read-only transaction", "25006"),
        (r"terminating connection due to idle-in-transaction timeout", "25P03"),
        (r"cannot run inside a transaction block", "25001"),
        (r"can only be used in transaction blocks", "25P01"),
    )
)
_BUILDING = re.compile(
    r"could not create unique index|Unique Index .{1,200} nicht erstellen|créer l'index unique|"
    r"crear el índice único|creazione dell'indice univoco|создать уникальный индекс|"
    r"一意インデックス|无法创建唯一索引|無法建立唯一索引"
)
#: Languages whose sentence names the table before the column, or two tables before the constraint.
_TABLE_FIRST = re.compile(r"^\s*(?:リレーション|关系|關聯)\s*\"")
_CONSTRAINT_BY_NAME = re.compile(r"(?:外部キー制約|外键约束)\s*\"([^\"]+)\"")

#: What stands between a duplicate entry and its key, in MariaDB's and MySQL's languages.
_BETWEEN = (
    " for key ",
    " für Schlüssel ",
    " pour la clef ",
    " pour la clé ",
    " は索引 ",
    " para la clave ",
    " para la llave ",
    " per la chiave ",
    " по ключу ",
    " для ключа ",
    " voor zoeksleutel ",
    " duplicada para a chave ",
    " dla klucza ",
    " för nyckel ",
    " for nøkkel ",
    " for nykkel ",
    " for indeks ",
    " (číslo klíče ",
    " (číslo kľúča ",
    " e duplicat pentru cheia ",
    " za ključ ",
    " για το κλειδί ",  # noqa: RUF001 - Greek
    " გასაღებისთვის ",
    " võtmele ",
    ": key ",
    "键",
    " a ",
)
_ENTRY = re.compile(
    r"'(?P<values>.*)'(?:" + "|".join(map(re.escape, _BETWEEN)) + r")'(?P<key>[^']+)'", re.DOTALL
)
_CANNOT_BE_NULL = re.compile(r"'([^']+)'")
_FOREIGN = re.compile(r"`(?P<table>[^`]+)`, CONSTRAINT `(?P<constraint>[^`]+)` FOREIGN KEY")
_FOREIGN_COLUMNS = re.compile(r"FOREIGN KEY \((?P<columns>[^)]+)\)")
_CHECK = re.compile(
    r"`(?P<constraint>[^`]+)`(?:[^`]+`[^`]+`[.。]`(?P<table>[^`]+)`)?"
    r"|'(?P<named>[^']+)' is violated"
)

_SQLITE = re.compile(
    r"\b(?P<what>UNIQUE|NOT NULL|CHECK|FOREIGN KEY) constraint failed(?:: (?P<rest>[^\n]*))?"
)
_SQLITE_NAMES = {
    "UNIQUE": "SQLITE_CONSTRAINT_UNIQUE",
    "NOT NULL": "SQLITE_CONSTRAINT_NOTNULL",
    "CHECK": "SQLITE_CONSTRAINT_CHECK",
    "FOREIGN KEY": "SQLITE_CONSTRAINT_FOREIGNKEY",
}


@dataclass(frozen=True, slots=True)
class Names:
    """What a message names, and what it holds of a row."""

    constraint: str = ""
    table: str = ""
    columns: tuple[str, ...] = ()
    values: str = ""
    building: bool = False


def of_postgresql(code: str, message: str) -> Names:
    """Read PostgreSQL's primary message, in whatever language."""
    quoted = _QUOTED.findall(message)
    building = code == "23505" and _BUILDING.search(message) is not None
    match code, quoted:
        case ("23505" | "23P01", [constraint, *_]):
            return Names(constraint, building=building)
        case ("23502", [first, second, *_]):
            table, column = (first, second) if _TABLE_FIRST.match(message) else (second, first)
            return Names("", table, (column,))
        case ("23502", [column]):
            return Names("", "", (column,))
        case ("23503" | "23001", [_, _, *_]):
            named = _CONSTRAINT_BY_NAME.search(message)
            # Of three names the last is the table whose rows refer to the one that would go.
            return Names(named[1] if named else quoted[1], quoted[0])
        case ("23514", [table, *_, constraint]):
            return Names(constraint, table)
        case _:
            return Names()


def in_english(line: str) -> tuple[str, str]:
    """Return the SQLSTATE of PostgreSQL's message in English, and the line from there on."""
    for pattern, code in _ENGLISH:
        if found := pattern.search(line):
            return code, line[found.start() :]
    return "", ""


def detail(text: str) -> tuple[tuple[str, ...], str]:
    """Return the columns of a key, and their values, from a DETAIL of PostgreSQL.

    Read backwards from between the two: a log's own prefix may have parentheses in it.
    """
    end, depth = text.find(_IS), 1
    for place in range(end - 1, max(-1, end - _COLUMNS_CHARACTERS_MAX), -1):
        depth += {")": 1, "(": -1}.get(text[place], 0)
        if depth == 0:
            begin = end + len(_IS)
            last = text.rfind(")", begin)
            values = text[begin:] if last < 0 else text[begin:last]
            return split(text[place + 1 : end]), values
    return (), ""


def of_mariadb(number: int, message: str) -> Names:
    """Read a message of MariaDB or MySQL, in whatever language."""
    match number:
        case 1062 | 1586 if entry := _ENTRY.search(message):
            # MySQL 8 writes table.key.
            table, _, key = entry["key"].rpartition(".")
            return Names(key, table, (), entry["values"])
        case 1048 if column := _CANNOT_BE_NULL.search(message):
            return Names("", "", (column[1],))
        case 1451 | 1452 if foreign := _FOREIGN.search(message):
            columns = _FOREIGN_COLUMNS.search(message)
            named = split(columns["columns"].replace("`", "")) if columns else ()
            return Names(foreign["constraint"], foreign["table"], named)
        case 4025 | 3819 if check := _CHECK.search(message):
            # A column's own check is written table.column.
            return Names(check["named"] or check["constraint"], check["table"] or "")
        case _:
            return Names()


def of_sqlite(message: str) -> tuple[str, Names] | None:
    """Read a message of SQLite: the name of its result code, and names; None for any other."""
    found = _SQLITE.search(message)
    if found is None:
        return None
    what, rest = found["what"], (found["rest"] or "").strip()
    if index := re.match(r"index '([^']+)'", rest):
        return _SQLITE_NAMES[what], Names(index[1])
    if what == "CHECK":
        return _SQLITE_NAMES[what], Names(rest)
    pairs = [part.strip().rpartition(".") for part in re.split(r",\s", rest) if "." in part]
    table = pairs[0][0] if pairs else ""
    # A traceback or a log may go on behind the last column.
    columns = tuple(re.split(r"[\s\"')\]]", column, maxsplit=1)[0] for _, _, column in pairs)
    return _SQLITE_NAMES[what], Names("", table, columns)


def split(columns: str) -> tuple[str, ...]:
    """Split a list of columns and expressions at its own commas, not at those of a call."""
    found, depth, quoted, start = [], 0, False, 0
    for place, character in enumerate(columns):
        if character == '"':
            quoted = not quoted
        elif not quoted and character in "()":
            depth += 1 if character == "(" else -1
        elif character == "," and not depth and not quoted:
            found.append(columns[start:place])
            start = place + 1
    found.append(columns[start:])
    return tuple(_unquoted(part.strip()) for part in found if part.strip())


def _unquoted(name: str) -> str:
    if re.fullmatch(r'"(?:[^"]|"")+"', name):
        return name[1:-1].replace('""', '"')
    return name
