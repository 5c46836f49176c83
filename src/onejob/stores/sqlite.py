"""SQLite: one machine, many processes.

Every write is one ``BEGIN IMMEDIATE`` transaction: a transaction that reads first and writes later
fails at once with SQLITE_BUSY_SNAPSHOT, whatever the timeout, so none does. Pragmas are set on
each connection (they do not outlive it). Commits are durable: WAL with ``synchronous = FULL``.
There is one writer: a transaction held open stops every other one, so those are bounded.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from onejob.commands.command import Command, Parameter, Row
from onejob.core.time import SECOND, Span
from onejob.errors import LeaseLost, OnejobError, StoreUnavailable, UsageError
from onejob.stores import migrate
from onejob.stores.catalogue import Catalogue
from onejob.stores.connections import Connections
from onejob.stores.forkgate import gate
from onejob.stores.migrate import Migrated
from onejob.stores.protocol import Statement, Style, Within

T = TypeVar("T")

#: The oldest SQLite whose RETURNING and UPDATE … FROM the texts need.
OLDEST = (3, 35, 0)

#: How long a writer waits for another process before it gives up.
PATIENCE = Span(8 * SECOND)


class SqliteStore:
    """A store in one file. ``clock`` is the host's, in microseconds."""

    dialect = "sqlite"

    def __init__(
        self,
        path: str | Path,
        *,
        schema: str = "onejob",
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000,
        patience: Span = PATIENCE,
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise UsageError(
                f"SQLite {sqlite3.sqlite_version} is older than "
                f"{'.'.join(map(str, OLDEST))}, which onejob needs. Use a newer Python or system."
            )
        self.path = os.path.abspath(path)
        self.where = self.path
        self.catalogue = Catalogue(self.dialect, schema)
        self._clock, self._patience = clock, patience
        self._connections: Connections[sqlite3.Connection] = Connections(self._connect, _usable)
        # Threads of one process take turns here, in order; SQLite's own waiting is a sleep loop.
        self._writing = threading.Lock()
        self._writer = 0
        self._pid = os.getpid()
        gate.watch(self)

    def run(self, command: Command[T], within: Within | None = None) -> T:
        """Carry out one command: atomically by itself, or within the caller's transaction."""
        if within is not None:
            return self._carry(command, within.execute, within.style)
        with self._mapped():
            if not command.writes:
                with self._connections.lend() as connection:
                    return self._carry(command, _execute(connection))
            with self._turn(), self._connections.lend() as connection, _write(connection):
                return self._carry(command, _execute(connection))

    def statements(self, command: Command[T], style: Style) -> Sequence[Statement]:
        """Return what ``run`` would send; the host's clock stands in for an absent ``now``."""
        parameters = command.parameters
        if "now" in parameters and parameters["now"] is None:
            parameters = {**parameters, "now": self._clock()}
        return [step.given(parameters) for step in self.catalogue.steps(command.name, style)]

    @contextmanager
    def transaction(self, *, longest: Span) -> Iterator[sqlite3.Connection]:
        """Open a write transaction; yields the connection, commits at the end.

        While it is open nobody else can write, renewals included. So it ends within ``longest``:
        statements past it are interrupted, and the block is rolled back with LeaseLost.
        """
        ends = time.monotonic_ns() // 1_000 + longest

        def over() -> bool:
            return time.monotonic_ns() // 1_000 > ends

        # Only what is ours is mapped: an error of the caller's own statements is the caller's.
        with ExitStack() as stack:
            with self._mapped():
                stack.enter_context(gate.use())
                stack.enter_context(self._turn())
                connection = stack.enter_context(self._connections.lend())
                stack.enter_context(self._begun(connection))
            connection.set_progress_handler(over, 10_000)
            connection.set_authorizer(_ours_to_end)
            try:
                yield connection
            except sqlite3.DatabaseError as error:
                if "not authorized" in str(error):
                    raise UsageError(_NOT_YOURS_TO_END) from error
                if over() and "interrupted" in str(error):
                    raise LeaseLost("transaction", token=0, why=_too_long(longest)) from error
                raise
            finally:
                connection.set_authorizer(None)
                connection.set_progress_handler(None, 0)
                # Our own commands use this connection next, and take rows as they come.
                connection.row_factory, connection.text_factory = None, str
            if over():
                raise LeaseLost("transaction", token=0, why=_too_long(longest))

    @contextmanager
    def _begun(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Begin now; commit at the end, or roll back, with these errors mapped and no others."""
        connection.execute("BEGIN IMMEDIATE")
        with _rolled_back(connection):
            yield
            with self._mapped():
                connection.execute("COMMIT")

    def lane(self, *, patience: Span) -> SqliteLane:
        """Open a connection of its own for a keeper, with a bound on every wait."""
        return SqliteLane(
            SqliteStore(
                self.path, schema=self.catalogue.schema, clock=self._clock, patience=patience
            )
        )

    def version(self) -> int | None:
        """Return the version of the schema; None where there is none."""
        with self._mapped(), self._connections.lend() as connection:
            if not self._has_migrations(connection):
                return None
            text = _NEWEST.format(table=f"{self.catalogue.prefix}migration")
            found = connection.execute(text).fetchone()[0]
            return None if found is None else int(found)

    def check(self) -> None:
        """Raise SchemaMismatch unless the schema is the one this release is written for."""
        migrate.check(self.catalogue, self.version(), self.where)

    def init(self) -> Migrated:
        """Install or upgrade the schema, all or nothing."""
        table = f"{self.catalogue.prefix}migration"
        with self._mapped(), self._turn(), self._connections.lend() as connection:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            with _write(connection):
                there = self._has_migrations(connection)
                connection.execute(_MIGRATION.format(table=table, exists="IF NOT EXISTS "))
                found = connection.execute(_NEWEST.format(table=table)).fetchone()[0]
                return migrate.apply(
                    self.catalogue,
                    found if there else None,
                    self.where,
                    script=lambda text: _script(connection, text),
                    record=lambda version: connection.execute(
                        _RECORD.format(table=table), (version,)
                    ),
                )

    def script(self) -> str:
        """Return the whole schema as one text."""
        table = f"{self.catalogue.prefix}migration"
        opening = ["PRAGMA journal_mode = WAL;", _MIGRATION.format(table=table, exists="") + ";"]
        return migrate.as_script(self.catalogue, opening)

    def changes_seen(self) -> int:
        """Return the change counter as an idle connection of this store sees it."""
        with self._mapped(), self._connections.lend() as connection:
            return int(connection.execute("PRAGMA data_version").fetchone()[0])

    def reap(self) -> None:
        """Close connections that have been idle for long enough."""
        self._connections.reap()

    def close(self) -> None:
        """Close every idle connection."""
        self._connections.close()

    def _carry(self, command: Command[T], execute: Execute, style: Style = "named") -> T:
        answer: Sequence[Row] = ()
        for statement in self.statements(command, style):
            rows = execute(statement.text, statement.parameters)
            answer = rows if statement.answers else answer
        return command.decode(answer)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=self._patience / SECOND,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        for pragma in ("synchronous = FULL", "temp_store = MEMORY", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _has_migrations(self, connection: sqlite3.Connection) -> bool:
        text = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return (
            connection.execute(text, (f"{self.catalogue.prefix}migration",)).fetchone() is not None
        )

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._pid != os.getpid():
            self._writing, self._pid, self._writer = threading.Lock(), os.getpid(), 0
        mine = threading.get_ident()
        if self._writer == mine:
            raise UsageError(_WAITS_FOR_ITSELF)
        if not self._writing.acquire(timeout=self._patience / SECOND):
            raise StoreUnavailable(self.where, "another thread has been writing for too long")
        self._writer = mine
        try:
            yield
        finally:
            self._writer = 0
            self._writing.release()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Turn the driver's errors into ours, in this one place."""
        try:
            if gate.torn:
                raise StoreUnavailable(self.where, _TORN, advice=_TORN_ADVICE)
            with gate.use():
                yield
        except OnejobError:
            raise
        except sqlite3.DatabaseError as error:
            explained = self._explained(error)
            if explained is None:
                raise
            raise explained from error

    def _explained(self, error: sqlite3.DatabaseError) -> OnejobError | None:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if f"no such table: {self.catalogue.prefix}" in str(error):
            return migrate.mismatch(self.catalogue, self.where)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            waited = f"another process has been writing for more than {self._patience / SECOND:g} s"
            return StoreUnavailable(
                self.where,
                waited,
                advice="Nothing was written. End that transaction, or try again.",
            )
        if code == sqlite3.SQLITE_FULL:
            return StoreUnavailable(
                self.where, "the disk is full", advice="Nothing was written. Free some space first."
            )
        if code in _FILE_TROUBLE:
            return StoreUnavailable(self.where, str(error))
        return None


class SqliteLane:
    """A keeper's own connection. The file's change counter serves as the hint.

    One connection for both: ``data_version`` moves when *another* connection commits, so the
    keeper's own renewals are no hints.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._listening = False
        self._version = -1

    def run(self, command: Command[T]) -> T:
        """Carry out a command on the lane's own connection."""
        return self._store.run(command)

    def listen(self) -> bool:
        """Watch the change counter; a look costs microseconds."""
        self._listening = True
        self.hinted()
        return True

    def fileno(self) -> int | None:
        """There is nothing to wait on; ask :meth:`hinted`."""
        return None

    def hinted(self) -> bool:
        """Tell whether anybody else has committed since the last call."""
        if not self._listening:
            return False
        before, self._version = self._version, self._store.changes_seen()
        return self._version != before

    def close(self) -> None:
        """Close the connection; it is opened anew when it is needed."""
        self._store.close()


Execute = Callable[[str, Mapping[str, Parameter]], Sequence[Row]]

#: Trouble with the file itself; anything else is a mistake in a text.
_FILE_TROUBLE = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CORRUPT,
)

_TORN = "this process was forked while its parent was inside a long transaction on SQLite"
_TORN_ADVICE = "Fork before the parent uses the store, or exec a new program."

_WAITS_FOR_ITSELF = (
    "this thread has a transaction of this SQLite file open and would wait for itself. Pass the "
    "transaction's connection as within=, or do this before or after it."
)
_NOT_YOURS_TO_END = (
    "this transaction commits at the end of its block, or rolls back when the block raises. Do not "
    "commit, roll back or begin inside it (`with tx:` does; savepoints are fine)."
)

_NEWEST = "SELECT max(version) FROM {table}"
_RECORD = "INSERT INTO {table} (version) VALUES (?)"
_MIGRATION = "CREATE TABLE {exists}{table} (version INTEGER NOT NULL PRIMARY KEY)"


def _execute(connection: sqlite3.Connection) -> Execute:
    def execute(text: str, parameters: Mapping[str, Parameter]) -> Sequence[Row]:
        return connection.execute(text, parameters).fetchall()

    return execute


@contextmanager
def _write(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    with _rolled_back(connection):
        yield
        connection.execute("COMMIT")


@contextmanager
def _rolled_back(connection: sqlite3.Connection) -> Iterator[None]:
    """Roll back what is still open when the block raises."""
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _ours_to_end(action: int, *_: str | None) -> int:
    """Deny BEGIN, COMMIT and ROLLBACK; everything else, savepoints included, goes on."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK


def _script(connection: sqlite3.Connection, text: str) -> None:
    """Run several statements without the COMMIT that ``executescript`` would slip in first."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def _usable(connection: sqlite3.Connection) -> bool:
    return not connection.in_transaction


def _too_long(longest: Span) -> str:
    return (
        f"the transaction was open for more than {longest / SECOND:g} s, and on SQLite an open one "
        "stops every other writer. Nothing was written; do the slow part before it"
    )
