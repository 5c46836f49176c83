"""Which unique key SQLite means: its errors name columns, and users name constraints.

An index has its name in the schema. A constraint that is written into CREATE TABLE has it only
in that text: SQLite calls its index ``sqlite_autoindex_TABLE_1``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"--[^\n]*|/\*.*?\*/"
    r"|(?P<quoted>\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\[[^\]]*\]|'(?:[^']|'')*')"
    r"|(?P<word>[^\W][\w$]*)|(?P<sign>\S)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Key:
    """A unique index of a table, or its primary key that has none (``INTEGER PRIMARY KEY``)."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    quoted: bool = False

    def says(self, word: str) -> bool:
        return not self.quoted and self.text.upper() == word


def means(asked: str, failed: Sequence[str], indexes: Sequence[Key], created: str | None) -> bool:
    """Tell whether a violation in these columns is one of the key that is asked for.

    ``indexes`` are the table's unique ones and ``created`` its CREATE TABLE. Where two keys have
    these very columns nobody can tell which of them it was: False.
    """
    columns = _folded(failed)
    having = [key for key in indexes if _folded(key.columns) == columns]
    if len(having) > 1:
        return False
    names = {key.name.casefold() for key in having}
    for key in named_keys(created or ""):
        if _folded(key.columns) == columns:
            names.add(key.name.casefold())
    return asked.casefold() in names


def named_keys(created: str) -> Iterator[Key]:
    """Return the keys that CREATE TABLE gives a name: CONSTRAINT name UNIQUE, or PRIMARY KEY."""
    for definition in _definitions(_tokens(created)):
        for place, token in enumerate(definition):
            if not token.says("CONSTRAINT") or place + 2 >= len(definition):
                continue
            name, kind = definition[place + 1], definition[place + 2]
            if kind.says("UNIQUE"):
                rest = definition[place + 3 :]
            elif kind.says("PRIMARY"):
                rest = definition[place + 4 :]
            else:
                continue
            listed = tuple(_listed(rest))
            yield Key(name.text, listed if place == 0 else (definition[0].text,))


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        if quoted := found["quoted"]:
            mark = {"[": "]"}.get(quoted[0], quoted[0])
            yield _Token(quoted[1:-1].replace(mark * 2, mark), quoted=True)
        elif found["word"] or found["sign"]:
            yield _Token(found["word"] or found["sign"])


def _definitions(tokens: Iterator[_Token]) -> Iterator[list[_Token]]:
    """Return what stands between the commas of the outermost parentheses."""
    depth, definition = 0, list[_Token]()
    for token in tokens:
        depth -= token.says(")")
        if depth == 0 and token.says(")"):
            break
        if depth == 1 and token.says(","):
            yield definition
            definition = []
        elif depth:
            definition.append(token)
        depth += token.says("(")
    if definition:
        yield definition


def _listed(tokens: Sequence[_Token]) -> Iterator[str]:
    """Return the first word of each part of a list in parentheses."""
    if not tokens or not tokens[0].says("("):
        return
    first = True
    for token in tokens[1:]:
        if token.says(")"):
            return
        if first:
            yield token.text
        first = token.says(",")


def _folded(columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(column.casefold() for column in columns)
