"""Where a measurement happens: a database, or a file, made for it and dropped after it."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import sql

from benchmarks.rounds import Failed
from servers.postgres import create_database, drop_databases

#: Statistics of a session are counted once it is over; we wait so long for the last one to end.
SESSIONS_END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Counters:
    """What a server has counted so far. ``statements`` is None without pg_stat_statements."""

    commits: int
    statements: int | None
    wal: int


class Place(Protocol):
    """One database or file, fresh."""

    url: str
    directory: Path

    def ask(self, query: str) -> int:
        """Return the one number that a query answers with."""
        ...

    def execute(self, text: str) -> None:
        """Carry out a statement."""
        ...

    def settle(self) -> None:
        """Write down what is pending, so that it is not counted as the next one's work."""
        ...

    def wal(self) -> int | None:
        """Return how many bytes of write-ahead log there have been, where that is known."""
        ...

    def counters(self) -> Counters | None:
        """Wait until every session here is over, and return what was counted; None: nothing is."""
        ...


class Postgres:
    """A database of its own on a server. Its WAL position is the server's: keep that quiet."""

    def __init__(self, server: str, url: str, directory: Path) -> None:
        self.url, self.directory = url, directory
        self._admin = psycopg.connect(server, autocommit=True)
        self._here = psycopg.connect(url, autocommit=True)
        self._name = self._here.info.dbname
        self._own = self._here.info.backend_pid
        self._asked = 0
        (loaded,) = self._row("SELECT current_setting('shared_preload_libraries')")
        self._has_statements = "pg_stat_statements" in loaded
        if self._has_statements:
            self.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")

    def ask(self, query: str) -> int:
        self._asked += 1
        row = self._here.execute(query.encode()).fetchone()
        return int(row[0]) if row else 0

    def execute(self, text: str) -> None:
        self._asked += 1
        self._here.execute(text.encode())

    def settle(self) -> None:
        self._admin.execute("CHECKPOINT")

    def wal(self) -> int:
        (position,) = self._row("SELECT pg_current_wal_lsn() - '0/0'")
        return int(position)

    def counters(self) -> Counters:
        self._wait_for_sessions()
        statements = None
        if self._has_statements:
            self._asked += 1
            row = self._here.execute(
                "SELECT sum(calls) FROM pg_stat_statements AS s"
                "  JOIN pg_database AS d ON d.oid = s.dbid WHERE datname = current_database()"
            ).fetchone()
            statements = int(row[0] or 0) - self._asked if row else None
        # What we ask is counted as well, once our session is over, and is not what is measured.
        self._here.close()
        self._own = 0
        self._wait_for_sessions()
        (commits,) = self._row(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = %s", self._name
        )
        self._here = psycopg.connect(self.url, autocommit=True)
        self._own = self._here.info.backend_pid
        return Counters(int(commits) - self._asked, statements, self.wal())

    def live_commits(self) -> int:
        """Return the commits counted so far, sessions that go on included (a second late)."""
        (commits,) = self._row(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = %s", self._name
        )
        return int(commits)

    def sessions(self) -> int:
        """Return how many connections others have here now."""
        (others,) = self._row(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND pid <> %s",
            self._name,
            self._own,
        )
        return int(others)

    def close(self) -> None:
        """Give the connections up."""
        self._here.close()
        self._admin.close()

    def _wait_for_sessions(self) -> None:
        give_up_at = time.monotonic() + SESSIONS_END_SECONDS
        while self.sessions():
            if time.monotonic() > give_up_at:
                raise Failed("a session did not end")
            time.sleep(0.05)

    def _row(self, query: str, *parameters: object) -> tuple[Any, ...]:
        row = self._admin.execute(query.encode(), parameters).fetchone()
        assert row is not None, "these queries always answer"
        return tuple(row)


class SqliteFile:
    """A file in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "bench.sqlite3"
        self.url = f"sqlite:///{self.path}"

    def ask(self, query: str) -> int:
        with closing(sqlite3.connect(self.path, timeout=30)) as connection:
            row = connection.execute(query).fetchone()
        return int(row[0]) if row else 0

    def execute(self, text: str) -> None:
        with closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
            connection.execute(text)

    def settle(self) -> None:
        with closing(sqlite3.connect(self.path, timeout=30)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def wal(self) -> None:
        return None

    def counters(self) -> None:
        return None


class Places:
    """Makes places. ``server`` is a PostgreSQL URL that may create databases, or None."""

    def __init__(self, server: str | None, session: str) -> None:
        self.server, self._session = server, session
        self._numbers = count(1)

    @contextmanager
    def postgres(self) -> Iterator[Postgres]:
        """Make a database, and drop it at the end."""
        assert self.server is not None, "entries for PostgreSQL are skipped without one"
        name = f"{self._session}_{next(self._numbers)}_"
        with _directory() as directory:
            place = Postgres(self.server, create_database(self.server, name), directory)
            try:
                yield place
            finally:
                place.close()
                drop_databases(self.server, prefix=name)

    @contextmanager
    def sqlite(self) -> Iterator[SqliteFile]:
        """Make a directory for a file, and remove it at the end."""
        with _directory() as directory:
            yield SqliteFile(directory)


def described(server: str) -> str:
    """Say which server this is and whether its commits are durable, for the head of a table."""
    names = ("server_version", "fsync", "synchronous_commit", "shared_buffers")
    with psycopg.connect(server, autocommit=True) as connection:
        values = []
        for name in names:
            row = connection.execute(sql.SQL("SHOW {}").format(sql.Identifier(name))).fetchone()
            values.append(row[0] if row else "?")
    version, fsync, synchronous, buffers = values
    return (
        f"PostgreSQL {version.split()[0]}, fsync {fsync}, synchronous_commit {synchronous}, "
        f"shared_buffers {buffers}"
    )


@contextmanager
def _directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="onejob-bench-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
