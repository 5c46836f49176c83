"""A MariaDB for the tests, from the first source that has one.

1. ``ONEJOB_TEST_MARIADB``, a URL: never started, never stopped.
2. A server that listens on 127.0.0.1:3306, for root without a password.
3. ``mariadbd`` or ``mysqld`` on the PATH: a private one.
4. Debian's package, where we are root: a private one of it.

``ONEJOB_TEST_MARIADB_FROM=binaries,apt`` chooses. Whatever is made on a server that is not ours has
a prefix of the test's own, and is dropped by the test.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.cursors import Cursor

from servers.debian import installed
from servers.server import Absent, NotThere, Running, first_of

LISTENING = "mariadb://root@127.0.0.1:3306/test"
#: MariaDB can skip locked rows from 10.6 on, MySQL from 8.0 on.
OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0)}
START_SECONDS = 30.0
ADVICE = "MariaDB 10.6 or newer: apt install mariadb-server, or brew install mariadb"


class MariadbServer:
    name = "MariaDB"

    def __init__(self) -> None:
        self._private: PrivateMariadb | None = None

    def start(self, *, session: str) -> Running | Absent:
        sources: dict[str, Callable[[], Running]] = {
            "given": _given,
            "listening": lambda: answer(LISTENING, "listening on 127.0.0.1:3306"),
            "binaries": lambda: self._launch("private"),
            "apt": lambda: self._install(),
        }
        return first_of("MARIADB", sources, failures=(pymysql.MySQLError, OSError), advice=ADVICE)

    def stop(self) -> None:
        if self._private is not None:
            self._private.stop()

    def _launch(self, origin: str) -> Running:
        self._private = PrivateMariadb()
        return answer(self._private.url, origin)

    def _install(self) -> Running:
        installed("mariadb-server", lambda: shutil.which("mariadbd"))
        return self._launch("private, from Debian's package")


class PrivateMariadb:
    """A server of our own on a free port of this machine, which forgets everything."""

    def __init__(self, *arguments: str) -> None:
        server = shutil.which("mariadbd") or shutil.which("mysqld")
        installer = shutil.which("mariadb-install-db") or shutil.which("mysql_install_db")
        if server is None or installer is None:
            raise NotThere("no mariadbd or mysqld, or no mariadb-install-db, on the PATH")
        self._directory = Path(tempfile.mkdtemp(prefix="onejob-mariadb-"))
        self.port = free_port()
        self.url = f"mariadb://root@127.0.0.1:{self.port}/test"
        # A server refuses to run as root unless it is told to.
        user = ["--user=root"] if os.geteuid() == 0 else []
        data = self._directory / "data"
        made = subprocess.run(
            [
                installer,
                "--no-defaults",
                f"--datadir={data}",
                "--auth-root-authentication-method=normal",
                *user,
            ],
            capture_output=True,
            check=False,
        )
        if made.returncode != 0:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise NotThere(f"mariadb-install-db failed: {made.stderr.decode().strip()[-200:]}")
        self._command = [
            server,
            "--no-defaults",
            f"--datadir={data}",
            f"--socket={self._directory / 'sock'}",
            f"--pid-file={self._directory / 'pid'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=32M",
            *user,
            *arguments,
        ]
        self.process = self._started()
        self._execute("CREATE DATABASE IF NOT EXISTS test")

    def restart(self) -> None:
        """End it without a farewell, and start it again on its data."""
        self.process.kill()
        self.process.wait()
        self.process = self._started()

    def stop(self) -> None:
        """End it, and remove what it wrote."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        give_up_at = time.monotonic() + START_SECONDS
        while True:
            try:
                self._execute("SELECT 1")
                return process
            except pymysql.MySQLError:
                if process.poll() is not None or time.monotonic() > give_up_at:
                    process.kill()
                    process.wait()
                    shutil.rmtree(self._directory, ignore_errors=True)
                    raise NotThere("the private server did not start") from None
                time.sleep(0.05)

    def _execute(self, text: str) -> None:
        with (
            pymysql.connect(
                host="127.0.0.1", port=self.port, user="root", connect_timeout=3
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(text)


def connect(url: str, **options: object) -> pymysql.Connection[Cursor]:
    """Open a connection as a user would, to what a URL of ours names."""
    parts = urlsplit(url)
    given: dict[str, object] = {
        "host": parts.hostname or "127.0.0.1",
        "port": parts.port or 3306,
        "user": unquote(parts.username or "root"),
        "password": unquote(parts.password or ""),
        "database": parts.path.lstrip("/"),
        "connect_timeout": 3,
        **options,
    }
    return pymysql.connect(**given)


def drop_tables(url: str, schema: str) -> None:
    """Drop what stands under a prefix of ours."""
    kinds = {"BASE TABLE": "TABLE", "VIEW": "VIEW"}
    with connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        # A transaction that the test left open keeps its tables for as long as it lasts.
        cursor.execute("SET lock_wait_timeout = 5")
        cursor.execute(
            "SELECT table_name, table_type FROM information_schema.tables "
            "WHERE table_schema = DATABASE() AND table_name LIKE %s",
            (schema.replace("_", "\\_") + "\\_%",),
        )
        for name, kind in cursor.fetchall():
            cursor.execute(f"DROP {kinds[kind]} IF EXISTS `{name}`")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def answer(url: str, origin: str) -> Running:
    """Say which version answers at `url`; raises where none does, or it is too old."""
    with connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        row = cursor.fetchone()
    version = str(row[0]) if row else ""
    kind = "MariaDB" if "MariaDB" in version else "MySQL"
    major, minor = (int(part) for part in version.split("-")[0].split(".")[:2])
    if (major, minor) < OLDEST[kind]:
        oldest = ".".join(map(str, OLDEST[kind]))
        raise NotThere(f"the server at {origin} is older than {kind} {oldest}")
    return Running(url, version, origin)


def _given() -> Running:
    if url := os.environ.get("ONEJOB_TEST_MARIADB"):
        return answer(url, "ONEJOB_TEST_MARIADB")
    raise NotThere("ONEJOB_TEST_MARIADB is not set")
