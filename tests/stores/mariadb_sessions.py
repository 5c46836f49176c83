"""Sessions on MariaDB as users have them: their own PyMySQL connection, without autocommit."""

from __future__ import annotations

from typing import TypeVar

import pymysql

from onejob.adapters.pymysql import PymysqlWithin
from onejob.commands.command import Command
from onejob.stores.mariadb import MariadbStore
from onejob.testing.conformance import Busy
from servers.mariadb import connect

T = TypeVar("T")

#: How long a statement of a session may take, in seconds: where it waits for another one's lock.
PATIENCE = 0.15

#: What the server says where it has waited for too long.
_WAITED = {1205, 1969, 3024}


class MariadbSession:
    """A connection at the server's default isolation, or at the one that is asked for."""

    def __init__(self, store: MariadbStore, url: str, isolation: str) -> None:
        self._store = store
        self.connection = connect(url)
        with self.connection.cursor() as cursor:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
            cursor.execute("SET SESSION max_statement_time = %s", (PATIENCE,))
        self._within = PymysqlWithin(self.connection)

    def run(self, command: Command[T]) -> T:
        try:
            return self._store.run(command, within=self._within)
        except pymysql.MySQLError as error:
            if error.args[0] in _WAITED:
                raise Busy from error
            raise

    def savepoint(self) -> None:
        self.connection.query("SAVEPOINT here")

    def rollback_to_savepoint(self) -> None:
        self.connection.query("ROLLBACK TO here")

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        if self.connection.open:
            self.connection.close()


class MariadbSessions:
    """Opens sessions on one database, and closes them all."""

    def __init__(self, store: MariadbStore, url: str, isolation: str = "REPEATABLE READ") -> None:
        self._store, self._url, self._isolation = store, url, isolation
        self._opened: list[MariadbSession] = []

    def open(self) -> MariadbSession:
        session = MariadbSession(self._store, self._url, self._isolation)
        self._opened.append(session)
        return session

    def close(self) -> None:
        for session in self._opened:
            session.close()
