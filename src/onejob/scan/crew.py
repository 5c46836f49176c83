"""Processes that read files side by side, each of which may be lost without losing the scan.

1. A reader is started with Python's safe path: nothing in the scanned directory can be imported,
   even when the scan is started there.
2. It is handed a chunk of paths on one line and answers with the facts on one line.
3. A reader that dies, or takes too long, is ended; its chunk is read again file by file, so that
   one hostile file costs one note.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from onejob.scan import wire
from onejob.scan.facts import Fact, Note
from onejob.scan.suppress import Allowance

CHUNK_SECONDS_MAX = 90.0
FILE_SECONDS_MAX = 20.0
_MAIN = "from onejob.scan.engine import serve; serve()"


@dataclass(frozen=True, slots=True)
class Taken:
    """What one chunk of files gave."""

    facts: tuple[Fact, ...]
    comments: tuple[Allowance, ...]
    files: int


@dataclass
class Reader:
    """One process, started when it is first needed and again after it was lost."""

    root: Path
    process: subprocess.Popen[bytes] | None = field(default=None)

    def take(self, paths: list[str], seconds: float) -> Taken | None:
        """Return what a chunk gives; None when the process died or took too long."""
        if self.process is None:
            self.process = _started()
        process = self.process
        assert process.stdin is not None, "it was started with pipes"
        assert process.stdout is not None, "it was started with pipes"
        watch = threading.Timer(seconds, process.kill)
        watch.daemon = True
        watch.start()
        try:
            line = _asked(process.stdin, process.stdout, self.root, paths)
        finally:
            watch.cancel()
        if not line.endswith(b"\n"):
            self.end()
            return None
        facts, comments = wire.decode(line)
        return Taken(facts, comments, len(paths))

    def end(self) -> None:
        """End the process, whatever it does."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


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


def _asked(given: IO[bytes], answered: IO[bytes], root: Path, paths: list[str]) -> bytes:
    try:
        given.write(wire.encode([str(root), *paths]).encode() + b"\n")
        given.flush()
        return answered.readline()
    except (BrokenPipeError, OSError):
        return b""


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
            found = reader.take(chunk, CHUNK_SECONDS_MAX)
            if found is not None:
                ready.put(found)
                continue
            for path in chunk:
                alone = reader.take([path], FILE_SECONDS_MAX)
                ready.put(alone or Taken((Note(path, _LOST),), (), 1))
    except BaseException as error:  # noqa: BLE001  # told to the thread that waits
        ready.put(error)
    finally:
        reader.end()
        ready.put(None)


_LOST = f"its reader died, or took more than {FILE_SECONDS_MAX:.0f} s: not judged"
