"""MariaDB and MySQL, for locks, fences, periods and guarded ticks: one request a command.

A command is a transaction in READ COMMITTED, sent whole: begin, its steps, commit. What two of them
want is decided by locks on rows, and those that change hands are skipped where somebody's fenced
transaction has them, never waited for. Tokens are the row's last one plus one, and never less than
the server's clock in microseconds, so they go on rising after a row was purged.

``mariadb://user:password@host:3306/database`` or ``mysql://``; with ``?ssl_ca=…`` over TLS. MariaDB
from 10.6 on, MySQL from 8.0 on: both can skip locked rows and read JSON as a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pymysql

from onejob.commands.command import Command, Row
from onejob.core.time import SECOND, Span
from onejob.errors import LeaseLost, OnejobError, SchemaMismatch, StoreUnavailable, UsageError
from onejob.stores import mariadb_errors as errors
from onejob.stores import mariadb_session as session
from onejob.stores import migrate
from onejob.stores.catalogue import Catalogue
from onejob.stores.connections import Connections
from onejob.stores.mariadb_session import Connection
from onejob.stores.mariadb_tidying import Tidying
from onejob.stores.mariadb_url import options
from onejob.stores.migrate import Migrated
from onejob.stores.protocol import Statement, Style, Within

T = TypeVar("T")

#: How often a command that was rolled back is tried.
ATTEMPTS = 6


class MariadbStore:
    """A store in the tables of one database whose names begin with ``{schema}_``."""

    dialect = "mariadb"

    def __init__(self, url: str, *, schema: str = "onejob", where: str = "mariadb") -> None:
        self.where = where
        self.catalogue = Catalogue(self.dialect, schema)
        self._options = options(url)
        self._connections: Connections[Connection] = Connections(self._connect, session.usable)
        self._tidying = Tidying()

    def run(self, command: Command[T], within: Within | None = None) -> T:
        """Carry out one command: atomically by itself, or within the caller's transaction."""
        if within is not None:
            answer: Sequence[Row] = ()
            for statement in self.statements(command, within.style):
                rows = within.execute(statement.text, statement.parameters)
                answer = rows if statement.answers else answer
            return command.decode(answer)
        found = self.carry(command, self._connections)
        self._tidying.after(command, self.carry, self._connections)
        return found

    def statements(self, command: Command[T], style: Style) -> Sequence[Statement]:
        """Return what ``run`` would send; text as its bytes, whatever charset a connection has."""
        parameters: Any = {
            name: value.encode() if isinstance(value, str) else value
            for name, value in command.parameters.items()
        }
        return [step.given(parameters) for step in self.catalogue.steps(command.name, style)]

    def carry(self, command: Command[T], connections: Connections[Connection]) -> T:
        """Carry a command out over one of these connections, and again where that is safe."""
        statements = self.statements(command, "pyformat")
        failures = 0
        while True:
            try:
                with connections.lend() as connection:
                    return command.decode(_sent(connection, statements))
            except (pymysql.MySQLError, OSError) as error:
                failures += 1
                if failures >= ATTEMPTS or not errors.again(command, error, failures):
                    raise self._explained(command, error) from error

    @contextmanager
    def transaction(self, *, longest: Span) -> Iterator[Connection]:
        """Open a transaction; yields a PyMySQL connection of its own, commits at the end.

        READ COMMITTED. The server ends it when it sits idle for longer than ``longest``.
        """
        connection = self._opened(None)
        try:
            with self._mapped():
                _bounded(connection, longest)
                # Not begin(): where sql_mode is ORACLE, BEGIN opens a block of statements.
                session.execute(connection, ["START TRANSACTION"], {}, answer=-1)
            try:
                yield connection
                self._still_there(connection)
                if not session.in_transaction(connection):
                    raise UsageError(_ENDED_INSIDE)
            except pymysql.MySQLError as error:
                if errors.code_of(error) in errors.LOST | errors.NOT_SENT:
                    raise LeaseLost("transaction", token=0, why=_ENDED) from error
                raise
            with self._mapped("commit"):
                connection.commit()
        finally:
            # Whatever the caller did to the session goes with it; what is open is rolled back.
            _closed(connection)

    def lane(self, *, patience: Span) -> MariadbLane:
        """Open a connection for a keeper, each of whose commands ends within ``patience``."""
        return MariadbLane(self, patience / SECOND)

    def version(self) -> int | None:
        """Return the version of the schema; None where there is none."""
        text = f"SELECT MAX(version) FROM {self.catalogue.prefix}migration"  # noqa: S608 - checked
        with self._mapped(), self._connections.lend() as connection:
            try:
                [[found]] = session.execute(connection, [text], {}, answer=0)
            except pymysql.ProgrammingError as error:
                if errors.code_of(error) == errors.NO_TABLE:
                    return None
                raise
        return None if found is None else int(found)

    def check(self) -> None:
        """Raise SchemaMismatch unless the schema is the one this release is written for."""
        migrate.check(self.catalogue, self.version(), self.where)

    def init(self) -> Migrated:
        """Install or upgrade the schema.

        A change of tables commits by itself here, so each statement can be repeated instead.
        """
        found = self.version()
        table = f"{self.catalogue.prefix}migration"
        with self._mapped(), self._connections.lend() as connection:
            session.execute(connection, [_MIGRATION.format(table=table)], {}, answer=-1)
            return migrate.apply(
                self.catalogue,
                found,
                self.where,
                script=lambda text: session.execute(connection, parted(text), {}, answer=-1),
                record=lambda version: session.execute(
                    connection, [_RECORD.format(table=table, version=version)], {}, answer=-1
                ),
            )

    def script(self) -> str:
        """Return the whole schema as one text."""
        table = f"{self.catalogue.prefix}migration"
        return migrate.as_script(self.catalogue, [_MIGRATION.format(table=table) + ";"], [_GRANTS])

    def settings(self, *names: str) -> dict[str, str]:
        """Return the server's variables of these names, those that it has."""
        text = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})".format(
            ", ".join(f"%({name})s" for name in names)
        )
        with self._mapped(), self._connections.lend() as connection:
            rows = session.execute(connection, [text], {name: name for name in names}, answer=0)
        return {str(name): str(value) for name, value in rows}

    def reap(self) -> None:
        """Close connections that have been idle for long enough."""
        self._connections.reap()

    def close(self) -> None:
        """Close every idle connection."""
        self._connections.close()

    def connect(self, seconds: float) -> Connection:
        """Open a connection on which each command ends within ``seconds``, here and there."""
        return self._opened(seconds, bound=True)

    def _connect(self) -> Connection:
        return self._opened(session.REPLY_SECONDS)

    def _opened(self, seconds: float | None, *, bound: bool = False) -> Connection:
        try:
            return session.connect(self._options, seconds=seconds, bound=bound)
        except (pymysql.MySQLError, OSError, RuntimeError) as error:
            # RuntimeError: an authentication that needs another package.
            advice = ""
            if errors.code_of(error) == errors.NO_DATABASE:
                advice = "Create the database first, or name another in the URL."
            why = errors.first_line(error)
            raise StoreUnavailable(self.where, why, advice=advice) from error

    def _still_there(self, connection: Connection) -> None:
        if session.hung_up(connection):
            raise LeaseLost("transaction", token=0, why=_ENDED)

    @contextmanager
    def _mapped(self, what: str = "") -> Iterator[None]:
        """Turn failures of the connection into ours; ``what`` may have been carried out."""
        try:
            yield
        except (pymysql.MySQLError, OSError) as error:
            explained = self._meant(error, what)
            if explained is None:
                raise
            raise explained from error

    def _explained(self, command: Command[Any], error: Exception) -> Exception:
        unsure = command.writes and not command.repeatable
        return self._meant(error, command.name if unsure else "") or error

    def _meant(self, error: Exception, unsure_of: str) -> OnejobError | None:
        wanted = migrate.latest(self.catalogue)
        found = errors.meaning(error, self.where, unsure_of=unsure_of, wanted=wanted)
        if isinstance(found, SchemaMismatch):
            return migrate.mismatch(self.catalogue, self.where)
        return found


