"""Find what databases said no to in text: an error as it was printed, a traceback, a server's log.

1. A line that begins a violation is known by the server's number or SQLSTATE beside its message, or
   by the message in English.
2. The lines after it (DETAIL, and what psql prints when it is verbose) add columns and table.

A number that merely looks like a SQLSTATE is none: a log is full of process ids and ports. It must
stand where servers and drivers write one, and PostgreSQL's message in English must be one that we
know for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

from onejob.core.sqlstates import NUMBERS, RESULTS, STATES, Database, State
from onejob.core.violation import Facts
from onejob.core.violation_words import (
    Names,
    detail,
    in_english,
    of_mariadb,
    of_postgresql,
    of_sqlite,
)

#: Of a longer line only the beginning is read.
LINE_CHARACTERS_MAX: Final = 8_000
#: A DETAIL comes at most so many lines after its message.
DETAIL_LINES_MAX: Final = 8

#: How servers write ERROR. A level such as LOG, DETAIL or STATEMENT has the code beside it too.
_ERROR = (
    r"(?:ERROR|FATAL|PANIC|FEHLER|ERREUR|ERRORE|ERRO|FEL|FOUT|HATA|CHYBA|BŁĄD|ОШИБКА|ПОМИЛКА|"
    r"შეცდომა|エラー|错误|錯誤|오류)"
)
_CODE = r"(?P<code>(?:23|25|40)[0-9A-Z]{3})"
_WITH_CODE: Final = (
    # psql with \set VERBOSITY verbose.
    re.compile(rf"(?<![^\s:])[^\s:]{{1,40}}\s?:\s+{_CODE}:\s+(?P<message>.*)"),
    # csvlog: severity, code, message.
    re.compile(rf',"?{_ERROR}"?,"?{_CODE}"?,"?(?P<message>[^\n]*)'),
    # Go and others write it behind the message, or name it.
    re.compile(rf"\A(?P<message>.*)\(SQLSTATE:? ?{_CODE}\)"),
    re.compile(rf"SQLSTATE(?:\[|[\s:=]+[\"']?){_CODE}\]?(?P<message>.*)"),
    re.compile(
        rf"\A(?P<message>.*)[\"']?\b(?:code|sqlstate|state_code)[\"']?\s*[:=]\s*[\"']{_CODE}[\"']",
        re.I,
    ),
)
#: log_line_prefix with %e. Words of the prefix may stand in between.
_IN_PREFIX: Final = re.compile(
    rf"(?<![\w.:-]){_CODE}(?P<bracket>\])?(?![\w.-])[^:]{{0,80}}?:?\s(?:[^:\s]{{1,40}}\s+){{0,4}}?"
    rf"(?P<error>{_ERROR})\s?:\s+(?P<message>.*)"
)
_PLAIN: Final = re.compile(rf"\s*{_CODE}\s*")

_WITH_NUMBER: Final = (
    re.compile(
        r"\berror:? (?P<number>\d{4})\b(?: \([0-9A-Z]{5}\))?[^:]{0,40}: (?P<message>.*)", re.I
    ),
    re.compile(r"\((?P<number>\d{4}), [urb]?(?P<mark>['\"])(?P<message>.*)(?P=mark)\)"),
    re.compile(r"SQLSTATE\[[0-9A-Z]{5}\][^\d]{0,60}(?P<number>\d{4})\]? (?P<message>.*)"),
    re.compile(r"\b(?P<name>ER_[A-Z0-9_]{4,60})\b:? ?(?P<message>.*)"),
)
_DUPLICATE_ENTRY: Final = re.compile(r"Duplicate entry '.*")
_NUMBER_OF: Final = {state.name: number for number, state in NUMBERS.items()}

#: A driver's class, as a traceback names it: UniqueViolation, UniqueViolationError.
_CLASS_OF: Final = {
    "".join(part.capitalize() for part in state.name.split("_")): code
    for code, state in STATES.items()
}
_CLASS: Final = re.compile(
    rf"(?:^|[.(\s:])(?P<name>{'|'.join(sorted(_CLASS_OF, key=len, reverse=True))})(?:Error)?"
    r"(?:\)|:) (?P<message>\S.*)"
)

#: What psql calls the table when it is verbose, in its languages.
_TABLE: Final = re.compile(
    r"^(?:TABLE NAME|TABELLENNAME|NOM DE TABLE|NOMBRE DE TABLA|NOME TABELLA|ТАБЛИЦА|테이블 이름|"
    r"ცხრილის სახელი|NÁZEV TABULKY|TABELLNAMN|表名)\s?:\s+(?P<table>\S.*)"
)

#: A line without any of these begins nothing.
_WORTH_A_LOOK: Final = re.compile(
    r"constraint|Duplicate entry|unique index|deadlock|serializ|transaction|SQLSTATE|ER_|Violation|"
    r"Failure|Deadlock|Transaction|(?:23|25|40)[0-9P][0-9]{2}|1(?:02|04|06|16|21|45|58|79)\d|3819|4025",
    re.I,
)


def violations(lines: Iterable[str]) -> Iterator[Facts]:
    """Return every violation in these lines, in their order; a line is held, never the whole."""
    facts: Facts | None = None
    first, left = "", 0
    for line in _flat(lines):
        found = _begun(line)
        if found is not None:
            if facts is not None:
                yield facts
            facts, first, left = _more(found, line), line, DETAIL_LINES_MAX
        elif facts is not None and left:
            if left == DETAIL_LINES_MAX and _is_short_of_names(facts):
                # A message may be broken in two: the French one about a foreign key is.
                facts = _begun(f"{first} {line.strip()}") or facts
            facts, left = _more(facts, line), left - 1
    if facts is not None:
        yield facts


def _flat(lines: Iterable[str]) -> Iterator[str]:
    """Return lines as a server wrote them, out of a log of JSON or CSV as well."""
    for whole in lines:
        line = whole[:LINE_CHARACTERS_MAX].rstrip("\r\n")
        if line.lstrip().startswith("{"):
            with suppress(ValueError, RecursionError):
                yield from _of_json(json.loads(line))
                continue
        yield from line.replace('\\"', '"').replace('""', '"').replace("\\n", "\n").split("\n")


def _of_json(value: object) -> Iterator[str]:
    """Return the texts of a log entry; PostgreSQL's own has code and message apart."""
    if isinstance(value, dict):
        if (code := value.get("state_code", value.get("code"))) in STATES:
            message = str(value.get("message", "")).replace("\n", " ")
            if value.get("constraint"):  # as node-postgres has it
                message = f'"{value.get("table", "")}" "{value["constraint"]}"'
            if code in ("23505", "23P01") and value.get("constraint"):
                message = f'"{value["constraint"]}"'
            yield f"ERROR:  {code}: {message}"
            yield str(value.get("detail", ""))
            yield f"TABLE NAME:  {value['table']}" if value.get("table") else ""
            return
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _of_json(each)
    elif isinstance(value, str):
        yield from value.splitlines()


