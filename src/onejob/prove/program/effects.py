"""What counts as an effect: lines of a file, rows of a query, lines that a command prints."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from onejob.errors import OnejobError, UsageError
from onejob.url import parse

#: How long a query or a command that reads effects may take.
READING_SECONDS = 20.0

#: How long a reader waits for SQLite's writer; one that is frozen in its commit goes on later.
BUSY_SECONDS = 0.2

_BOUND = "SELECT set_config('statement_timeout', %s, false)"

LOOPBACK = frozenset({"", "localhost", "127.0.0.1", "::1"})


class Unreadable(OnejobError):
    """The effects could not be read, so nothing can be said."""

    code = "effects_unreadable"


class Busy(Unreadable):
    """A copy holds the database at this moment; it can be read when that one goes on, or ends."""

    code = "effects_busy"


class Effects(Protocol):
    """Where the effects of a play are found. ``quick``: reading costs next to nothing."""

    @property
    def quick(self) -> bool: ...

    def read(self, folder: Path) -> Counter[str]:
        """Return how often each effect is there, for a play in this folder."""
        ...


@dataclass(frozen=True, slots=True)
class InFile:
    """Each line of a file is an effect; one that is still being written is none yet."""

    path: str
    quick: bool = True

    def read(self, folder: Path) -> Counter[str]:
        """Read the lines; a file that is not there yet has none."""
        try:
            text = (folder / self.path).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return Counter()
        except OSError as error:
            raise Unreadable(f"--effects-file {self.path}: {error}") from error
        whole = text[: text.rfind("\n") + 1]
        return Counter(line for line in whole.splitlines() if line.strip())


@dataclass(frozen=True, slots=True)
class InDatabase:
    """Each row of a query is an effect. A relative SQLite file is the one in the play's folder."""

    url: str
    query: str
    quick: bool = False

    def read(self, folder: Path) -> Counter[str]:
        """Run the query; a table that is not there yet has no rows."""
        found = parse(self.url)
        if found.dialect == "sqlite":
            # As it is written: parse() has made it absolute, and the play has a folder of its own.
            return self._sqlite(folder / self.url.partition(":///")[2].partition("?")[0])
        if found.dialect == "postgresql":
            return self._postgres(found.target)
        raise UsageError(
            f"--effects-sql is not read from {found.dialect}. Use sqlite:///FILE, postgresql://…, "
            "or --effects-command with that store's own client."
        )

    def _sqlite(self, path: Path) -> Counter[str]:
        if not path.exists():
            return Counter()
        try:
            with closing(
                sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=BUSY_SECONDS)
            ) as connection:
                return _rows(connection.execute(self.query).fetchall())
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return Counter()
            if "locked" in str(error):
                raise Busy(f"--effects-sql: {error}") from error
            raise Unreadable(f"--effects-sql: {error}") from error
        except sqlite3.Error as error:
            raise Unreadable(f"--effects-sql: {error}") from error

    def _postgres(self, target: str) -> Counter[str]:
        import psycopg

        try:
            with psycopg.connect(target, connect_timeout=5, autocommit=True) as connection:
                connection.execute(_BOUND, (f"{READING_SECONDS:.0f}s",))
                return _rows(connection.execute(self.query.encode()).fetchall())
        except psycopg.errors.UndefinedTable:
            return Counter()
        except psycopg.Error as error:
            raise Unreadable(f"--effects-sql: {str(error).splitlines()[0]}") from error


@dataclass(frozen=True, slots=True)
class FromCommand:
    """Each line that a command prints is an effect. It runs in the play's folder."""

    command: str
    quick: bool = False

    def read(self, folder: Path) -> Counter[str]:
        """Run it in a shell, as it was given."""
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", self.command],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=READING_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unreadable(f"--effects-command: {error}") from error
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise Unreadable(f"--effects-command exits {done.returncode}: {''.join(said)}")
        return Counter(line for line in done.stdout.splitlines() if line.strip())


def _rows(rows: Sequence[Sequence[object]]) -> Counter[str]:
    return Counter(json.dumps([*row], default=str) for row in rows)


def is_near(url: str) -> bool:
    """Tell whether a database stands on this machine, where there is nothing of others to break."""
    return parse(url).dialect == "sqlite" or (urlsplit(url).hostname or "") in LOOPBACK
