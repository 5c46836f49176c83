"""A connection to MariaDB or MySQL as our store uses it, and what its errors mean.

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

#: Rolled back by the server, or by us after it gave up waiting: safe to try again.
ROLLED_BACK = {1020, 1205, 1213}
#: Said before anything was done: no connection, no room, no rights, going down, read only.
NOT_NOW = {1040, 1044, 1045, 1053, 1129, 1130, 1203, 1226, 1290, 1317, 1698, 1792, 1836, 1969}
NOT_NOW |= {2002, 2003, 2005, 2026, 3024}
#: Closed before the request could reach it.
NOT_SENT = {0, 2006, 4031}
#: The connection broke while the reply was awaited.
LOST = {1927, 2013, 2014, 2027}
NO_TABLE = 1146
NO_DATABASE = 1049

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
    return bool(connection.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)


def hung_up(connection: Connection) -> bool:
    """Tell whether the server has closed its end: nothing that is sent now arrives."""
    if not connection.open:
        return True
    # A server says nothing unless asked: what can be read is its farewell.
    readable, _, _ = select.select([connection._sock], [], [], 0)
    return bool(readable)


def usable(connection: Connection) -> bool:
    """Tell whether it can carry another command."""
    return not hung_up(connection) and not in_transaction(connection)


def code_of(error: BaseException) -> int:
    """Return the number of a driver's error; -1 where it has none."""
    given = error.args[0] if error.args else -1
    return given if isinstance(given, int) else -1


def first_line(error: BaseException) -> str:
    """Return what people are shown of an error of the driver's."""
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0]