class MariadbLane:
    """A keeper's own connection."""

    def __init__(self, store: MariadbStore, seconds: float) -> None:
        self._store = store
        self._connections: Connections[Connection] = Connections(
            lambda: store.connect(seconds), session.usable
        )

    def run(self, command: Command[T]) -> T:
        """Carry out a command on the lane's one connection (a lost one is opened anew)."""
        return self._store.carry(command, self._connections)

    def listen(self) -> bool:
        """There are no hints: polls are the truth here."""
        return False

    def fileno(self) -> int | None:
        """There is nothing to watch."""
        return None

    def hinted(self) -> bool:
        """There are no hints."""
        return False

    def close(self) -> None:
        """Close the connection."""
        self._connections.close()


_ENDED = (
    "the server has ended the transaction, which sat idle for too long, or was killed, or went "
    "down with it. Nothing was written"
)
_ENDED_INSIDE = (
    "this transaction was ended inside its block: by COMMIT or ROLLBACK, or by a statement before "
    "which the server commits by itself (CREATE, ALTER, TRUNCATE, LOCK TABLES …). What was written "
    "after it was written without the fence, and stays. Leave the end to the block, and change "
    "tables elsewhere."
)
_MIGRATION = (
    "CREATE TABLE IF NOT EXISTS {table} (version integer NOT NULL PRIMARY KEY) ENGINE = InnoDB"
)
_RECORD = (
    "INSERT INTO {table} (version) VALUES ({version}) ON DUPLICATE KEY UPDATE version = version"
)
_GRANTS = """\
-- Least privilege: the role that applications use needs no more than this on these tables.
--   GRANT SELECT, INSERT, UPDATE, DELETE ON DATABASE.TABLE TO app;"""


