"""Processes that read files side by side, each of which may be lost without losing the scan.

1. A reader is started with Python's safe path: nothing in the scanned directory can be imported,
   even when the scan is started there.
2. It is handed a chunk of paths on one line and answers with one line of facts for each file.
3. A reader that dies, or takes too long for a file, is ended, and another one goes on behind that
   file: one hostile file costs one note.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onejob.scan import wire
from onejob.scan.facts import Fact, Note
from onejob.scan.suppress import Allowance

FILE_SECONDS_MAX = 20.0
#: Once more for the first file of a process, which has to be started for it.
START_SECONDS_MAX = 20.0
_MAIN = "from onejob.scan.engine import serve; serve()"


@dataclass(frozen=True, slots=True)
class Taken:
    """What some files gave."""

    facts: tuple[Fact, ...]
    comments: tuple[Allowance, ...]
    files: int


class Watch:
    """Ends a process whose next answer does not come in time. One thread, however many answers."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._changed = threading.Condition()
        self._deadline: float | None = None
        self._ended = False
        threading.Thread(target=self._watch, daemon=True).start()

    def expect(self, seconds: float | None) -> None:
        """Begin to wait for an answer; None for none."""
        with self._changed:
            before = self._deadline
            self._deadline = None if seconds is None else time.monotonic() + seconds
            if before is None or (self._deadline is not None and self._deadline < before):
                self._changed.notify()

    def end(self) -> None:
        """Watch no longer."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._ended:
                left = None if self._deadline is None else self._deadline - time.monotonic()
                if left is not None and left <= 0:
                    self._process.kill()
                    return
                self._changed.wait(left)


class Reader:
    """One process, started when it is first needed and again after it was lost."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: Watch | None = None

    def take(self, paths: list[str]) -> Iterator[Taken]:
        """Return what each file gives; a note for one whose reader died or took too long."""
        while paths:
            done = 0
            for taken in self._asked(paths):
                yield taken
                done += 1
            if done < len(paths):
                self.end()
                yield Taken((Note(paths[done], _LOST),), (), 1)
            paths = paths[done + 1 :]

    def _asked(self, paths: list[str]) -> Iterator[Taken]:
        """Return the answers of one process, as long as it gives any."""
        seconds = FILE_SECONDS_MAX
        if self._process is None:
            self._process = _started()
            self._watch = Watch(self._process)
            seconds += START_SECONDS_MAX
        process, watch = self._process, self._watch
        assert process.stdin is not None, "it was started with pipes"
        assert process.stdout is not None, "it was started with pipes"
        assert watch is not None, "it was started with the process"
        try:
            process.stdin.write(wire.encode([str(self.root), *paths]).encode() + b"\n")
            process.stdin.flush()
            for _ in paths:
                watch.expect(seconds)
                seconds = FILE_SECONDS_MAX
                line = process.stdout.readline()
                if not line.endswith(b"\n"):
                    return
                facts, comments = wire.decode(line)
                yield Taken(facts, comments, 1)
        except OSError:
            return
        finally:
            watch.expect(None)

    def end(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None and self._watch is not None:
            self._watch.end()
            self._process.kill()
            self._process.communicate()
            self._process = self._watch = None


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _MAIN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(_trusted, sys.path))},
    )


def _trusted(place: str) -> bool:
    """An empty or relative entry would be looked up in the directory that is scanned."""
    return bool(place) and os.path.isabs(place)


def read(root: Path, chunks: list[list[str]], readers: int) -> Iterator[Taken]:
    """Return what the chunks give, as they come."""
    waiting: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()
    ready: queue.SimpleQueue[Taken | BaseException | None] = queue.SimpleQueue()
    for chunk in chunks:
        waiting.put(chunk)
    for _ in range(readers):
        waiting.put(None)
    threads = [
        threading.Thread(target=_work, args=(root.absolute(), waiting, ready), daemon=True)
        for _ in range(readers)
    ]
    for thread in threads:
        thread.start()
    ended = 0
    while ended < readers:
        found = ready.get()
        if found is None:
            ended += 1
        elif isinstance(found, BaseException):
            raise found
        else:
            yield found


def _work(
    root: Path,
    waiting: queue.SimpleQueue[list[str] | None],
    ready: queue.SimpleQueue[Taken | BaseException | None],
) -> None:
    reader = Reader(root)
    try:
        while (chunk := waiting.get()) is not None:
            for taken in reader.take(chunk):
                ready.put(taken)
    except BaseException as error:  # noqa: BLE001  # told to the thread that waits
        ready.put(error)
    finally:
        reader.end()
        ready.put(None)


_LOST = f"its reader died, or took more than {FILE_SECONDS_MAX:.0f} s: not judged"
