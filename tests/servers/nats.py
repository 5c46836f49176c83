"""A NATS server with JetStream for the tests, from the first source that has one.

1. ``ONEJOB_TEST_NATS``, a nats URL: never started, never stopped.
2. A server that listens on 127.0.0.1:4222 and has JetStream.
3. ``nats-server`` on the PATH or where Debian puts it: a private one.
4. Debian's package, where we are root: a private one of it.

``ONEJOB_TEST_NATS_FROM=binaries,apt`` chooses. Streams have a name of the test's own, and are
deleted by the test.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nats
import nats.errors
import nats.js.errors

from servers.debian import installed
from servers.redis import free_port
from servers.server import Absent, NotThere, Running, first_of

LISTENING = "nats://127.0.0.1:4222"
PLACES = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
START_SECONDS = 10.0
ADVICE = "NATS 2.9 or newer: apt install nats-server, or brew install nats-server"
FAILURES = (nats.errors.Error, nats.js.errors.Error, OSError, TimeoutError)


class NatsServer:
    name = "NATS"

    def __init__(self) -> None:
        self._private: PrivateNats | None = None

    def start(self, *, session: str) -> Running | Absent:
        sources: dict[str, Callable[[], Running]] = {
            "given": _given,
            "listening": lambda: answer(LISTENING, "listening on 127.0.0.1:4222"),
            "binaries": lambda: self._launch("private"),
            "apt": lambda: self._install(),
        }
        return first_of("NATS", sources, failures=FAILURES, advice=ADVICE)

    def stop(self) -> None:
        if self._private is not None:
            self._private.stop()

    def _launch(self, origin: str) -> Running:
        self._private = PrivateNats()
        return answer(self._private.url, origin)

    def _install(self) -> Running:
        installed("nats-server", lambda: shutil.which("nats-server", path="/usr/sbin"))
        return self._launch("private, from Debian's package")


class PrivateNats:
    """A server of our own on a free port of this machine, which forgets everything."""

    def __init__(self) -> None:
        path = os.pathsep.join([os.environ.get("PATH", ""), *PLACES])
        binary = shutil.which("nats-server", path=path)
        if binary is None:
            raise NotThere("no nats-server on the PATH")
        port = free_port()
        self.url = f"nats://127.0.0.1:{port}"
        self._directory = Path(tempfile.mkdtemp(prefix="onejob-nats-"))
        self._process = subprocess.Popen(
            [binary, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(self._directory)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        give_up_at = time.monotonic() + START_SECONDS
        while True:
            try:
                answer(self.url, "private")
                return
            except FAILURES:
                if self._process.poll() is not None or time.monotonic() > give_up_at:
                    self.stop()
                    raise NotThere("the private server did not start") from None
                time.sleep(0.05)

    def stop(self) -> None:
        """End it, and remove what it wrote."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def answer(url: str, origin: str) -> Running:
    """Say which version answers at `url`; raises where none does, or it has no JetStream."""

    async def ignored(error: Exception) -> None:
        """What fails is raised by the call that asked."""

    async def version() -> str:
        client = await nats.connect(url, allow_reconnect=False, connect_timeout=3, error_cb=ignored)
        try:
            await client.jetstream().account_info()
            return str(client._server_info["version"])
        finally:
            await client.close()

    return Running(url, asyncio.run(version()), origin)


def _given() -> Running:
    if url := os.environ.get("ONEJOB_TEST_NATS"):
        return answer(url, "ONEJOB_TEST_NATS")
    raise NotThere("ONEJOB_TEST_NATS is not set")
