"""A fleet of real processes over a real store: started, killed, frozen, and always ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from onejob import App, RunInfo
from onejob.commands import views
from onejob.commands.views import ReplicaView

#: How often a condition is looked at.
LOOK_SECONDS = 0.02
#: How long anything may take on a machine that has other things to do.
PATIENCE_SECONDS = 40.0
SHOP = Path(__file__).with_name("shop.py")


def until(condition: Callable[[], Any], what: str, *, seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait until ``condition`` answers with something true, and return it."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(LOOK_SECONDS)
    return answer


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that a handler did."""

    what: str
    key: str
    attempt: int
    pid: int


class Replica:
    """One ``onejob worker`` in a process of its own, telling its events on a file."""

    def __init__(self, directory: Path, environment: dict[str, str], place: int) -> None:
        self._out = directory / f"replica{place}.out"
        self._err = directory / f"replica{place}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-c", "from onejob.cli import main; main()"),
                    *("worker", "shop:app", "--json"),
                ],
                cwd=directory,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                process_group=0,
            )
        self.pid = self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def events(self, name: str = "") -> list[dict[str, Any]]:
        """Return what it has told so far; a line that is still being written is left out."""
        text = self._out.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()
        told: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [event for event in told if not name or event["event"] == name]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self, *, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait for its end, and return its exit code."""
        return self.process.wait(seconds)

    def said(self) -> str:
        out, err = (place.read_text(errors="replace") for place in (self._out, self._err))
        return f"--- {self._out.name}\n{out[-6_000:]}\n{err[-6_000:]}"


@dataclass(slots=True)
class Fleet:
    """One store, and every process that this test has started on it. None outlives the test."""

    app: App
    url: str
    directory: Path
    environment: dict[str, str]
    replicas: list[Replica] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for replica in self.replicas:
            if replica.alive:
                replica.signal(signal.SIGKILL)
            replica.process.wait()
        if error is not None:
            print("\n".join(replica.said() for replica in self.replicas))
            print(*self.marks(), sep="\n")
        self.app.close()

    def start(self, count: int = 1, **environment: str) -> list[Replica]:
        """Start replicas, and wait until each has joined."""
        given = {f"SHOP_{name.upper()}": value for name, value in environment.items()}
        started = []
        for _ in range(count):
            place = len(self.replicas)
            replica = Replica(self.directory, {**self.environment, **given}, place)
            self.replicas.append(replica)
            started.append(replica)
        for replica in started:
            until(lambda replica=replica: replica.events("replica.joined"), "a replica has joined")
        return started

    def enqueue(self, job: str, *keys: str, **arguments: Any) -> list[int]:
        """Make runs of a job of the shop."""
        app, args = self.app, json.dumps(arguments)
        from onejob.commands import runs

        new = [runs.NewRun(job, key, args, keyed=True) for key in keys]
        return [int(made.id) for made in app.store.run(runs.enqueue(new))]

    def run(self, id: int) -> RunInfo:
        found = self.app.runs.get(id)
        assert found is not None
        return found

    def wait(self, *ids: int, seconds: float = PATIENCE_SECONDS) -> list[RunInfo]:
        """Wait until runs have ended."""
        return [self.app.runs.wait(id, timeout=f"{round(seconds * 1000)}ms") for id in ids]

    def marks(self, what: str = "", *, key: str = "") -> list[Mark]:
        """Return what handlers did, in the order in which they did it."""
        try:
            lines = (self.directory / "marks").read_text().splitlines()
        except FileNotFoundError:
            return []
        marks = [Mark(w, k, int(a), int(p)) for w, k, a, p in (line.split() for line in lines)]
        return [m for m in marks if (not what or m.what == what) and (not key or m.key == key)]

    def wait_for_mark(self, what: str, *, key: str = "", count: int = 1) -> Mark:
        """Wait until a handler has done something so often; return the last time."""
        until(lambda: len(self.marks(what, key=key)) >= count, f"{count} marks {what!r}")
        return self.marks(what, key=key)[count - 1]

    def of(self, pid: int) -> Replica:
        return next(replica for replica in self.replicas if replica.pid == pid)

    def live(self) -> list[ReplicaView]:
        """Return the replicas that hold a lease, as the store has it."""
        every = self.app.store.run(views.replicas())
        return [one for one in every if not one.dead_at]

    def go(self) -> None:
        """Let handlers that wait go on."""
        (self.directory / "go").touch()
