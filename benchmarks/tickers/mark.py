"""What every ticker shares: where it is, and how a firing is written down. Standard library only.

A line holds the fire time that the library names ("-" where it names none), the moment at which
the handler began, both in seconds of the wall clock, and the process.
"""

from __future__ import annotations

import os
import sys
import time

URL = os.environ.get("BENCH_URL", "")
REDIS_PORT = int(os.environ.get("BENCH_REDIS", "0"))
REDIS = f"redis://127.0.0.1:{REDIS_PORT}/0"
DIRECTORY = os.environ.get("BENCH_DIRECTORY", ".")
ROLE = sys.argv[1] if len(sys.argv) > 1 else ""
NUMBER = os.environ.get("BENCH_NUMBER", "0")


def fire(at: float | None = None) -> None:
    """Leave a mark: one fire time has been answered by one handler."""
    named = "-" if at is None else f"{at:.6f}"
    line = f"{named} {time.time():.6f} {os.getpid()}\n".encode()
    file = os.open(os.path.join(DIRECTORY, "fired"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def execute(name: str, *arguments: str) -> None:
    """Become a command of this environment."""
    command = os.path.join(os.path.dirname(sys.executable), name)
    os.execv(command, [name, *arguments])
