"""PgBouncer in transaction mode before a PostgreSQL server, for the tests that go through it.

Found on the PATH or where Debian puts it, else installed from Debian's package where we are root.
It will not run as root, so then it runs as the user ``nobody``.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from servers.debian import installed
from servers.redis import free_port
from servers.server import NotThere

PLACES = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
START_SECONDS = 10.0
ADVICE = "PgBouncer: apt install pgbouncer, or brew install pgbouncer"


@contextmanager
def pgbouncer(url: str) -> Iterator[str]:
    """Start one before the database of ``url``; yield the URL that leads through it.

    Few server connections, so that sessions are really shared. Raises NotThere.
    """
    binary = _binary()
    told = conninfo_to_dict(url)
    port, name = free_port(), str(told["dbname"])
    directory = Path(tempfile.mkdtemp(prefix="onejob-pgbouncer-"))
    server = " ".join(
        f"{key}={told[key]}" for key in ("host", "port", "user", "password") if told.get(key)
    )
    configuration = directory / "pgbouncer.ini"
    configuration.write_text(
        f"[databases]\n{name} = {server} dbname={name}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n"
        "pool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 200\n"
        f"unix_socket_dir =\nlogfile = {directory}/log\npidfile = {directory}/pid\n"
    )
    command = [binary, "-q", str(configuration)]
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        for path in (directory, configuration):
            os.chown(path, user.pw_uid, user.pw_gid)
        command[1:1] = ["-u", "nobody"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(process, port)
        yield f"postgresql://{told.get('user') or 'postgres'}@127.0.0.1:{port}/{name}"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _binary() -> str:
    path = os.pathsep.join([os.environ.get("PATH", ""), *PLACES])

    def find() -> str | None:
        return shutil.which("pgbouncer", path=path)

    return find() or installed("pgbouncer", find)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    give_up_at = time.monotonic() + START_SECONDS
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=0.5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > give_up_at:
                raise NotThere("pgbouncer did not start") from None
            time.sleep(0.02)
