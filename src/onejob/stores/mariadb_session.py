"""A connection to MariaDB or MySQL as our store uses it.

READ COMMITTED, so that each statement sees what has been committed by then; waits for a row's lock
are bounded; texts that do not fit are refused and not cut, whatever the server's ``sql_mode``.
"""

from __future__ import annotations

import select
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pymysql
from pymysql.constants import CLIENT, SERVER_STATUS
from pymysql.cursors import Cursor

Connection: TypeAlias = "pymysql.Connection[Any]"

#: How long a statement of ours waits for a row's lock. One second at least: with less, MariaDB's
#: SKIP LOCKED fails where it should skip.
LOCK_SECONDS = 5
#: A connection attempt, and one whole command, end after this long.
CONNECT_SECONDS = 5
REPLY_SECONDS = 30

_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION innodb_lock_wait_timeout = {lock_seconds}, "
    "sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')",
)
_BOUNDED = "SET SESSION max_statement_time = {seconds}"


def connect(
    options: Mapping[str, Any], *, seconds: float | None = REPLY_SECONDS, bound: bool = False
) -> Connection:
    """Open a connection in autocommit, whose every reply comes within ``seconds`` or never.

    With ``bound`` the server, too, ends each statement after that long (MariaDB only).
    """
    connection = pymysql.connect(
        **options,
        charset="utf8mb4",
        autocommit=True,
        binary_prefix=True,
        client_flag=CLIENT.MULTI_STATEMENTS,
        connect_timeout=min(CONNECT_SECONDS, seconds or CONNECT_SECONDS),
        read_timeout=seconds,
        write_timeout=seconds,
        program_name="onejob",
    )
    wait = LOCK_SECONDS if seconds is None else max(1, min(LOCK_SECONDS, int(seconds)))
    texts = [text.format(lock_seconds=wait) for text in _SESSION]
    if bound and seconds is not None and "MariaDB" in connection.get_server_info():
        texts.append(_BOUNDED.format(seconds=seconds))
    try:
        execute(connection, texts, {}, answer=-1)
    except BaseException:
        connection.close()
        raise
    return connection


def execute(
    connection: Connection, texts: Sequence[str], parameters: Mapping[str, Any], *, answer: int
) -> Sequence[Sequence[Any]]:
    """Send these statements in one request; return the rows of the one at ``answer``."""
    rows: Sequence[Sequence[Any]] = ()
    with connection.cursor(Cursor) as cursor:
        cursor.execute(";\n".join(texts), dict(parameters))
        place = 0
        while True:
            if place == answer:
                rows = cursor.fetchall()
            if not cursor.nextset():
                return rows
            place += 1


def in_transaction(connection: Connection) -> bool:
    """Tell whether a transaction is open, as the server said with its last reply."""
    status: int = getattr(connection, "server_status")  # noqa: B009 - the driver's type lacks it
    return bool(status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)


def hung_up(connection: Connection) -> bool:
    """Tell whether the server has closed its end: nothing that is sent now arrives."""
    if not connection.open:
        return True
    # A server says nothing unless asked: what can be read is its farewell.
    socket = getattr(connection, "_sock")  # noqa: B009 - the driver's type lacks it
    readable, _, _ = select.select([socket], [], [], 0)
    return bool(readable)


def usable(connection: Connection) -> bool:
    """Tell whether it can carry another command."""
    return not hung_up(connection) and not in_transaction(connection)