def _begun(line: str) -> Facts | None:
    if not _WORTH_A_LOOK.search(line):
        return None
    return _mariadb(line) or _sqlite(line) or _postgresql(line)


def _mariadb(line: str) -> Facts | None:
    for pattern in _WITH_NUMBER:
        for found in pattern.finditer(line):
            given = found.groupdict()
            number = int(given.get("number") or 0) or _NUMBER_OF.get(given.get("name") or "", 0)
            if number in NUMBERS:
                return _facts_of_mariadb(number, given["message"])
    if entry := _DUPLICATE_ENTRY.search(line):
        return _facts_of_mariadb(1062, entry[0])
    return None


def _facts_of_mariadb(number: int, message: str) -> Facts:
    return _facts("mariadb", NUMBERS[number], of_mariadb(number, message))


def _sqlite(line: str) -> Facts | None:
    found = of_sqlite(line)
    return _facts("sqlite", RESULTS[found[0]], found[1]) if found else None


def _postgresql(line: str) -> Facts | None:
    code, message = in_english(line)
    if code:
        return _facts_of_postgresql(code, message)
    for pattern in _WITH_CODE:
        for found in pattern.finditer(line):
            if found["code"] in STATES:
                return _facts_of_postgresql(found["code"], found["message"])
    for found in _IN_PREFIX.finditer(line):
        if found["code"] in STATES and not _may_be_a_number(found):
            return _facts_of_postgresql(found["code"], found["message"])
    named = None if line.lstrip().startswith("except") else _CLASS.search(line)
    if named is not None:
        return _facts_of_postgresql(_CLASS_OF[named["name"]], named["message"])
    if (plain := _PLAIN.fullmatch(line)) and plain["code"] in STATES:
        return _facts("postgresql", STATES[plain["code"]], Names())
    return None


def _may_be_a_number(found: re.Match[str]) -> bool:
    """Tell a process id, or a port, from a SQLSTATE: both have five digits.

    English wordings are known, so that one which is not belongs to another error.
    """
    if not found["code"].isdecimal():
        return False
    english = found["error"] in ("ERROR", "FATAL", "PANIC") and found["message"].isascii()
    return english and (found["code"].startswith("23") or found["bracket"] is not None)


def _facts_of_postgresql(code: str, message: str) -> Facts:
    return _facts("postgresql", STATES[code], of_postgresql(code, message))


def _facts(database: Database, state: State, names: Names) -> Facts:
    return Facts(
        database,
        state,
        names.constraint,
        names.table,
        names.columns,
        names.values,
        names.building,
    )


def _is_short_of_names(facts: Facts) -> bool:
    return facts.state.kind == "foreign-key" and not facts.constraint


def _more(facts: Facts, line: str) -> Facts:
    """Add what a later line says of the same violation."""
    if facts.database != "postgresql":
        return facts
    if not facts.columns and facts.state.kind in ("duplicate", "foreign-key", "exclusion"):
        columns, values = detail(line)
        facts = replace(facts, columns=columns, values=values)
    if not facts.table and (table := _TABLE.match(line.strip())):
        facts = replace(facts, table=table["table"].strip())
    return facts
