"""Freezing a process: whoever looks afterwards sees it standing still."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onejob.demo.processes import frozen

#: More threads than processors, so that some are about to run when the signal comes. Each is away
#: from the interpreter for a moment, over and over, as one that writes is.
BUSY = """
import hashlib, threading
def work():
    while True:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000)
for _ in range(16):
    threading.Thread(target=work, daemon=True).start()
print("busy", flush=True)
threading.Event().wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the state of each thread")
def test_the_others_are_looked_at_only_when_every_thread_stands_still() -> None:
    """Else one may begin a write, after the look, and be frozen inside it."""
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
    states: list[set[str]] = []

    def look() -> bool:
        tasks = Path(f"/proc/{process.pid}/task").iterdir()
        stats = [(task / "stat").read_text() for task in tasks]
        states.append({stat.rpartition(")")[2].split()[0] for stat in stats})
        return len(states) == 20

    try:
        assert process.stdout is not None
        process.stdout.readline()
        frozen(process.pid, look, name="busy")
    finally:
        process.kill()
        process.communicate()

    assert states == [{"T"}] * 20
