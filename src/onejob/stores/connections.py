"""A small pool of a driver's connections: lent, taken back, closed when idle, never inherited.

Idle connections are closed after :data:`IDLE_SECONDS`, so that a quiet web replica keeps none but
its keeper's. After a fork the child starts with an empty pool: it must neither use nor close what
its parent has open, so those are kept, untouched, to the end of the child's life.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Generic, Protocol, TypeVar

#: An idle connection is closed at the next opportunity after this long.
IDLE_SECONDS = 10.0


class Closable(Protocol):
    """Any driver's connection."""

    def close(self) -> object:
        """Close it."""
        ...


C = TypeVar("C", bound=Closable)

_inherited: list[object] = []


class Connections(Generic[C]):
    """The pool. ``connect`` opens one, ``usable`` tells whether one may be lent.

    ``kept`` tells whether a command has left it so that it may be lent again; asked after each one,
    it may know less, and must cost nothing.
    """

    def __init__(
        self,
        connect: Callable[[], C],
        usable: Callable[[C], bool],
        kept: Callable[[C], bool] | None = None,
    ) -> None:
        self._connect, self._usable = connect, usable
        self._kept = usable if kept is None else kept
        self._idle: list[tuple[float, C]] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def lend(self) -> Loan[C]:
        """Lend a connection for one command or transaction; one that failed is not lent again."""
        return Loan(self)

    def reap(self) -> None:
        """Close what has been idle for long enough."""
        oldest = time.monotonic() - IDLE_SECONDS
        with self._lock:
            if not self._idle or self._idle[0][0] >= oldest:
                return  # the first has been idle for longest
            stale = [connection for since, connection in self._idle if since < oldest]
            self._idle = [entry for entry in self._idle if entry[0] >= oldest]
        for connection in stale:
            _close(connection)

    def close(self) -> None:
        """Close every idle connection."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            _close(connection)

    def _take(self) -> C:
        self._after_fork()
        while True:
            with self._lock:
                if not self._idle:
                    break
                _, connection = self._idle.pop()
            if self._usable(connection):
                return connection
            _close(connection)
        return self._connect()

    def _give_back(self, connection: C) -> None:
        if self._pid != os.getpid() or not self._kept(connection):
            _close(connection)
            return
        with self._lock:
            self._idle.append((time.monotonic(), connection))
        self.reap()

    def _after_fork(self) -> None:
        if self._pid == os.getpid():
            return
        # The parent's lock may have been held at the instant of the fork, and its connections are
        # still the parent's conversation: closing one here would end it there.
        _inherited.append(self._idle)
        self._lock = threading.Lock()
        self._idle, self._pid = [], os.getpid()


class Loan(Generic[C]):
    """A connection that is lent for the length of a block."""

    __slots__ = ("_connection", "_connections")

    def __init__(self, connections: Connections[C]) -> None:
        self._connections = connections

    def __enter__(self) -> C:
        self._connection = self._connections._take()
        return self._connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        connection = self._connection
        if error is not None and not self._connections._usable(connection):
            _close(connection)
        else:
            self._connections._give_back(connection)


def _close(connection: Closable) -> None:
    with suppress(Exception):
        connection.close()
