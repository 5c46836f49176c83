"""A RabbitMQ for the tests, from the first source that has one.

1. ``ONEJOB_TEST_RABBITMQ``, an amqp URL: never started, never stopped.
2. A server that listens on 127.0.0.1:5672, for guest.
3. ``rabbitmq-server`` where packages put it: a private one.
4. Debian's package, where we are root: a private one of it.

``ONEJOB_TEST_RABBITMQ_FROM=binaries,apt`` chooses. Queues have a name of the test's own, and are
deleted by the test.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from glob import glob
from pathlib import Path

import aio_pika

from servers.debian import installed
from servers.redis import free_port
from servers.server import Absent, NotThere, Running, first_of

LISTENING = "amqp://guest:guest@127.0.0.1:5672/"
#: The script itself: what stands on the PATH may insist on a user of its own.
PLACES = (
    "/usr/lib/rabbitmq/bin/rabbitmq-server",
    "/opt/homebrew/opt/rabbitmq/sbin/rabbitmq-server",
)
START_SECONDS = 60.0
ADVICE = "RabbitMQ 3.8 or newer: apt install rabbitmq-server, or brew install rabbitmq"


class RabbitmqServer:
    name = "RabbitMQ"

    def __init__(self) -> None:
        self._private: PrivateRabbitmq | None = None

    def start(self, *, session: str) -> Running | Absent:
        sources: dict[str, Callable[[], Running]] = {
            "given": _given,
            "listening": lambda: answer(LISTENING, "listening on 127.0.0.1:5672"),
            "binaries": lambda: self._launch("private"),
            "apt": lambda: self._install(),
        }
        return first_of(
            "RABBITMQ", sources, failures=(OSError, aio_pika.exceptions.AMQPError), advice=ADVICE
        )

    def stop(self) -> None:
        if self._private is not None:
            self._private.stop()

    def _launch(self, origin: str) -> Running:
        self._private = PrivateRabbitmq()
        return answer(self._private.url, origin)

    def _install(self) -> Running:
        installed("rabbitmq-server", lambda: Path(PLACES[0]) if Path(PLACES[0]).exists() else None)
        return self._launch("private, from Debian's package")


class PrivateRabbitmq:
    """A server of our own on a free port of this machine, which forgets everything."""

    def __init__(self) -> None:
        found = [place for place in PLACES if Path(place).exists()]
        binary = found[0] if found else shutil.which("rabbitmq-server")
        if binary is None:
            raise NotThere("no rabbitmq-server on the PATH, nor in " + ", ".join(PLACES))
        self._directory = Path(tempfile.mkdtemp(prefix="onejob-rabbitmq-"))
        port, home = free_port(highest=40_000), str(self._directory)
        self.url = f"amqp://guest:guest@127.0.0.1:{port}/"
        self._environment = {
            **os.environ,
            "HOME": home,
            "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "onejob@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": home,
            "RABBITMQ_LOG_BASE": home,
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._directory / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        }
        self._process = subprocess.Popen(
            [binary],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait()

    def stop(self) -> None:
        """End it and the name daemon that it has started, and remove what it wrote."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        epmd = shutil.which("epmd") or next(iter(glob("/usr/lib/erlang/erts-*/bin/epmd")), None)
        if epmd is not None:
            subprocess.run([epmd, "-kill"], env=self._environment, capture_output=True, check=False)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _wait(self) -> None:
        give_up_at = time.monotonic() + START_SECONDS
        while True:
            try:
                answer(self.url, "private")
                return
            except (OSError, aio_pika.exceptions.AMQPError):
                if self._process.poll() is not None or time.monotonic() > give_up_at:
                    self.stop()
                    raise NotThere("the private server did not start") from None
                time.sleep(0.2)


def answer(url: str, origin: str) -> Running:
    """Say which version answers at `url`; raises where none does."""

    async def version() -> str:
        connection = await aio_pika.connect(url, timeout=5)
        async with connection:
            transport = connection.transport
            assert transport is not None
            told = transport.connection.server_properties["version"]
            return told.decode() if isinstance(told, bytes) else str(told)

    return Running(url, asyncio.run(version()), origin)


def _given() -> Running:
    if url := os.environ.get("ONEJOB_TEST_RABBITMQ"):
        return answer(url, "ONEJOB_TEST_RABBITMQ")
    raise NotThere("ONEJOB_TEST_RABBITMQ is not set")
