"""Explain a violation from the error itself: the database is not asked, nothing is sent.

So it works inside a transaction that has failed, where every question would fail as well, and for a
log that somebody sends. An error is looked for in whatever was wrapped around it: SQLAlchemy's
``orig``, causes, contexts, groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from onejob.core.sqlstates import NUMBERS, RESULTS, STATES, State
from onejob.core.violation import UNKNOWN, Explanation, Facts, after, explained
from onejob.core.violation_text import violations
from onejob.core.violation_words import Names, detail, of_mariadb, of_postgresql, of_sqlite
from onejob.errors import UsageError

#: Errors looked at in one chain; a chain may have a ring in it.
CHAIN_MAX: Final = 200

_MYSQL_DRIVERS: Final = {"pymysql", "MySQLdb", "asyncmy", "aiomysql", "mysql", "mariadb"}
#: What libraries raise where a transaction has failed before: they ask the server no more.
_FAILED_BEFORE: Final = {"TransactionManagementError", "PendingRollbackError"}


def explain(
    error: BaseException | str, *, constraint: str | None = None, values: bool = False
) -> Explanation:
    """Say what was violated, and what to do, from an exception or from text alone.

    Of a text, or a chain of exceptions, the first violation that is met: of a transaction that was
    aborted before, ``first`` has its first error where that is in the chain. With ``constraint``, a
    duplicate of any other key has the kind ``other-constraint``. The values of the row are left out
    unless ``values=True``. An error that is none of these has the kind ``unknown``.

    Raises UsageError for what is neither an exception nor text.
    """
    if isinstance(error, str):
        found = next(explanations(error.splitlines(), constraint=constraint, values=values), None)
        return UNKNOWN if found is None else found
    if not isinstance(error, BaseException):
        raise UsageError(
            f"explain() takes an exception or text, not {type(error).__name__}. Give the exception "
            "that you caught, or the line of the log."
        )
    return _of_chain(error, constraint=constraint, values=values)


def explanations(
    lines: Iterable[str], *, constraint: str | None = None, values: bool = False
) -> Iterator[Explanation]:
    """Return every violation in the lines of a log, in their order, as they are read."""
    for facts in violations(lines):
        yield explained(facts, constraint=constraint, values=values)


def itself(error: BaseException) -> Facts | None:
    """Return what a driver's error says, bare or as SQLAlchemy or Django hand it on.

    Not what stands in the context of an error of somebody else's: that one is not the violation.
    """
    for _ in range(CHAIN_MAX):
        facts = _of_driver(error)
        if facts is not None:
            return facts
        inner = _wrapped(error)
        if inner is None:
            return None
        error = inner
    return None


def _of_chain(error: BaseException, **options: Any) -> Explanation:
    aborted: Explanation | None = None
    unknown = UNKNOWN
    chain = list(_chain(error))
    for each in chain:
        if aborted is None and type(each).__name__ in _FAILED_BEFORE:
            failed = explained(Facts("postgresql", STATES["25P02"]), **options)
            aborted = replace(failed, sqlstate=None, name=type(each).__name__, database=None)
            continue
        facts = _of_driver(each)
        if facts is None:
            if unknown.sqlstate is None and (code := _code(each)):
                unknown = replace(UNKNOWN, sqlstate=code)
            continue
        found = explained(facts, **options)
        if found.kind != "aborted-transaction":
            return found if aborted is None else after(found, aborted)
        aborted = aborted or found
    # Wrapped by hand into an error that keeps the words alone.
    for each in chain:
        for found in explanations(str(each).splitlines(), **options):
            if found.kind != "aborted-transaction":
                return found if aborted is None else after(found, aborted)
            aborted = aborted or found
    return aborted or unknown


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Return an error and what it came from: the nearest first, each once."""
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < CHAIN_MAX:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        inner = [getattr(each, "orig", None), each.__cause__]
        if not each.__suppress_context__:
            inner.append(each.__context__)
        if isinstance(each, BaseExceptionGroup):
            inner += each.exceptions
        waiting = [found for found in inner if isinstance(found, BaseException)] + waiting


def _wrapped(error: BaseException) -> BaseException | None:
    """Return the driver's error that a library has put into one of its own."""
    roots = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    if "sqlalchemy" in roots:
        inner = getattr(error, "orig", None) or error.__cause__
    elif "django" in roots:
        inner = error.__cause__
    else:
        inner = None
    return inner if isinstance(inner, BaseException) else None


def _of_driver(error: BaseException) -> Facts | None:
    """Return what a driver's own error says; None for any other, or one of another class."""
    if getattr(error, "diag", None) is not None:
        return _of_fields(error.diag, _code(error), "constraint_name", "message_")  # type: ignore[attr-defined]
    if hasattr(error, "constraint_name") and hasattr(error, "sqlstate"):  # asyncpg
        return _of_fields(error, _code(error), "constraint_name", "")
    roots = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    if roots & _MYSQL_DRIVERS:
        return _of_mysql(error)
    if "sqlite3" in roots:
        return _of_sqlite(error)
    match error.args:
        case ({"C": code, **fields}, *_) if code in STATES:  # pg8000
            message = str(fields.get("M", ""))
            said = Names(str(fields.get("n", "")), str(fields.get("t", "")))
            return _postgresql(STATES[code], said, message, str(fields.get("D", "")), "")
    return None


def _of_fields(given: Any, code: str, constraint: str, prefix: str) -> Facts | None:
    """Read the fields of PostgreSQL's error, as psycopg, psycopg2 and asyncpg have them."""
    state = STATES.get(code)
    if state is None:
        return None
    said = Names(_field(given, constraint), _field(given, "table_name"))
    message = _field(given, "message_primary" if prefix else "message") or str(given)
    more = _field(given, f"{prefix}detail")
    return _postgresql(state, said, message, more, _field(given, "column_name"))


def _postgresql(state: State, said: Names, message: str, more: str, column: str) -> Facts:
    read = of_postgresql(state.code, message)
    columns, values = detail(more) if state.kind != "check" else ((), "")
    return Facts(
        "postgresql",
        state,
        said.constraint or read.constraint,
        said.table or read.table,
        columns or ((column,) if column else read.columns),
        values,
        read.building,
    )


def _of_mysql(error: BaseException) -> Facts | None:
    number = getattr(error, "errno", None) or (error.args[0] if error.args else None)
    if number not in NUMBERS:
        return None
    message = next((part for part in error.args if isinstance(part, str)), str(error))
    return _named("mariadb", NUMBERS[number], of_mariadb(number, message))


def _of_sqlite(error: BaseException) -> Facts | None:
    found = of_sqlite(str(error))
    name = getattr(error, "sqlite_errorname", None) or (found[0] if found else "")
    if name not in RESULTS:
        return None
    return _named("sqlite", RESULTS[name], found[1] if found else Names())


def _named(database: Any, state: State, names: Names) -> Facts:
    return Facts(database, state, names.constraint, names.table, names.columns, names.values)


def _code(error: BaseException) -> str:
    code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return code if isinstance(code, str) and re.fullmatch(r"[0-9A-Z]{5}", code) else ""


def _field(given: Any, name: str) -> str:
    value = getattr(given, name, None)
    return value if isinstance(value, str) else ""
