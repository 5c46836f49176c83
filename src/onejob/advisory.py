"""PostgreSQL's advisory locks, for short work in a transaction that you have open anyway.

The lock is the transaction's: COMMIT and ROLLBACK release it, a server that loses you rolls back,
and nothing else does. There is no session lock here: behind a pooler its unlock goes to another
connection, and the lock stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from onejob.adapters import adapter_of
from onejob.core.names import check_name
from onejob.core.time import SECOND, Duration, Span, duration
from onejob.errors import UnsupportedByStore, UsageError
from onejob.lent import refuse_failed
from onejob.runtime.events import log
from onejob.stores.catalogue import Step, render

_KEY_LEAST: Final = -(2**63)
_KEY_MOST: Final = 2**63 - 1

#: Tries the lock; where another transaction has it, says how long ago that one began, in
#: microseconds (-1: got it; 0: the server does not tell this role). A lock's key stands in pg_locks
#: in two halves.
_TEXT: Final = """\
SELECT CASE
         WHEN pg_try_advisory_xact_lock(CAST(:key AS bigint)) THEN -1
         ELSE COALESCE((SELECT CAST(extract(epoch FROM clock_timestamp() - a.xact_start) * 1000000
                                    AS bigint)
                          FROM pg_catalog.pg_locks AS l
                          JOIN pg_catalog.pg_stat_activity AS a
                            ON a.pid = l.pid
                         WHERE l.locktype = 'advisory'
                           AND l.database = (SELECT oid FROM pg_catalog.pg_database
                                              WHERE datname = current_database())
                           AND CAST(l.classid AS bigint) = CAST(:high AS bigint)
                           AND CAST(l.objid AS bigint) = CAST(:low AS bigint)
                           AND l.objsubid = 1
                           AND l.granted
                         LIMIT 1), 0)
       END"""


def advisory_key(name: str, namespace: str = "") -> int:
    """Return the bigint that stands for a name: the same in every language, and for ever.

    The first 64 bits of SHA-256 of namespace, NUL and name in UTF-8, signed, big-endian.
    """
    check_name(name, what="name")
    if namespace != "":
        check_name(namespace, what="namespace")
    digest = hashlib.sha256(f"{namespace}\0{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def transaction_lock(
    connection: Any, name: str | int, namespace: str = "", *, warn_after: Duration = "30s"
) -> bool:
    """Try to take PostgreSQL's advisory lock ``name`` in your transaction; False: held elsewhere.

    Never waits, costs one statement, and holds until your transaction ends. An int is the lock's
    number itself. Whoever is refused warns in the log where the holder's transaction has been open
    for longer than ``warn_after``. Taking it twice in one session succeeds: PostgreSQL counts.
    Raises UsageError for a connection without a transaction, and UnsupportedByStore for databases
    whose locks are not a transaction's.
    """
    asked = _Asked(connection, name, namespace, warn_after)
    if hasattr(asked.adapter, "aexecute"):
        raise UsageError(
            "transaction_lock got an async connection. Use `await onejob.atransaction_lock(...)`."
        )
    with refuse_failed():
        return asked.answer(asked.adapter.execute(asked.step.text, asked.parameters))


async def atransaction_lock(
    connection: Any, name: str | int, namespace: str = "", *, warn_after: Duration = "30s"
) -> bool:
    """The same over an async connection; see :func:`transaction_lock`."""
    asked = _Asked(connection, name, namespace, warn_after)
    if not hasattr(asked.adapter, "aexecute"):
        raise UsageError(
            "atransaction_lock got a sync connection, which would stop the event loop while it "
            "waits for the server. Use onejob.transaction_lock(...) in its thread."
        )
    with refuse_failed():
        return asked.answer(await asked.adapter.aexecute(asked.step.text, asked.parameters))


class _Asked:
    """One question, checked before any I/O."""

    def __init__(
        self, connection: Any, name: str | int, namespace: str, warn_after: Duration
    ) -> None:
        key = _key(name, namespace)
        self._name, self._key = name, key
        self._warn_after = duration(warn_after, what="warn_after", least=Span(1_000))
        self.adapter = _adapter(connection)
        self.step: Step = render(_TEXT, self.adapter.style)
        halves = {"high": (key >> 32) & 0xFFFFFFFF, "low": key & 0xFFFFFFFF}
        self.parameters = self.step.given({"key": key, **halves}).parameters

    def answer(self, rows: Sequence[Sequence[Any]]) -> bool:
        held = int(rows[0][0])
        if held > self._warn_after:
            log.warning(
                "advisory lock %r (%d) is held by a transaction that has been open for %.1f s, "
                "longer than %.1f s: it keeps a connection and old rows with it. Use app.lock for "
                "long work",
                self._name,
                self._key,
                held / SECOND,
                self._warn_after / SECOND,
            )
        return held < 0


def _key(name: object, namespace: str) -> int:
    if isinstance(name, bool) or not isinstance(name, int | str):
        raise UsageError(
            f"name must be text, or an int that is the lock's number, not {type(name).__name__}."
        )
    if isinstance(name, str):
        return advisory_key(name, namespace)
    if namespace:
        raise UsageError(
            f"name={name} is the lock's number itself, so namespace={namespace!r} would change "
            "nothing. Leave it out, or give the name as text."
        )
    if not _KEY_LEAST <= name <= _KEY_MOST:
        raise UsageError(f"name={name} is no bigint: give one from -2^63 to 2^63 - 1.")
    return name


#: Databases of which a connection may come here, and why their locks are no transaction's.
_ELSEWHERE: Final = {
    "mysql": "GET_LOCK there belongs to the session and to the whole server, and a COMMIT keeps it",
    "sqlite": "its one write lock is for the whole file, so every other name would be refused too",
}
_MYSQL: Final = {"pymysql", "MySQLdb", "mysql", "mariadb", "aiomysql", "asyncmy"}


def _adapter(connection: Any) -> Any:
    if type(connection).__module__.partition(".")[0] in _MYSQL:
        raise _unsupported("mysql")
    try:
        adapter = adapter_of(connection)
    except UsageError as error:
        raise UsageError(str(error).replace("within=", "transaction_lock")) from None
    if adapter.dialect != "postgresql":
        raise _unsupported("mysql" if adapter.dialect == "mariadb" else adapter.dialect)
    try:
        adapter.check()
    except UsageError as error:
        raise UsageError(str(error).replace("within=", "transaction_lock")) from None
    return adapter


def _unsupported(dialect: str) -> UnsupportedByStore:
    why = _ELSEWHERE.get(dialect, "it has no lock that ends with a transaction")
    return UnsupportedByStore(
        "take a named lock for the length of a transaction",
        dialect,
        instead=f"{why[0].upper()}{why[1:]}. Use app.lock(name), a lease that every store has.",
    )
