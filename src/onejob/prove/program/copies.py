"""Copies of the program: processes in groups of their own, always ended.

What a copy starts belongs to its group and dies with it, as in a container. What leaves the group
(a daemon) is found by a mark in its environment, where the system shows that, and ended as well.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from onejob.errors import UsageError

#: Set in each copy's environment; what it starts inherits it.
MARK = "ONEJOB_PROVE_PLAY"


@dataclass(slots=True)
class Copy:
    """One process of the program, and its number in the play."""

    number: int
    process: subprocess.Popen[bytes]
    frozen: bool = False
    struck: bool = False
    """Killed or asked to end by us: how it ended says nothing of the program."""

    @property
    def alive(self) -> bool:
        """Tell whether it has not ended."""
        return self.process.poll() is None

    @property
    def code(self) -> int | None:
        """How it ended; None while it has not."""
        return self.process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of it."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass  # it has ended, and everything that it had started

    def freeze(self) -> None:
        """Stop it where it stands."""
        self.signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        """Let it go on; it doesn't know that it stood still."""
        self.frozen = False
        self.signal(signal.SIGCONT)


@dataclass(slots=True)
class Copies:
    """All copies of one play. A context manager: nothing of them is left when it ends.

    ``environment`` is added to ours.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path
    all: list[Copy] = field(default_factory=list)
    _mark: str = field(default_factory=lambda: secrets.token_hex(8))

    def __enter__(self) -> Copies:
        return self

    def __exit__(self, *_: object) -> None:
        for copy in self.all:
            copy.signal(signal.SIGKILL)
            copy.process.wait()
        for pid in self._escaped():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def start(self) -> Copy:
        """Start one more."""
        with self.log.open("ab") as log:
            process = self._spawn(log)
        copy = Copy(len(self.all) + 1, process)
        self.all.append(copy)
        return copy

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self.command,
                cwd=self.folder,
                env={**os.environ, **self.environment, MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise UsageError(
                f"the program can't be started: {error}. Give its path, or its name if it is on "
                "PATH, after --."
            ) from error

    def alive(self) -> list[Copy]:
        """Return those that have not ended, oldest first."""
        return [copy for copy in self.all if copy.alive]

    def last_words(self) -> str:
        """Return the last line that any of them wrote."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return (text.strip().splitlines() or [""])[-1][:200]

    def _escaped(self) -> list[int]:
        """Return what a copy started and what left its group. Linux shows environments."""
        found, mark = [], f"{MARK}={self._mark}".encode()
        for place in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in place.read_bytes().split(b"\0"):
                    found.append(int(place.parent.name))
            except OSError:
                continue  # somebody else's, or gone
        return [pid for pid in found if pid != os.getpid()]


def wait_until(condition: Callable[[], bool], *, seconds: float, every: float) -> bool:
    """Wait until a condition holds; False when it doesn't within its time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True
