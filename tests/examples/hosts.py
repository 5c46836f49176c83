"""The examples as users start them: real servers, in process groups of their own, always ended."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent

#: How often a condition is looked at.
LOOK_SECONDS = 0.05
#: How long a server may take to stop before it is killed.
STOP_SECONDS = 15.0
#: How long anything may take on a machine that has other things to do.
PATIENCE_SECONDS = 40.0


def until(condition: Callable[[], Any], what: str, *, seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait until ``condition`` answers with something true, and return it."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(LOOK_SECONDS)
    return answer


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def ask(port: int, path: str, method: str = "GET") -> dict[str, Any] | None:
    """Ask a server on loopback over a connection of its own; None while nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path)
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return answer


@dataclass(slots=True)
class Hosts:
    """The servers of one test. None of their processes is left when the block ends."""

    logs: Path
    environment: dict[str, str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        end = time.monotonic() + STOP_SECONDS
        for process in self.processes:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            # Whoever is left of its group: workers that outlived their master, or don't listen.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        if error is not None:
            print(self.said())

    def start(self, program: str, *arguments: str, cwd: Path = ROOT) -> subprocess.Popen[bytes]:
        """Start a program of this environment."""
        with (self.logs / f"{program}.{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(BIN / program), *arguments],
                cwd=cwd,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        self.processes.append(process)
        return process

    def said(self) -> str:
        """Return what all servers have written, for a test that fails."""
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-6_000:]}"
            for log in sorted(self.logs.glob("*.log"))
        )
