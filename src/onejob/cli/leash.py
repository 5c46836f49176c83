"""A second, tiny process that ends a program when the process that watches over it can not.

``onejob once`` may be killed, or frozen past its lease, and the program it runs must not outlive
that by much: somebody else will run. So a forked copy of it, made before it has a thread or a
connection, waits at the other end of a pipe. It is told whom to end and until when the lease may be
believed; it asks them to end when the pipe closes, or a little before that time where no later one
was told, and kills them at that time.

The copy holds none of the terminal, of the files, and of the process group of either.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import time
from dataclasses import dataclass
from typing import Final, Self

from onejob.core.time import SECOND
from onejob.runtime.clock import SystemClock

_MESSAGE: Final = struct.Struct("=qqqqq")

#: Sleepers of a suspended machine wake late: look again at least this often.
_NAP: Final = 1 * SECOND
_LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Quarry:
    """A program to end: one process, or with ``group`` its whole process group."""

    pid: int
    group: bool

    def signal(self, number: int) -> bool:
        """Send a signal; False where nobody is left to get it."""
        try:
            if self.group:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True  # it has become somebody else: sudo and the like
        return True

    def ask(self, number: int) -> bool:
        """Send a signal that asks to end, and wake who is stopped: he hears of none before."""
        return self.signal(number) and self.signal(signal.SIGCONT)


class Leash:
    """The end that is held. Make it before threads are started and connections opened."""

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid, self._pipe = pid, pipe

    @classmethod
    def forked(cls) -> Self:
        """Start the copy."""
        _open_streams()
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(write)
            try:
                _watch(read)
            finally:
                os._exit(0)
        os.close(read)
        return cls(pid, write)

    def tell(self, quarry: Quarry, *, ask_at: int, deadline: int, grace: int) -> None:
        """Say whom to end when we can not, when to ask it to, and when it must be gone; again
        after each renewal."""
        self._say(quarry.pid, int(quarry.group), ask_at, deadline, grace)

    def release(self) -> None:
        """Nobody is to be ended any more: let the copy go."""
        if self._pid:
            self._say(0, 0, 0, 0, 0)
            os.close(self._pipe)
            os.waitpid(self._pid, 0)
            self._pid = 0

    def _say(self, *numbers: int) -> None:
        try:
            os.write(self._pipe, _MESSAGE.pack(*numbers))
        except BrokenPipeError:
            pass  # it is gone; what it would have done is only lost with us as well


def _open_streams() -> None:
    """Open what we were started without: the pipe must not become anybody's output."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _watch(pipe: int) -> None:
    os.setsid()
    # What is sent to everybody (a service that stops, a closed terminal) must find it at work.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    clock = SystemClock()
    quarry, ask_at, deadline, grace = None, 0, 0, 0
    while True:
        wait = _NAP if quarry is None else min(_NAP, max(0, ask_at - clock.now()))
        ready, _, _ = select.select([pipe], [], [], wait / SECOND)
        if ready:
            told = os.read(pipe, _MESSAGE.size)
            if not told:
                break  # nobody renews any more
            pid, group, ask_at, deadline, grace = _MESSAGE.unpack(told)
            if not pid:
                return
            quarry = Quarry(pid, bool(group))
        elif quarry is not None and clock.now() >= ask_at:
            break
    # It is to be gone before anybody else may begin.
    grace = max(0, min(grace, deadline - clock.now()))
    if quarry is not None:
        _end(quarry, grace)


def _end(quarry: Quarry, grace: int) -> None:
    clock = SystemClock()
    until = clock.now() + grace
    alive = quarry.ask(signal.SIGTERM)
    while alive and clock.now() < until:
        time.sleep(max(0, min(_LOOK_SECONDS, (until - clock.now()) / SECOND)))
        alive = quarry.signal(0)
    if alive:
        quarry.signal(signal.SIGKILL)
