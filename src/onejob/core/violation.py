"""What one error of a database means: found facts in, words for people out. Nobody is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from onejob.core.sqlstates import Database, Kind, State

_KEY = re.compile(r"\s*(?P<table>[^()]+?)\s*\((?P<columns>.+)\)\s*", re.DOTALL)
_UNKNOWN_ADVICE = (
    "This is no violation that onejob knows (SQLSTATE classes 23, 25 and 40, and what MariaDB and "
    "SQLite have for them). Raise it as it is."
)
_CODES_PAGE = "https://www.postgresql.org/docs/current/errcodes-appendix.html"


@dataclass(frozen=True, slots=True)
class Facts:
    """What an error, or a log, says. Empty where it does not; ``values`` are a row's own."""

    database: Database
    state: State
    constraint: str = ""
    table: str = ""
    columns: tuple[str, ...] = ()
    values: str = ""
    #: It was a unique index being built that met standing duplicates.
    building: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """One error of a database, explained.

    ``kind`` says what a caller should tell apart: ``duplicate`` (a unique key), ``foreign-key``,
    ``not-null``, ``check``, ``exclusion``, ``other-constraint``, ``aborted-transaction``,
    ``transaction-state``, ``serialisation``, ``deadlock``, ``rolled-back``, or ``unknown``. What
    the error does not tell is None, and ``columns`` empty. ``first`` is the error that aborted the
    transaction, where it is at hand. ``values`` is what the row held, only where it was asked for.
    """

    kind: Kind
    sqlstate: str | None
    name: str | None
    constraint: str | None
    table: str | None
    columns: tuple[str, ...]
    advice: str
    reference: str
    database: Database | None
    first: Explanation | None = None
    values: str | None = field(default=None, repr=False)

    @property
    def retryable(self) -> bool:
        """Tell whether the same transaction, run again as a whole, may well succeed."""
        return self.kind in ("serialisation", "deadlock")

    def is_duplicate_of(self, constraint: str) -> bool:
        """Tell whether exactly this unique key was violated: its name, or ``table(column, …)``.

        A violation of any other key, or of one whose name the error does not tell, is False. SQLite
        names columns: ask for ``table(column, …)``, or use :func:`onejob.duplicate_ok`.
        """
        if self.kind != "duplicate" or not constraint:
            return False
        if self.constraint is not None and self.constraint == constraint:
            return True
        if self.constraint and self.table and f"{self.table}.{self.constraint}" == constraint:
            return True
        asked = _KEY.fullmatch(constraint)
        if asked is None or self.table is None or not self.columns:
            return False
        columns = {column.strip() for column in asked["columns"].split(",")}
        return asked["table"] == self.table and columns == set(self.columns)

    def __str__(self) -> str:
        """Return it in a few lines: what, where, what to do, and where to read on."""
        said = " ".join(part for part in (self.sqlstate, self.name) if part)
        lines = [f"{said or 'no violation'}: {self.kind}", self.advice, f"See {self.reference}"]
        where = [
            f"{what} {value}"
            for what, value in (
                ("constraint", self.constraint),
                ("table", self.table),
                ("columns", ", ".join(self.columns)),
                ("values", self.values),
            )
            if value
        ]
        if where:
            lines.insert(1, "; ".join(where))
        if self.first is not None:
            lines.insert(-1, f"The first error: {self.first}")
        return "\n".join(lines)


UNKNOWN = Explanation("unknown", None, None, None, None, (), _UNKNOWN_ADVICE, _CODES_PAGE, None)


def explained(facts: Facts, *, values: bool = False, constraint: str | None = None) -> Explanation:
    """Put facts into words; a duplicate of another key than ``constraint`` is another kind."""
    state = facts.state
    found = Explanation(
        state.kind,
        state.code or None,
        state.name,
        facts.constraint or None,
        facts.table or None,
        facts.columns,
        _advice(facts),
        state.page,
        facts.database,
        None,
        (facts.values or None) if values else None,
    )
    if constraint is None or found.kind != "duplicate" or found.is_duplicate_of(constraint):
        return found
    key = facts.constraint or "a key that the error does not name"
    other = f"This is {key}, not {constraint}: no repeat of that work, so raise it. {state.advice}"
    return replace(found, kind="other-constraint", advice=other)


def after(first: Explanation, aborted: Explanation) -> Explanation:
    """Point an aborted transaction's error to the first one in it."""
    key = f" of {first.constraint}" if first.constraint else ""
    cause = f"The first error in this transaction is the cause: {first.name}{key}. "
    return replace(aborted, first=first, advice=f"{cause}Roll back, and begin again.")


def _advice(facts: Facts) -> str:
    if facts.building:
        return (
            "A unique index could not be built: rows that are duplicates of each other stand in "
            "the table. Count them with onejob check-unique TABLE --by COLUMNS, settle them, drop "
            "the invalid index that CONCURRENTLY left behind, and build it again."
        )
    if facts.state.kind != "duplicate":
        return facts.state.advice
    named = facts.constraint and facts.constraint != "PRIMARY"
    key = repr(facts.constraint) if named else "NAME"
    how = f"To take a repeat for done, name the key: with onejob.duplicate_ok({key}, within=conn)"
    if facts.database == "mariadb":  # its ON DUPLICATE KEY UPDATE cannot name a key
        return f"{facts.state.advice} {how}."
    columns = ", ".join(facts.columns) or "its columns"
    return f"{facts.state.advice} {how}, or INSERT … ON CONFLICT ({columns}) DO NOTHING."
