"""A keeper's own connection to PostgreSQL: its commands end in time, and it hears of new work."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import psycopg
from psycopg import sql

from onejob.commands.command import Command
from onejob.core.time import SECOND, Span
from onejob.stores.connections import Connections
from onejob.stores.postgres_session import Bounded, Connection, at_rest, usable

T = TypeVar("T")

#: A connection attempt ends after this long.
CONNECT_SECONDS = 5


class Carrier(Protocol):
    """What a lane needs of its store."""

    @property
    def pooled(self) -> bool:
        """Tell whether a pooler stands in between."""
        ...

    def connect(self, kind: type[Connection] = ..., **more: Any) -> Connection:
        """Open a connection."""
        ...

    def carry(self, command: Command[T], connections: Connections[Connection]) -> T:
        """Carry a command out over one of these connections."""
        ...


class PostgresLane:
    """A keeper's own connection: commands bounded by the server, hints by LISTEN."""

    def __init__(self, store: Carrier, patience: Span, channel: str) -> None:
        self._store, self._patience, self._channel = store, patience, channel
        self._listening = False
        self._pool: Connections[Connection] = Connections(self._connect, usable, at_rest)
        self._hints = 0

    def run(self, command: Command[T]) -> T:
        """Carry out a command on the lane's one connection (a lost one is opened anew)."""
        return self._store.carry(command, self._pool)

    def listen(self) -> bool:
        """Receive hints from now on, and again after each reconnection. LISTEN first, then read."""
        with self._pool.lend() as connection:
            # Asked only now: the store's first connection is what finds a pooler.
            if self._store.pooled:
                return False
            self._listening = True
            self._listen(connection)
        return True

    def fileno(self) -> int | None:
        """Return the socket, which becomes readable with a hint; reconnects where it was lost."""
        with self._pool.lend() as connection:
            return connection.fileno()

    def hinted(self) -> bool:
        """Tell whether a notification has arrived since the last call."""
        with self._pool.lend() as connection:
            connection.pgconn.consume_input()
            while connection.pgconn.notifies() is not None:
                self._hints += 1
        hints, self._hints = self._hints, 0
        return hints > 0

    def close(self) -> None:
        """Close the connection."""
        self._pool.close()

    def _connect(self) -> Connection:
        # libpq counts whole seconds, and two at least.
        connection = self._store.connect(
            Bounded, connect_timeout=min(CONNECT_SECONDS, max(2, self._patience // SECOND))
        )
        assert isinstance(connection, Bounded), "as asked"
        connection.patience_seconds = self._patience / SECOND
        if self._store.pooled:
            return connection  # its setting would be somebody else's next
        milliseconds = str(max(1, self._patience // 1_000))
        connection.execute("SELECT set_config('statement_timeout', %s, false)", (milliseconds,))
        if self._listening:
            self._listen(connection)
            self._hints += 1  # whatever was sent while nobody listened
        return connection

    def _listen(self, connection: Connection) -> None:
        connection.add_notify_handler(self._count)
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))

    def _count(self, _: psycopg.Notify) -> None:
        self._hints += 1
