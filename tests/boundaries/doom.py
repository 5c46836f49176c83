"""Stores whose process ends itself, by SIGKILL, at one boundary between two statements.

They wrap the real ones from outside: production code has no switch for it. The boundaries of a
command are, on SQLite, before each of its statements, before its commit and after it; on
PostgreSQL, before its statement is sent, when it is sent and its reply not awaited, and after the
reply.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar, cast

import psycopg

from onejob.commands.command import Command, Parameter, Row
from onejob.core.time import Span
from onejob.stores.catalogue import Catalogue
from onejob.stores.connections import Connections
from onejob.stores.postgres import PostgresStore
from onejob.stores.protocol import Statement, Style, Within
from onejob.stores.sqlite import SqliteLane, SqliteStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Boundary:
    """An instant in the life of a process: the ``occurrence``-th time that it gets there."""

    command: str
    phase: str
    occurrence: int = 1

    def __str__(self) -> str:
        return f"{self.command}, {self.phase}, time {self.occurrence}"


class Doom:
    """Ends this process when it reaches its boundary."""

    def __init__(self, boundary: Boundary | None) -> None:
        self._boundary = boundary
        self._lock = threading.Lock()
        self._times = 0

    def waits_at(self, command: str, phase: str) -> bool:
        """Tell whether the process is to end here, now."""
        wanted = self._boundary
        if wanted is None or (wanted.command, wanted.phase) != (command, phase):
            return False
        with self._lock:
            self._times += 1
            return self._times == wanted.occurrence

    def reach(self, command: str, phase: str) -> None:
        """Get to a boundary; returns where it is not the one."""
        if self.waits_at(command, phase):
            end()


def end() -> None:
    """End this process as the kernel or an orchestrator does, without a word."""
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def phases(dialect: str, command: str) -> list[str]:
    """Return the boundaries of a command at this store."""
    if dialect == "postgresql":
        return ["before", "sent", "after"]
    steps = len(Catalogue(dialect, "onejob").steps(command, "named"))
    return [*(f"before {n}" for n in range(1, steps + 1)), "before commit", "after"]


class DoomedSqlite(SqliteStore):
    """A SQLite store of a process that is about to die."""

    doom: Doom

    def run(self, command: Command[T], within: Within | None = None) -> T:
        answer = super().run(command, within)
        self.doom.reach(command.name, "after")
        return answer

    def _carry(
        self,
        command: Command[T],
        execute: Callable[[str, Mapping[str, Parameter]], Sequence[Row]],
        style: Style = "named",
    ) -> T:
        numbers = count(1)

        def counted(text: str, parameters: Mapping[str, Parameter]) -> Sequence[Row]:
            self.doom.reach(command.name, f"before {next(numbers)}")
            return execute(text, parameters)

        answer = super()._carry(command, counted, style)
        self.doom.reach(command.name, "before commit")
        return answer

    @contextmanager
    def transaction(self, *, longest: Span) -> Iterator[Any]:
        with super().transaction(longest=longest) as connection:
            yield connection
            self.doom.reach("transaction", "before commit")
        self.doom.reach("transaction", "after")

    def lane(self, *, patience: Span) -> SqliteLane:
        store = DoomedSqlite(self.path, schema=self.catalogue.schema, patience=patience)
        store.doom = self.doom
        return SqliteLane(store)


class DoomedPostgres(PostgresStore):
    """A PostgreSQL store of a process that is about to die. Its lanes ask it, so they die too."""

    doom: Doom

    def __init__(self, url: str, *, schema: str) -> None:
        super().__init__(url, schema=schema)
        self._doing = threading.local()

    def run(self, command: Command[T], within: Within | None = None) -> T:
        if within is None:
            return super().run(command)
        self.doom.reach(command.name, "before")
        if self.doom.waits_at(command.name, "sent"):
            [statement] = self.statements(command, within.style)
            self._send(cast(Any, within).connection, statement)
        answer = super().run(command, within)
        self.doom.reach(command.name, "after")
        return answer

    def carry(self, command: Command[T], connections: Connections[Any]) -> T:
        self._doing.name = command.name
        return super().carry(command, connections)

    def _carried(
        self, text: bytes, values: Sequence[Parameter], connections: Connections[Any]
    ) -> Sequence[Row]:
        name = self._doing.name
        self.doom.reach(name, "before")
        if self.doom.waits_at(name, "sent"):
            with connections.lend() as connection:
                written = [None if value is None else str(value).encode() for value in values]
                connection.pgconn.send_query_params(text, written)
                flush(connection)
                end()
        rows = super()._carried(text, values, connections)
        self.doom.reach(name, "after")
        return rows

    @staticmethod
    def _send(connection: Any, statement: Statement) -> None:
        cursor = psycopg.ClientCursor(connection)
        send(connection, cursor.mogrify(statement.text.encode(), statement.parameters))
        end()

    @contextmanager
    def transaction(self, *, longest: Span) -> Iterator[Any]:
        with super().transaction(longest=longest) as connection:
            yield connection
            self.doom.reach("transaction", "before commit")
            if self.doom.waits_at("transaction", "sent"):
                send(connection, "COMMIT")
                end()
        self.doom.reach("transaction", "after")


def send(connection: Any, text: str) -> None:
    """Put a statement on the wire, whole, and wait for no reply."""
    connection.pgconn.send_query(text.encode())
    flush(connection)


def flush(connection: Any) -> None:
    """Hand all that was sent to the kernel."""
    while connection.pgconn.flush():
        pass
