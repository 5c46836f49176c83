"""Processes that begin at the same moment, each with one JSON document at its end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.rounds import Failed

#: Beyond what they were told to do.
PATIENCE_SECONDS = 120.0


def together(commands: Sequence[Sequence[object]], seconds: float) -> list[dict[str, Any]]:
    """Start ``benchmarks.drivers.locker`` with each of these arguments; let them go at once."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.drivers.locker", *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    try:
        for process in started:
            assert process.stdout is not None, "piped"
            if process.stdout.readline().strip() != "ready":
                raise Failed("a process did not begin")
        for process in started:
            assert process.stdin is not None, "piped"
            process.stdin.write("go\n")
            process.stdin.flush()
        ended = [process.communicate(timeout=seconds + PATIENCE_SECONDS) for process in started]
        if any(process.returncode for process in started):
            raise Failed("a process ended with an error")
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.wait()
    return [json.loads(out.splitlines()[-1]) for out, _ in ended]
