"""A Redis for the tests, from the first source that has one.

1. ``ONEJOB_TEST_REDIS``, a URL: never started, never stopped.
2. A server that listens on 127.0.0.1:6379.
3. ``redis-server`` or ``valkey-server`` on the PATH: a private one.
4. Debian's package, where we are root: a private one of it.

``ONEJOB_TEST_REDIS_FROM=binaries,apt`` chooses. Whatever is made on a server that is not ours has
a prefix of the test's own, and is deleted by the test.
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

import redis

from servers.debian import installed
from servers.server import Absent, NotThere, Running, first_of

LISTENING = "redis://127.0.0.1:6379/9"
OLDEST = 6
START_SECONDS = 10.0
ADVICE = "Redis 6 or newer: apt install redis-server, or brew install redis"


class RedisServer:
    name = "Redis"

    def __init__(self) -> None:
        self._private: PrivateRedis | None = None

    def start(self, *, session: str) -> Running | Absent:
        sources: dict[str, Callable[[], Running]] = {
            "given": _given,
            "listening": lambda: answer(LISTENING, "listening on 127.0.0.1:6379"),
            "binaries": lambda: self._launch("private"),
            "apt": lambda: self._install(),
        }
        return first_of("REDIS", sources, failures=(redis.RedisError, OSError), advice=ADVICE)

    def stop(self) -> None:
        if self._private is not None:
            self._private.stop()

    def _launch(self, origin: str) -> Running:
        self._private = PrivateRedis()
        return answer(self._private.url, origin)

    def _install(self) -> Running:
        installed("redis-server", lambda: shutil.which("redis-server"))
        return self._launch("private, from Debian's package")


class PrivateRedis:
    """A server of our own on a free port of this machine, which keeps nothing."""

    def __init__(self, *arguments: str, port: int | None = None) -> None:
        binary = shutil.which("redis-server") or shutil.which("valkey-server")
        if binary is None:
            raise NotThere("no redis-server and no valkey-server on the PATH")
        self.port = free_port() if port is None else port
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._directory = Path(tempfile.mkdtemp(prefix="onejob-redis-"))
        quiet = ["--save", "", "--dir", str(self._directory), "--bind", "127.0.0.1"]
        if not arguments or not arguments[0].endswith(".conf"):
            arguments = ("--port", str(self.port), *quiet, *arguments)
        self.process = subprocess.Popen(
            [binary, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait()

    def stop(self) -> None:
        """End it, and remove what it wrote."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _wait(self) -> None:
        give_up_at = time.monotonic() + START_SECONDS
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=0.5):
                    return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > give_up_at:
                    self.stop()
                    raise NotThere("the private server did not start") from None
                time.sleep(0.02)


def free_port(*, highest: int = 65_535) -> int:
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port <= highest:
            return port


def answer(url: str, origin: str) -> Running:
    """Say which version answers at `url`; raises where none does, or it is too old."""
    with redis.Redis.from_url(url, socket_connect_timeout=3) as client:
        told = client.info("server")
    version = str(told.get("valkey_version") or told["redis_version"])
    if int(version.split(".")[0]) < OLDEST:
        raise NotThere(f"the server at {origin} is older than Redis {OLDEST}")
    return Running(url, version, origin)


def _given() -> Running:
    if url := os.environ.get("ONEJOB_TEST_REDIS"):
        return answer(url, "ONEJOB_TEST_REDIS")
    raise NotThere("ONEJOB_TEST_REDIS is not set")
