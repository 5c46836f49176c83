"""A Redis of our own for the peers that need one, on a free port, forgetting everything."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import running

START_SECONDS = 5.0


def have_redis() -> bool:
    """Tell whether there is a server to start."""
    return shutil.which("redis-server") is not None


@contextmanager
def redis(directory: Path) -> Iterator[int]:
    """Start a server; yield its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1"]
    quiet = ["--save", "", "--appendonly", "no", "--dir", str(directory)]
    with running([*command, *quiet], {}, directory / "redis.log") as server:
        server.wait_for("listening", lambda: _answers(port), seconds=START_SECONDS)
        yield port


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.2):
            return True
    except OSError:
        time.sleep(0.02)
        return False
