"""The processes of one way: started, told steps, frozen, thawed, and always ended."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from onejob.demo.part import Part
from onejob.demo.patience import Stuck
from onejob.demo.processes import Mark, environment, frozen

#: How long a process may take to load, and to answer beyond what a step itself may take.
LOADING_SECONDS = 30.0
ANSWER_SECONDS = 20.0


class Actor:
    """One process. ``marks`` are what happened to it, in monotonic seconds."""

    def __init__(self, part: Part, way: str, ttl: float, errors: Path) -> None:
        self.name = part.replica
        self.marks: list[Mark] = []
        self._errors = errors
        told = json.dumps({"part": asdict(part), "way": way, "ttl": ttl})
        with errors.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "onejob.demo.pause.actor", told],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=0,
                env=environment(),
            )

    def wait_ready(self) -> None:
        """Wait until it has loaded everything."""
        self.answer(LOADING_SECONDS)
        self.mark("start")

    def mark(self, what: str) -> None:
        """Write down what happens to it now."""
        self.marks.append(Mark(time.monotonic(), what))

    def tell(self, do: str, **more: object) -> None:
        """Tell it one step; it reads it when it can."""
        stream = _pipe(self._process.stdin)
        stream.write(json.dumps({"do": do, **more}) + "\n")
        stream.flush()

    def answer(self, seconds: float) -> Mapping[str, Any]:
        """Wait for its answer to the step told first; Stuck when none comes."""
        stream = _pipe(self._process.stdout)
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            came = selector.select(seconds)
        line = stream.readline() if came else ""
        if not line:
            raise Stuck(f"{self.name} did not answer: {self._last_words()}")
        said: Mapping[str, Any] = json.loads(line)
        return said

    def ask(self, do: str, *, seconds: float = ANSWER_SECONDS, **more: object) -> Mapping[str, Any]:
        """Tell it a step, and wait for the answer."""
        self.tell(do, **more)
        return self.answer(seconds)

    def freeze(self, safe: Callable[[], bool]) -> None:
        """Stop it where it stands, but not inside a write that stops all others."""
        frozen(self._process.pid, safe, name=self.name)
        self.mark("freeze")

    def thaw(self) -> None:
        """Let it go on. It doesn't know that it stood still."""
        os.kill(self._process.pid, signal.SIGCONT)
        self.mark("thaw")

    def end(self) -> None:
        """End it, frozen or not."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            try:
                _pipe(stream).close()
            except OSError:
                pass
        if not self.marks or self.marks[-1].what != "end":
            self.mark("end")

    def _last_words(self) -> str:
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class Cast:
    """The actors of one way. A context manager: none is left when it ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.actors: list[Actor] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for actor in self.actors:
            actor.end()

    def start(self, parts: list[Part], *, way: str, ttl: float) -> list[Actor]:
        """Start processes side by side and wait until all have loaded."""
        for part in parts:
            log = self._directory / f"{way}.{len(self.actors)}.log"
            self.actors.append(Actor(part, way, ttl, log))
        for actor in self.actors:
            actor.wait_ready()
        return self.actors


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None, "every actor is started with pipes"
    return stream
