"""Find the text of a command: PostgreSQL's, unless the dialect has its own.

Texts live in ``.sql`` files. A statement starts at ``-- name: NAME``; a dialect without
data-modifying CTEs says it in steps, parted by ``-- then``, and marks with ``-- answer`` the step
whose rows are the answer (the last one if none is marked). Two substitutions exist: ``{schema}``
(a quoted schema with its dot, or a prefix) and ``{now}`` (the given instant, or the store's clock).
Parameters are written ``:name`` and rendered in the driver's style.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from onejob.commands.command import Parameter
from onejob.errors import UnsupportedByStore, UsageError
from onejob.stores.protocol import Statement, Style

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)\b")
_AS_JSON = re.compile(r"CAST\((:[a-z_]+) AS (jsonb?)\)")
_REMARK = re.compile(r"^--[^\n]*\n", re.MULTILINE)

#: How each dialect writes "the given instant, or this store's clock".
_NOW = {
    "postgresql": "COALESCE(CAST(:now AS bigint), "
    "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint))",
    "sqlite": ":now",
    # Arithmetic on UTC alone: a session's time zone, and its hour that comes twice, are not asked.
    "mariadb": "COALESCE(:now, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', "
    "UTC_TIMESTAMP(6)))",
}
_OVERRIDES = {"postgresql": None, "sqlite": "sqlite", "mariadb": "mariadb"}
#: A dialect that carries a part of the commands: those in its folder, and these of the base.
_PARTS = {"mariadb": ("view_clock",)}


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of a command; ``answers`` where its rows are the command's.

    ``names`` are its parameters in the order of their numbers, where the style has numbers.
    """

    text: str
    answers: bool
    names: tuple[str, ...] | None = None

    def given(self, parameters: Mapping[str, Parameter]) -> Statement:
        """Return it with its parameters: all of them by name, or the numbered ones in order."""
        if self.names is not None:
            parameters = {name: parameters[name] for name in self.names}
        return Statement(self.text, parameters, self.answers)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The texts of one dialect in one schema."""

    dialect: str
    schema: str

    def steps(self, name: str, style: Style) -> tuple[Step, ...]:
        """Return the statements of a command, ready for a driver of this style."""
        return _rendered(self.dialect, self.schema, name, style)

    def source(self, name: str) -> str:
        """Return the effective text of a command as it stands in its file, for people."""
        return _texts(self.dialect)[_known(self.dialect, name)]

    def names(self) -> tuple[str, ...]:
        """Return every command that has a text."""
        return tuple(sorted(_texts(self.dialect)))

    def migrations(self) -> tuple[tuple[int, str], ...]:
        """Return the versions of the schema and their texts, oldest first."""
        return tuple(
            (version, text.replace("{schema}", self.prefix))
            for version, text in _migrations(self.dialect)
        )

    @property
    def prefix(self) -> str:
        """What stands for ``{schema}``."""
        return _prefix(self.dialect, self.schema)


def statements(text: str) -> dict[str, str]:
    """Split a ``.sql`` file into its named statements."""
    parts = _NAME.split(text)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _known(dialect: str, name: str) -> str:
    if dialect in _PARTS and name not in _texts(dialect) and name in _folder("base"):
        raise UnsupportedByStore(
            "keep runs, schedules and effects",
            "MariaDB",
            instead="This version keeps locks, fences, periods and guarded ticks there; for the "
            "rest use postgresql:// or sqlite:///.",
        )
    if name not in _texts(dialect):
        raise UsageError(f"no command {name!r}. Known: {', '.join(sorted(_texts(dialect)))}")
    return name


@cache
def _texts(dialect: str) -> dict[str, str]:
    texts = _folder("base")
    override = _OVERRIDES[dialect]
    if dialect in _PARTS:
        texts = {name: texts[name] for name in _PARTS[dialect]}
    return texts if override is None else {**texts, **_folder(override)}


def _folder(name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    folder = resources.files("onejob.stores") / "sql" / name
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            found.update(statements(file.read_text("utf-8")))
    return found


@cache
def _migrations(dialect: str) -> tuple[tuple[int, str], ...]:
    folder = resources.files("onejob.stores") / "sql" / (_OVERRIDES[dialect] or "base")
    files = sorted((folder / "migrations").iterdir(), key=lambda entry: entry.name)
    return tuple((int(file.name[:4]), file.read_text("utf-8")) for file in files)


@cache
def _rendered(dialect: str, schema: str, name: str, style: Style) -> tuple[Step, ...]:
    parts = re.split(r"^-- then\n", _texts(dialect)[_known(dialect, name)], flags=re.MULTILINE)
    marked = [re.search(r"^-- answer\n", part, re.MULTILINE) is not None for part in parts]
    if not any(marked):
        marked[-1] = True
    prefix = _prefix(dialect, schema)
    texts = [
        _REMARK.sub("", part).replace("{schema}", prefix).replace("{now}", _NOW[dialect]).strip()
        for part in parts
    ]
    return tuple(render(text, style, answers) for text, answers in zip(texts, marked, strict=True))


def render(text: str, style: Style, answers: bool = True) -> Step:
    """Write the ``:name`` parameters of a text as a driver of this style reads them."""
    if style == "named":
        return Step(text, answers)
    if style == "pyformat":
        # By a function: a template is compiled by modules that are gone when the interpreter ends.
        named = _PARAMETER.sub(lambda match: f"%({match[1]})s", text.replace("%", "%%"))
        return Step(named, answers)
    names: list[str] = []
    if style == "typed":
        text = _AS_JSON.sub(r"CAST(CAST(\1 AS text) AS \2)", text)

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    return Step(_PARAMETER.sub(number, text), answers, tuple(names))


def _prefix(dialect: str, schema: str) -> str:
    return f'"{schema}".' if dialect == "postgresql" else f"{schema}_"
