"""A connection to PostgreSQL as our stores use it: whether it can be used again, and put back.

Behind a pooler in transaction mode each transaction may be served by another server process, so
nothing may rest on the session: no LISTEN, no prepared statements, no session settings.
"""

from __future__ import annotations

import select
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row

from onejob.errors import UsageError


class Connection(psycopg.Connection[Any]):
    """A connection that carries our commands past the driver's cursors once it knows their texts.

    What a cursor does around a statement takes as long as the server takes to insert a row.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._uses: Counter[bytes] = Counter()
        self._names: dict[bytes, bytes] = {}
        self._transformer = Transformer(self)
        self._utf8 = self.info.encoding == "utf-8"
        self._poll: select.poll | None = None
        if hasattr(select, "poll"):
            # Not select(): it knows no descriptor above 1,023, and a busy server has more.
            self._poll = select.poll()
            self._poll.register(self.fileno(), select.POLLIN)

    def carry(self, text: bytes, values: Sequence[str | int | None]) -> Sequence[Any]:
        """Carry out one statement with numbered parameters by itself; return its rows.

        It is prepared at its third use, if this connection prepares any.
        """
        name = self._names.get(text)
        if name is None and (name := self._prepared_now(text)) is None:
            return self.carry_by_cursor(text, values)
        [result] = self._sent(lambda: self.pgconn.send_query_prepared(name, _written(values)))
        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            error = error_from_result(result)
            if error.sqlstate not in _FORGOTTEN:
                raise error
            # Nothing was done: the session has lost it (DEALLOCATE ALL), or the tables are new.
            del self._names[text]
            return self.carry_by_cursor(text, values)
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def carry_by_cursor(self, text: bytes, values: Sequence[Any]) -> Sequence[Any]:
        """The same by a cursor, and never prepared: also inside a transaction."""
        with psycopg.RawCursor(self, row_factory=tuple_row) as cursor:
            cursor.execute(text, values, prepare=False)
            return cursor.fetchall() if cursor.rownumber is not None else ()

    def readable(self) -> bool:
        """Tell whether the server has said something that nobody has read."""
        if self._poll is not None:
            return bool(self._poll.poll(0))
        return bool(select.select([self.fileno()], [], [], 0)[0])

    def _prepared_now(self, text: bytes) -> bytes | None:
        """Prepare a text that is used often enough; None: not here, or not yet."""
        if self.prepare_threshold is None or not self._utf8:
            return None
        self._uses[text] += 1
        if self._uses[text] <= self.prepare_threshold:
            return None
        # Never a name that was used before: the session may know the old one still.
        name = b"onejob_%d" % self._uses.total()
        [result] = self._sent(lambda: self.pgconn.send_prepare(name, text))
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result)
        self._names[text] = name
        return name

    def _sent(self, send: Callable[[], None]) -> list[PGresult]:
        with self.lock:
            send()
            results: list[PGresult] = self.wait(execute(self.pgconn))
        return results


#: The session does not know this statement (any more), or its columns have changed since.
_FORGOTTEN = {"26000", "0A000"}


def _written(values: Sequence[str | int | None]) -> list[bytes | None]:
    """Return parameters as the server reads them, whatever types it has found for them."""
    written: list[bytes | None] = []
    for value in values:
        if isinstance(value, str):
            data = value.encode()
            if b"\0" in data:
                raise psycopg.DataError("PostgreSQL's text cannot hold NUL bytes")
            written.append(data)
        else:
            written.append(None if value is None else str(value).encode())
    return written


def usable(connection: Connection) -> bool:
    """Tell whether it can carry another command; a dead socket is readable (end of file)."""
    if not at_rest(connection):
        return False
    while connection.readable():
        # A farewell, notifications, or the end of the file, which is met after whatever came first.
        try:
            connection.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
    return True


def at_rest(connection: Connection) -> bool:
    """Tell whether it may be kept for another command, as far as is known without asking."""
    return not connection.closed and (
        connection.pgconn.transaction_status == TransactionStatus.IDLE
    )


@dataclass(frozen=True, slots=True)
class Session:
    """What a server, or the pooler before it, gives whoever connects.

    ``pooled``: a pooler stands in between. ``strict``: a transaction sees what it saw first, unless
    it says otherwise.
    """

    pooled: bool
    strict: bool


def found(connection: Connection) -> Session:
    """Look what a connection is: behind a pooler another process answers than the one we know."""
    text = "SELECT pg_backend_pid(), current_setting('default_transaction_isolation')"
    row = connection.execute(text, prepare=False).fetchone()
    assert row is not None, "one row"
    return Session(
        pooled=row[0] != connection.info.backend_pid,
        strict=row[1] in ("repeatable read", "serializable"),
    )


@contextmanager
def read_committed(connection: Connection) -> Iterator[None]:
    """Carry one command out as our texts are written for, where the default is stricter.

    There a row that somebody else has just changed is an error, and waiting for a lock would end
    with it. Three round trips instead of one; the caller's own transactions keep their level.
    """
    connection.isolation_level = IsolationLevel.READ_COMMITTED
    try:
        with connection.transaction():
            yield
    finally:
        if not connection.closed:
            connection.isolation_level = None


#: What a caller may have changed of a session, put back in one round trip: DISCARD ALL, but for
#: the prepared statements, of which the driver keeps its own account.
PUT_BACK = b"""SET SESSION AUTHORIZATION DEFAULT; RESET ALL; CLOSE ALL; UNLISTEN *;
SELECT pg_advisory_unlock_all(); DISCARD TEMP"""


@contextmanager
def as_it_was(connection: Connection, *, pooled: bool) -> Iterator[None]:
    """Take back a connection that the caller had, as it was given: our own commands use it next.

    Behind a pooler the session is not the caller's, nor ours: putting it back is the pooler's.
    """
    try:
        yield
    finally:
        if not connection.closed:
            connection.row_factory = tuple_row
            connection.cursor_factory = psycopg.Cursor
            if not pooled:
                _put_back(connection)


def _put_back(connection: Connection) -> None:
    try:
        connection.execute(PUT_BACK, prepare=False)
    except psycopg.Error:
        connection.close()


def refuse_ended(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Raise UsageError where the block of a transaction ends, and the transaction did before."""
    match connection.info.transaction_status:
        case TransactionStatus.IDLE:
            raise UsageError(
                "this transaction was ended inside its block, by COMMIT, ROLLBACK or END sent as "
                "text. What was written after that was written without the fence, and stays. Leave "
                "the end to the block: it commits, or rolls back when it raises."
            )
        case TransactionStatus.INERROR:
            raise UsageError(
                "a statement in this transaction failed and its error was swallowed, so the server "
                "would roll back where a commit is asked for. Nothing was written. Let the error "
                "out of the block, or put the statement into `with tx.transaction():`, a savepoint."
            )
        case _:
            pass


class Bounded(Connection):
    """A connection on which no wait is longer than its patience.

    ``statement_timeout`` is the server's, keepalives and TCP_USER_TIMEOUT see bytes that are
    acknowledged: none of them notices a server that is frozen, or a pooler that is paused.
    """

    patience_seconds: float | None = None

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """Wait for the server as psycopg does, but give the connection up after the patience."""
        if self.patience_seconds is not None:
            gen = self._until(gen, time.monotonic() + self.patience_seconds)
        return super().wait(gen, *arguments, **options)

    def _until(self, gen: Any, ends: float) -> Any:
        """Pass everything between psycopg's generator and its waiter, until the time is up."""
        try:
            waited_for = next(gen)
            while True:
                ready = yield waited_for
                if not ready and time.monotonic() > ends:
                    self.pgconn.finish()
                    raise Silent(f"no reply within {self.patience_seconds:g} s")
                waited_for = gen.send(ready)
        except StopIteration as end:
            return end.value


class Silent(psycopg.OperationalError):
    """The server has not answered in time; asking again would take as long once more."""


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
