"""The caller's SQLAlchemy connection or session, sync or async, over any driver we know.

Statements go as driver text over the connection that its transaction uses, so engine events see
them. A session that has not begun yet begins as it does with a query of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

from sqlalchemy import Connection, exc
from sqlalchemy.orm import Session, scoped_session

from onejob.adapters import family, ordered
from onejob.errors import UsageError

_Style = Literal["named", "pyformat", "typed"]

#: How the driver below SQLAlchemy reads parameters.
_STYLES: dict[str, _Style] = {
    "psycopg": "pyformat",
    "psycopg2": "pyformat",
    "asyncpg": "typed",
    "pysqlite": "named",
    "aiosqlite": "named",
    "pymysql": "pyformat",
}


class SqlalchemyWithin:
    """Carries a statement inside the caller's transaction."""

    def __init__(self, given: Any) -> None:
        self.given: Connection | Session = given() if isinstance(given, scoped_session) else given
        self._kind = f"SQLAlchemy {type(self.given).__name__}"
        self._dialect = _dialect(self.given)
        self._joined: Any = None

    @property
    def dialect(self) -> str:
        """Return the database's kind."""
        return family(str(self._dialect.name))

    @property
    def style(self) -> _Style:
        """Return how the driver below reads parameters."""
        return _STYLES[self._dialect.driver]

    def check(self) -> None:
        """Raise UsageError where nothing could join a transaction: before any I/O."""
        if self._dialect.driver not in _STYLES:
            raise UsageError(
                f"within= got a {self._kind} over {self._dialect.driver}, which onejob does not "
                f"know. Use one over {', '.join(sorted(_STYLES))}."
            )
        if isinstance(self.given, Session):
            self._check_session(self.given)
        else:
            self._check_connection(self.given)
        failed = self.given.get_nested_transaction() or self.given.get_transaction()
        if failed is not None and not failed.is_active:
            raise UsageError(
                f"within= got a {self._kind} whose transaction has failed already; the first error "
                "in it is the cause. Roll back, and begin again."
            )

    @property
    def open(self) -> bool:
        """Tell whether the transaction that was joined is still open."""
        return self._joined is not None and bool(self._joined.is_active)

    def execute(self, text: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Carry out one statement and return its rows."""
        connection = self._begun()
        given: Any = ordered(parameters) if self.style == "typed" else dict(parameters)
        result = connection.exec_driver_sql(text, given)
        return [tuple(row) for row in result] if result.returns_rows else ()

    def savepoint(self) -> AbstractContextManager[Any]:
        """Return a nested transaction of SQLAlchemy's, so that a Session's flush may fail in it."""
        return _Nested(self)

    def _begun(self) -> Connection:
        """Return the connection, in a transaction: SQLAlchemy's, and the driver's below it."""
        connection = self.given.connection() if isinstance(self.given, Session) else self.given
        if _autocommits(connection):
            raise UsageError(_AUTOCOMMIT.format(self._kind))
        if not connection.in_transaction():
            connection.begin()
        if self._joined is None:
            self._joined = self.given.get_transaction()
        if self.dialect == "sqlite":
            self._begin_sqlite(connection)
        return connection

    def _begin_sqlite(self, connection: Connection) -> None:
        """Begin where the driver would: it does before INSERT, and not before WITH."""
        driver: Any = connection.connection.driver_connection
        if driver.in_transaction:
            return
        if driver.isolation_level is None:
            raise UsageError(_AUTOCOMMIT.format(self._kind))
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def _check_session(self, session: Session) -> None:
        if not session.in_transaction() and not session.autobegin:
            raise UsageError(
                f"within= got a {self._kind} that has not begun, and was made not to do so by "
                "itself. Use it inside `with session.begin():`."
            )

    def _check_connection(self, connection: Connection) -> None:
        if connection.closed:
            raise UsageError(f"within= got a {self._kind} that is closed. Give an open one.")
        if connection.invalidated:
            raise UsageError(
                f"within= got a {self._kind} that has lost its server, and its transaction with "
                "it. Roll back, and begin again."
            )
        if _autocommits(connection):
            raise UsageError(_AUTOCOMMIT.format(self._kind))


class _Nested:
    """A savepoint of SQLAlchemy's, begun where the driver below has begun too."""

    def __init__(self, within: SqlalchemyWithin) -> None:
        self._within = within
        self._nested: Any = None

    def __enter__(self) -> None:
        self._within._begun()
        self._nested = self._within.given.begin_nested()

    def __exit__(self, *raised: Any) -> None:
        self._nested.__exit__(*raised)


class _AsyncNested:
    """The same, driven by SQLAlchemy's bridge."""

    def __init__(self, given: Any, inside: SqlalchemyWithin) -> None:
        self._given, self._nested = given, _Nested(inside)

    async def __aenter__(self) -> None:
        await self._given.run_sync(lambda _: self._nested.__enter__())

    async def __aexit__(self, *raised: Any) -> None:
        await self._given.run_sync(lambda _: self._nested.__exit__(*raised))


class AsyncSqlalchemyWithin:
    """The same for an ``AsyncConnection`` or ``AsyncSession``: what is sync inside it, driven so.

    SQLAlchemy's own bridge runs the sync part, and awaits the driver where that waits.
    """

    def __init__(self, given: Any) -> None:
        # An async_scoped_session is called for the session of this task.
        self.given: Any = given() if callable(given) else given
        inside = getattr(self.given, "sync_session", None) or self.given.sync_connection
        if inside is None:
            raise UsageError(
                "within= got a SQLAlchemy AsyncConnection that is closed, or was never started. "
                "Use it inside `async with engine.connect() as connection:`."
            )
        self._inside = SqlalchemyWithin(inside)

    @property
    def dialect(self) -> str:
        """Return the database's kind, as SQLAlchemy names it."""
        return self._inside.dialect

    @property
    def style(self) -> _Style:
        """Return how the driver below reads parameters."""
        return self._inside.style

    @property
    def open(self) -> bool:
        """Tell whether the transaction that was joined is still open."""
        return self._inside.open

    def check(self) -> None:
        """Raise UsageError where nothing could join a transaction: before any I/O."""
        self._inside.check()

    def savepoint(self) -> _AsyncNested:
        """Return a nested transaction of SQLAlchemy's."""
        return _AsyncNested(self.given, self._inside)

    async def aexecute(self, text: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Carry out one statement and return its rows."""
        rows: Sequence[Sequence[Any]] = await self.given.run_sync(
            lambda _: self._inside.execute(text, parameters)
        )
        return rows


_AUTOCOMMIT = (
    "within= got a {} in autocommit mode, so nothing would hold your change and ours together. "
    "Give one of an engine without isolation_level='AUTOCOMMIT' (for SQLite: None)."
)


def _dialect(given: Connection | Session) -> Any:
    if not isinstance(given, Session):
        return given.dialect
    try:
        return given.get_bind().dialect
    except exc.UnboundExecutionError:
        raise UsageError(
            "within= got a SQLAlchemy Session that is bound to no engine of its own. Give the "
            "connection that it uses for your tables: "
            "session.connection(bind_arguments={'mapper': YourModel})."
        ) from None


def _autocommits(connection: Connection) -> bool:
    options = connection.get_execution_options()
    level = options.get("isolation_level")
    if level is None:
        level = getattr(connection.dialect, "_on_connect_isolation_level", None)
    return bool(level == "AUTOCOMMIT")
