"""Processes that are measured: started in a group of their own, watched by the kernel's figures."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.rounds import Failed

#: How long a worker may drain after SIGTERM before it is killed.
STOP_SECONDS = 5.0
LOOK_SECONDS = 0.004


class Process:
    """One measured process, with all that it starts."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                list(command),
                env=dict(environment),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id, which is its group's as well."""
        return self._popen.pid

    def check(self) -> None:
        """Raise Failed once it has ended."""
        if self._popen.poll() is not None:
            raise Failed(f"it ended with {self._popen.returncode}: {self.last_words()}")

    def wait_for(self, what: str, reached: Callable[[], bool], *, seconds: float) -> None:
        """Wait until something is reached while it runs; Failed after so many seconds."""
        give_up_at = time.monotonic() + seconds
        while not reached():
            self.check()
            if time.monotonic() > give_up_at:
                raise Failed(f"{what} was not reached in {seconds:.0f} s: {self.last_words()}")
            time.sleep(LOOK_SECONDS)

    def cpu_seconds(self) -> float | None:
        """Return the processor time of it and its children so far; None where unknown."""
        try:
            return sum(map(_cpu_ticks, _family(self.pid))) / os.sysconf("SC_CLK_TCK")
        except OSError:
            return None

    def resident_bytes(self) -> int | None:
        """Return the memory it has in RAM now; None where unknown."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except OSError:
            return None
        return pages * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """End it, and all it started, as a power cut would."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()

    def stop(self) -> None:
        """Ask it to end, and kill it when it takes too long."""
        if self._popen.poll() is None:
            self._popen.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(STOP_SECONDS)
        self.kill()

    def last_words(self) -> str:
        """Return the end of what it wrote."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-3:]) or "it said nothing"


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[Process]:
    """Start a process, and end it with the block."""
    process = Process(command, environment, log)
    try:
        yield process
    finally:
        process.stop()


def _family(pid: int) -> list[int]:
    found, unseen = [], [pid]
    while unseen:
        one = unseen.pop()
        found.append(one)
        with suppress(FileNotFoundError):
            for task in Path(f"/proc/{one}/task").iterdir():
                unseen += map(int, (task / "children").read_text().split())
    return found


def _cpu_ticks(pid: int) -> int:
    # After the name in parentheses, which may hold anything: utime, stime, and those of children
    # that have ended.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))
