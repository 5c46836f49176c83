"""Replicas as operating system processes: started, killed, frozen, thawed, and always ended.

A replica says ``ready`` on its standard output when it has loaded everything, and begins when it
is told to on its standard input. The end of that input ends it too, so no replica outlives its
parent. Each has a process group of its own: Ctrl-C in the terminal reaches the parent only, which
ends them; should the parent be killed, the kernel wakes a frozen one, which sees its input end.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from onejob.demo.part import Part
from onejob.demo.patience import Stuck, until

#: How long a replica may take to load.
LOADING_SECONDS = 30.0

#: How long a replica that was asked to stop may take before it is killed.
STOPPING_SECONDS = 8.0

#: A freeze that hits a replica inside one of SQLite's writes is tried again this often.
FREEZES_MAX = 40

#: How long a process that was told to stand still may go on, for want of a processor or in a write
#: to a slow disk.
STOPPING_STILL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Mark:
    """What happened to a replica at a monotonic second: start, kill, freeze, thaw or end."""

    at: float
    what: str


@dataclass(slots=True)
class Replica:
    """One process of an act."""

    name: str
    process: subprocess.Popen[str]
    errors: Path
    marks: list[Mark] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self.process.pid

    def mark(self, what: str) -> None:
        """Write down what happens to it now."""
        self.marks.append(Mark(time.monotonic(), what))

    def tell(self, **words: object) -> None:
        """Send it one line; one that is dead already hears nothing."""
        try:
            _pipe(self.process.stdin).write(json.dumps(words) + "\n")
            _pipe(self.process.stdin).flush()
        except OSError:
            pass

    def ended(self) -> bool:
        """Tell whether the process is gone."""
        return self.process.poll() is not None

    def kill(self) -> None:
        """End it at once, as the kernel does when memory runs out: it runs no more code."""
        self.process.kill()
        self.process.wait()
        self.mark("kill")

    def freeze(self, safe: Callable[[], bool] = lambda: True) -> None:
        """Stop it where it stands, as a long garbage collection or a live migration does.

        ``safe`` tells whether the others can still write to the store. A process that is frozen
        inside a write to SQLite stops them all; it is let go for an instant and frozen again.
        """
        frozen(self.pid, safe, name=self.name)
        self.mark("freeze")

    def thaw(self) -> None:
        """Let it go on. It doesn't know that it stood still."""
        os.kill(self.pid, signal.SIGCONT)
        self.mark("thaw")

    def last_words(self) -> str:
        """Return the last line that it wrote to its standard error, "" for none."""
        lines = self.errors.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def frozen(pid: int, safe: Callable[[], bool], *, name: str) -> None:
    """Freeze a process where ``safe`` says that the others can go on; Stuck if it never does."""
    for _ in range(FREEZES_MAX):
        os.kill(pid, signal.SIGSTOP)
        stands = _stands_still(pid)
        if stands and safe():
            return
        os.kill(pid, signal.SIGCONT)
        if not stands:
            raise Stuck(f"{name} did not stand still within {STOPPING_STILL_SECONDS:.0f} s")
        time.sleep(0.002)
    raise Stuck(f"{name} was inside a write each of {FREEZES_MAX} times")


def _stands_still(pid: int) -> bool:
    """Wait until every thread of a child has stopped; tell whether they have.

    The signal is sent at once and heard later: on a busy machine a thread may begin a write in
    between, after whoever looked has found that nobody writes.
    """
    if not hasattr(os, "waitid"):
        time.sleep(0.1)  # macOS has none before Python 3.13: enough where threads have processors
        return True
    end = time.monotonic() + STOPPING_STILL_SECONDS
    while os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is None:
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


class Fleet:
    """The replicas of one act. A context manager: none of them is left when it ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.replicas: list[Replica] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def dismiss(self) -> None:
        """End every replica at once and forget it, as though none had been started."""
        self._end()
        self.replicas.clear()

    def _end(self) -> None:
        for replica in self.replicas:
            if not replica.ended():
                replica.process.kill()  # reaches a frozen one too
        for replica in self.replicas:
            replica.process.wait()
            for stream in (replica.process.stdin, replica.process.stdout):
                _close(_pipe(stream))

    def start(self, part: Part) -> Replica:
        """Start a replica and wait until it has loaded."""
        [replica] = self.start_all([part])
        return replica

    def start_all(self, parts: list[Part]) -> list[Replica]:
        """Start replicas side by side and wait until all have loaded."""
        replicas = [self._spawn(part) for part in parts]
        for replica in replicas:
            _await_ready(replica)
            replica.mark("start")
        return replicas

    def named(self, name: str) -> Replica:
        """Return the replica of that name."""
        return next(replica for replica in self.replicas if replica.name == name)

    def stop(self) -> None:
        """Ask every replica to stop, by the end of its input, and wait; kill who doesn't."""
        for replica in self.replicas:
            if not replica.ended():
                _close(_pipe(replica.process.stdin))
        try:
            until(self._all_ended, seconds=STOPPING_SECONDS, what="the end of all replicas")
        finally:
            for replica in self.replicas:
                if not replica.marks or replica.marks[-1].what not in ("kill", "end"):
                    replica.mark("end")

    def wait_ended(self, *, seconds: float, what: str) -> None:
        """Wait until every replica has ended by itself; Stuck when one hasn't."""
        until(self._all_ended, seconds=seconds, what=what)
        self.stop()

    def _all_ended(self) -> bool:
        return all(replica.ended() for replica in self.replicas)

    def _spawn(self, part: Part) -> Replica:
        errors = self._directory / f"{part.replica}.{len(self.replicas)}.log"
        with errors.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "onejob.demo.replica", json.dumps(asdict(part))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=0,
                env=environment(),
            )
        replica = Replica(part.replica, process, errors)
        self.replicas.append(replica)
        return replica


def environment() -> dict[str, str]:
    """Return the environment without what somebody has set for an application of their own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ONEJOB_")}


def _await_ready(replica: Replica) -> None:
    stream = _pipe(replica.process.stdout)
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        ready = selector.select(LOADING_SECONDS)
    if not ready or stream.readline().strip() != "ready":
        raise Stuck(f"{replica.name} did not start: {replica.last_words() or 'it said nothing'}")


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None, "every replica is started with pipes"
    return stream


def _close(stream: IO[str]) -> None:
    try:
        stream.close()
    except OSError:
        pass  # unsent words for a process that is gone
