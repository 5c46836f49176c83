"""What a process of the exercise is doing at this very moment, in memory that others can read.

The process writes; whoever freezes it reads, at any instant. Where it enters the step that somebody
aims at, it says so on a pipe: looking again and again would come too late for a short step.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import Final

#: Everything that a holder does, in order. One freeze is aimed at each in turn.
PHASES: Final = (
    "loading",
    "acquire",
    "announce",
    "transaction",
    "lease_fence",
    "app_fence",
    "token_seen",
    "script",
    "http",
    "bare",
    "work",
    "renew",
    "release",
)
_SIZE: Final = 64


class Board:
    """Eight bytes for each number; each is written and read in one piece."""

    def __init__(self, path: Path, bell: int = -1) -> None:
        self._bell = bell
        if not path.exists():
            path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SIZE)

    def _get(self, place: int) -> int:
        return int(struct.unpack_from("<q", self._memory, 8 * place)[0])

    def _set(self, place: int, value: int) -> None:
        struct.pack_into("<q", self._memory, 8 * place, value)

    @property
    def phase(self) -> str:
        return PHASES[self._get(0)]

    @phase.setter
    def phase(self, name: str) -> None:
        number = PHASES.index(name)
        self._set(0, number)
        if self._bell >= 0 and self._get(5) == number:
            self._set(5, -1)
            os.write(self._bell, b"!")

    @property
    def token(self) -> int:
        """The token of the last lease that the process got."""
        return self._get(1)

    @token.setter
    def token(self, token: int) -> None:
        self._set(1, token)

    @property
    def acquired(self) -> int:
        """When it got it, in nanoseconds of the machine's monotonic clock."""
        return self._get(2)

    @acquired.setter
    def acquired(self, at: int) -> None:
        self._set(2, at)

    @property
    def rounds(self) -> int:
        """How many leases it has left behind it."""
        return self._get(3)

    @rounds.setter
    def rounds(self, count: int) -> None:
        self._set(3, count)

    @property
    def target(self) -> str:
        """The step at which the process is to ring, once; "" for none."""
        number = self._get(5)
        return PHASES[number] if number > 0 else ""

    @target.setter
    def target(self, name: str) -> None:
        self._set(5, PHASES.index(name) if name else -1)

    @property
    def stop(self) -> bool:
        """Whether it is to end, once its lease is over."""
        return bool(self._get(4))

    @stop.setter
    def stop(self, stop: bool) -> None:
        self._set(4, int(stop))
