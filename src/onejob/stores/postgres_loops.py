"""Connections to PostgreSQL for code in loops: lent, put back as they were, closed when idle.

Opening one takes longer than most transactions. Each stays in the loop that opened it, since its
driver waits there; after a fork the child leaves those of its parent alone.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from onejob.stores.connections import IDLE_SECONDS
from onejob.stores.postgres_session import PUT_BACK

Connection: TypeAlias = "psycopg.AsyncConnection[Any]"

#: Of a parent: neither used nor closed here, where closing would end the parent's conversation.
_inherited: list[object] = []

#: How long putting a session back may take: the caller's own work is done, and waits for it.
PUT_BACK_SECONDS = 2.0


class LoopConnections:
    """The pool. ``connect`` opens one; ``keeps`` tells whether its session is ours to put back."""

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], keeps: Callable[[], bool]
    ) -> None:
        self._connect, self._keeps = connect, keeps
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Idle] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """Lend one for a block. One whose block was cancelled is closed: nobody asks what became
        of what it was in the middle of."""
        connection = self._idle().take() or await self._connect()
        sound = False
        try:
            yield connection
            sound = True
        except Exception:
            sound = True
            raise
        finally:
            if not (sound and await self._put_back(connection)):
                await connection.close()

    def close(self) -> None:
        """Close every idle connection, from any thread."""
        with self._lock:
            every = list(self._loops.values())
        for idle in every:
            idle.close()

    def _idle(self) -> _Idle:
        loop = asyncio.get_running_loop()
        with self._lock:
            idle = self._loops.get(loop)
            if idle is None or idle.pid != os.getpid():
                idle = self._loops[loop] = _Idle(loop)
        return idle

    async def _put_back(self, connection: Connection) -> bool:
        """Take it back as it was given; False: it can't be lent again."""
        if not _at_rest(connection):
            return False
        connection.row_factory = tuple_row
        connection.cursor_factory = psycopg.AsyncCursor
        try:
            if self._keeps():
                async with asyncio.timeout(PUT_BACK_SECONDS):
                    await connection.execute(PUT_BACK, prepare=False)
        except (psycopg.Error, TimeoutError):
            return False
        except BaseException:
            await connection.close()
            raise
        self._idle().give_back(connection)
        return True


class _Idle:
    """Those of one loop that nobody has. The loop's end closes them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.pid = os.getpid()
        self._loop = weakref.ref(loop)
        self._waiting: list[tuple[float, Connection]] = []
        # Not the timer itself, which would keep the loop, and so all of these, for ever.
        self._looks = False
        weakref.finalize(loop, _close_all, self._waiting, self.pid)

    def take(self) -> Connection | None:
        """Return the one that was used last and can be used again."""
        while (connection := _popped(self._waiting)) is not None:
            if _usable(connection):
                return connection
            _close(connection)
        return None

    def give_back(self, connection: Connection) -> None:
        """Keep it, for a while."""
        self._waiting.append((time.monotonic(), connection))
        self._look_again()

    def close(self) -> None:
        """Close all."""
        _close_all(self._waiting, self.pid)

    def _look_again(self) -> None:
        loop = self._loop()
        if not self._looks and loop is not None:
            self._looks = True
            loop.call_later(IDLE_SECONDS, self._reap)

    def _reap(self) -> None:
        self._looks = False
        oldest = time.monotonic() - IDLE_SECONDS
        for entry in [entry for entry in self._waiting if entry[0] <= oldest]:
            if entry in self._waiting:
                self._waiting.remove(entry)
                _close(entry[1])
        if self._waiting:
            self._look_again()


def _at_rest(connection: Connection) -> bool:
    return not connection.closed and (
        connection.pgconn.transaction_status == TransactionStatus.IDLE
    )


def _usable(connection: Connection) -> bool:
    """Tell whether it can be lent: what is readable is a farewell, or the end of the file."""
    if not _at_rest(connection):
        return False
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return not poll.poll(0)
    return not select.select([connection.fileno()], [], [], 0)[0]


def _close(connection: Connection) -> None:
    # Not close(), which wants to be awaited: nothing is under way here.
    connection.pgconn.finish()


def _close_all(waiting: list[tuple[float, Connection]], pid: int) -> None:
    if pid != os.getpid():
        _inherited.append(list(waiting))
        return
    while (connection := _popped(waiting)) is not None:
        _close(connection)


def _popped(waiting: list[tuple[float, Connection]]) -> Connection | None:
    # Another thread may close all of them at any moment.
    try:
        return waiting.pop()[1]
    except IndexError:
        return None