def parted(text: str) -> list[str]:
    """Return the statements of a migration; each ends with a semicolon at the end of its line."""
    statements, lines = [], []
    for line in text.splitlines():
        if line.startswith("--") or not line.strip():
            continue
        lines.append(line)
        if line.endswith(";"):
            statements.append("\n".join(lines).removesuffix(";"))
            lines = []
    assert not lines, "a migration ends with a semicolon"
    return statements


def _sent(connection: Connection, statements: Sequence[Statement]) -> Sequence[Row]:
    """Carry out a command: one statement by itself, several as one transaction in one request."""
    texts = [statement.text for statement in statements]
    [answer] = [place for place, statement in enumerate(statements) if statement.answers]
    if len(texts) > 1:
        texts, answer = ["START TRANSACTION", *texts, "COMMIT"], answer + 1
    try:
        return session.execute(connection, texts, statements[0].parameters, answer=answer)
    except BaseException:
        _rolled_back(connection)
        raise


def _rolled_back(connection: Connection) -> None:
    """Undo what a failed request has left open, or give the connection up."""
    try:
        connection.rollback()
    except (pymysql.MySQLError, OSError):
        _closed(connection)


def _bounded(connection: Connection, longest: Span) -> None:
    """Have the server end this connection's transaction once it sits idle for so long."""
    of_mariadb = "MariaDB" in connection.get_server_info()
    name = "idle_transaction_timeout" if of_mariadb else "wait_timeout"
    seconds = max(1, -(-longest // SECOND))
    session.execute(connection, [f"SET SESSION {name} = {seconds}"], {}, answer=-1)


def _closed(connection: Connection) -> None:
    try:
        connection.close()
    except (pymysql.MySQLError, OSError):
        # It had gone already.
        return
