"""PostgreSQL, through psycopg 3: one statement a command, in autocommit.

Every connection ends a silent conversation by itself (keepalives, TCP_USER_TIMEOUT), so that a
partitioned server is noticed within seconds instead of hours. What the server rolled back itself
(deadlock, serialisation failure) is tried again, with a bound; what was sent and never answered is
*unknown*, unless the command gives the same answer the second time, and then it is simply asked
again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from onejob.commands.command import Command, Parameter, Row
from onejob.core.time import Span
from onejob.errors import LeaseLost, OutcomeUnknown, StoreUnavailable, UsageError
from onejob.stores import migrate
from onejob.stores.catalogue import Catalogue
from onejob.stores.connections import Connections
from onejob.stores.migrate import Migrated
from onejob.stores.postgres_lane import CONNECT_SECONDS, PostgresLane
from onejob.stores.postgres_loops import LoopConnections
from onejob.stores.postgres_session import (
    Connection,
    Session,
    Silent,
    as_it_was,
    at_rest,
    first_line,
    found,
    read_committed,
    refuse_ended,
    usable,
)
from onejob.stores.protocol import Statement, Style, Within

T = TypeVar("T")

#: How often a command that the server rolled back by itself is tried.
ATTEMPTS = 6

#: Rolled back by the server, nothing done: safe to try again.
_ROLLED_BACK = {"40001", "40P01", "55P03"}
#: The tables (or the schema) are not there.
_NOT_THERE = {"42P01", "3F000", "42883"}
#: The server is going down, coming up, or full.
_NOT_NOW = {"57P01", "57P02", "57P03", "57P05", "53300", "08006", "08001"}
#: Nothing can be written here: a primary that was demoted, a role without rights, no space left.
_NOT_ALLOWED = {"25006", "42501", "53100", "53200"}


class PostgresStore:
    """A store in one schema of one database."""

    dialect = "postgresql"

    def __init__(self, url: str, *, schema: str = "onejob", prepare: bool = True) -> None:
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            raise UsageError(
                "this is not a PostgreSQL URL. Write postgresql://user@host:5432/database"
            ) from error
        self.where = _where(given)
        self.catalogue = Catalogue(self.dialect, schema)
        defaults: dict[str, Any] = {
            "connect_timeout": CONNECT_SECONDS,
            "keepalives": 1,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
            "application_name": "onejob",
        }
        self.conninfo = make_conninfo("", **{**defaults, **given})
        self._prepare = prepare
        self._session: Session | None = None
        self._texts: dict[str, tuple[bytes, Sequence[str]]] = {}
        self._connections: Connections[Connection] = Connections(self.connect, usable, at_rest)
        self._in_loops = LoopConnections(self._connect_in_a_loop, lambda: not self.pooled)

    def run(self, command: Command[T], within: Within | None = None) -> T:
        """Carry out one command: atomically by itself, or within the caller's transaction."""
        if within is not None:
            [statement] = self.statements(command, within.style)
            return command.decode(within.execute(statement.text, statement.parameters))
        return self.carry(command, self._connections)

    def statements(self, command: Command[T], style: Style) -> Sequence[Statement]:
        """Return what ``run`` would send: one statement."""
        [step] = self.catalogue.steps(command.name, style)
        return [step.given(command.parameters)]

    def carry(self, command: Command[T], connections: Connections[Connection]) -> T:
        """Carry a command out over one of these connections, and again where that is safe."""
        text, names = self._texts.get(command.name) or self._text(command.name)
        values = [command.parameters[name] for name in names]
        failures = 0
        while True:
            try:
                return command.decode(self._carried(text, values, connections))
            except psycopg.Error as error:
                failures += 1
                if failures >= ATTEMPTS or not self._again(command, error, failures):
                    raise self._explained(command, error) from error

    def _carried(
        self, text: bytes, values: Sequence[Parameter], connections: Connections[Connection]
    ) -> Sequence[Row]:
        with connections.lend() as connection:
            if self._session is not None and self._session.strict:
                with read_committed(connection):
                    return connection.carry_by_cursor(text, values)
            return connection.carry(text, values)

    @contextmanager
    def transaction(self, *, longest: Span) -> Iterator[Connection]:
        """Open a transaction; yields a psycopg connection, commits at the end.

        The server itself ends it when it sits idle for longer than ``longest``.
        """
        with (
            self.mapped("transaction"),
            self._connections.lend() as connection,
            as_it_was(connection, pooled=self.pooled),
            connection.transaction(),
        ):
            connection.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', %s, true)",
                (str(min(max(1, longest // 1_000), 2**31 - 1)),),
            )
            yield connection
            refuse_ended(connection)

    @asynccontextmanager
    async def transaction_in_a_loop(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Open a transaction for code in the running loop; commits at the end."""
        with self.mapped("transaction"):
            async with self._in_loops.lend() as connection, connection.transaction():
                yield connection
                refuse_ended(connection)

    async def _connect_in_a_loop(self) -> psycopg.AsyncConnection[Any]:
        try:
            connection = await psycopg.AsyncConnection.connect(self.conninfo, autocommit=True)
        except psycopg.OperationalError as error:
            raise StoreUnavailable(self.where, first_line(error)) from error
        if self.pooled:
            connection.prepare_threshold = None
        return connection

    def lane(self, *, patience: Span) -> PostgresLane:
        """Open a connection of its own for a keeper; the server bounds each of its statements."""
        return PostgresLane(self, patience, self.catalogue.prefix)

    def release_lane(self, *, patience: Span) -> PostgresLane:
        """Open a connection of its own that hears when locks are released for which some wait."""
        return PostgresLane(self, patience, f"{self.catalogue.prefix}lock")

    def connect(self, kind: type[Connection] = Connection, **more: Any) -> Connection:
        """Open a connection as this store uses them."""
        try:
            connection = kind.connect(self.conninfo, autocommit=True, **more)
        except psycopg.OperationalError as error:
            raise StoreUnavailable(self.where, first_line(error)) from error
        try:
            if self._session is None:
                self._session = found(connection)
        except BaseException:
            connection.close()
            raise
        connection.prepare_threshold = 2 if self._prepare and not self.pooled else None
        return connection

    @property
    def pooled(self) -> bool:
        """Tell whether a pooler stands in between, as the first connection found."""
        return self._session is not None and self._session.pooled

    def version(self) -> int | None:
        """Return the version of the schema; None where there is none."""
        text = sql.SQL("SELECT max(version) FROM {}.migration").format(self._schema)
        with self.mapped("version"), self._connections.lend() as connection:
            try:
                row = connection.execute(text).fetchone()
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                return None
            return None if row is None or row[0] is None else int(row[0])

    def check(self) -> None:
        """Raise SchemaMismatch unless the schema is the one this release is written for."""
        migrate.check(self.catalogue, self.version(), self.where)

    def init(self) -> Migrated:
        """Install or upgrade the schema, all or nothing; several at once wait for each other."""
        with (
            self.mapped("init"),
            self._connections.lend() as connection,
            connection.transaction(),
        ):
            name = self.catalogue.schema
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('onejob init'))")
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(self._schema))
            there = connection.execute(
                "SELECT to_regclass(%s) IS NOT NULL", (f'"{name}".migration',)
            ).fetchone()
            connection.execute(_MIGRATION.format(self._schema))
            newest = sql.SQL("SELECT max(version) FROM {}.migration").format(self._schema)
            row = connection.execute(newest).fetchone()
            found = row[0] if there and there[0] and row else None
            record = sql.SQL("INSERT INTO {}.migration (version) VALUES (%s)")
            return migrate.apply(
                self.catalogue,
                found,
                self.where,
                script=lambda text: connection.execute(text.encode()),
                record=lambda version: connection.execute(record.format(self._schema), (version,)),
            )

    def script(self) -> str:
        """Return the whole schema, with least-privilege grants, as one text."""
        schema = f'"{self.catalogue.schema}"'
        opening = [
            f"CREATE SCHEMA IF NOT EXISTS {schema};",
            f"CREATE TABLE {schema}.migration (version integer NOT NULL PRIMARY KEY);",
        ]
        return migrate.as_script(self.catalogue, opening, [_GRANTS.format(schema=schema)])

    def reap(self) -> None:
        """Close connections that have been idle for long enough."""
        self._connections.reap()

    def close(self) -> None:
        """Close every idle connection."""
        self._connections.close()
        self._in_loops.close()

    @property
    def _schema(self) -> sql.Identifier:
        return sql.Identifier(self.catalogue.schema)

    def _text(self, name: str) -> tuple[bytes, Sequence[str]]:
        """Return a command's text for this driver, one object for each, and its parameters."""
        [step] = self.catalogue.steps(name, "numbered")
        assert step.names is not None, "they have numbers"
        return self._texts.setdefault(name, (step.text.encode(), step.names))

    @staticmethod
    def _again(command: Command[Any], error: psycopg.Error, failures: int) -> bool:
        """Tell whether trying again is safe, and wait a little where others must finish first."""
        if error.sqlstate in _ROLLED_BACK:
            time.sleep(0.002 * failures)
            return True
        # The server said so before it did anything, or asking twice makes no difference.
        refused = error.sqlstate in _NOT_NOW
        broken = error.sqlstate is None and isinstance(error, psycopg.OperationalError)
        broken = broken and not isinstance(error, Silent)
        return failures < 2 and (refused or (broken and (command.repeatable or not command.writes)))

    def _explained(self, command: Command[Any], error: psycopg.Error) -> Exception:
        if error.sqlstate in _NOT_THERE:
            return migrate.mismatch(self.catalogue, self.where)
        if error.sqlstate in _NOT_NOW | _ROLLED_BACK | _NOT_ALLOWED | {"57014"}:
            return StoreUnavailable(self.where, first_line(error))
        if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
            if command.writes and not command.repeatable:
                return OutcomeUnknown(command.name, self.where, first_line(error))
            return StoreUnavailable(self.where, first_line(error))
        return error

    @contextmanager
    def mapped(self, what: str) -> Iterator[None]:
        """Turn connection failures into ours where the caller drives the statements."""
        try:
            yield
        except psycopg.errors.IdleInTransactionSessionTimeout as error:
            why = "the transaction sat idle for too long and the server has rolled it back"
            raise LeaseLost(what, token=0, why=why) from error
        except psycopg.OperationalError as error:
            if error.sqlstate in _NOT_NOW:
                raise StoreUnavailable(self.where, first_line(error)) from error
            if error.sqlstate is None:
                raise OutcomeUnknown(what, self.where, first_line(error)) from error
            raise


_MIGRATION = sql.SQL(
    "CREATE TABLE IF NOT EXISTS {}.migration (version integer NOT NULL PRIMARY KEY)"
)

_GRANTS = """\
-- Least privilege. Three roles are enough: the one that runs this text (the migrator), the one
-- that applications use, and one for people and dashboards, which sees the views only:
--   GRANT USAGE ON SCHEMA {schema} TO app;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO app;
--   GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO app;
--   GRANT USAGE ON SCHEMA {schema} TO reader;
--   GRANT SELECT ON {schema}.runs, {schema}.schedules, {schema}.replicas, {schema}.effects,
--                   {schema}.events, {schema}.locks TO reader;"""


def _where(given: Mapping[str, Parameter | Any]) -> str:
    """Return host and database, and nothing else that a URL may hold."""
    host = given.get("host") or "the local socket"
    port = f":{given['port']}" if given.get("port") else ""
    return f"{host}{port}/{given.get('dbname') or given.get('user') or ''}"
