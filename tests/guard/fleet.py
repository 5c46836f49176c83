"""Real processes, each a scheduler of its own, and what they did as files and the store show it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from onejob import App
from onejob.commands import claims
from onejob.commands.claims import ClaimView

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Effect:
    """One line that a job wrote: which process, when it began, and what it says."""

    pid: int
    at: float
    what: str


@dataclass
class Fleet:
    """Processes of one program over one store. ``effects`` is the file that their jobs write to."""

    program: str
    app: App
    directory: Path
    guarded: bool = True
    more: dict[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.directory / "effects"

    def start(self) -> subprocess.Popen[bytes]:
        """Start one more process."""
        number = len(self.processes)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(PROGRAMS), *sys.path]),
            "GUARD_URL": self.more.get("url", ""),
            "GUARD_SCHEMA": self.app.schema,
            "GUARD_EFFECTS": str(self.file),
            "GUARD_ON": "1" if self.guarded else "",
            "GUARD_NUMBER": str(number),
            **self.more,
        }
        with (self.directory / f"log-{number}").open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, str(PROGRAMS / f"{self.program}.py")],
                cwd=self.directory,
                env=environment,
                stdout=out,
                stderr=out,
            )
        self.processes.append(process)
        return process

    def effects(self) -> list[Effect]:
        """Return what jobs did so far, in the order of the file."""
        if not self.file.exists():
            return []
        lines = [line.split(" ", 2) for line in self.file.read_text().splitlines()]
        return [Effect(int(pid), float(at), what) for pid, at, what in lines]

    def rows(self) -> list[ClaimView]:
        """Return the ticks that were claimed, oldest first."""
        return list(reversed(self.app.store.run(claims.listed(claims.TICK, limit=1_000))))

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Wait until something is so; what the processes said explains a failure."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not done():
            assert time.monotonic() < end, f"no {what}\n{self.said()}"
            time.sleep(0.02)

    def wait_for_effects(self, count: int) -> list[Effect]:
        self.wait(lambda: len(self.effects()) >= count, f"{count} effects")
        return self.effects()

    def said(self) -> str:
        """Return the end of what each process wrote."""
        logs = sorted(self.directory.glob("log-*"))
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs
        )

    def kill(self, pid: int) -> None:
        """Kill one of ours, and wait until it is gone."""
        [process] = [process for process in self.processes if process.pid == pid]
        process.kill()
        process.wait()

    def end(self) -> None:
        """Ask every process to stop; kill those that don't."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def fleet(
    program: str, app: App, directory: Path, *, size: int = 3, **more: str
) -> Iterator[Fleet]:
    """Run some processes of a program for as long as the block lasts."""
    one = Fleet(program, app, directory, guarded=more.pop("unguarded", "") == "", more=more)
    try:
        for _ in range(size):
            one.start()
        yield one
    finally:
        one.end()


def kill_one_at_work(fleet: Fleet) -> int:
    """Kill the process that did the latest effect, as soon as there is a new one; start another."""
    seen = len(fleet.effects())
    pid = fleet.wait_for_effects(seen + 1)[-1].pid
    fleet.kill(pid)
    fleet.start()
    return pid


def assert_each_once(fleet: Fleet, *, every: float = 1.0) -> None:
    """Each fire time is done once, or unknown and reported; none is done twice, none is missing."""
    fleet.wait(lambda: all(row.lapsed for row in _open(fleet)), "end of what was held")
    rows = fleet.rows()
    effects = fleet.effects()
    open_rows = _open(fleet)
    assert {row.state for row in open_rows} <= {"firing"}, fleet.said()
    done = len(rows) - len(open_rows)
    assert done <= len(effects) <= len(rows), f"{len(effects)} effects of {rows}\n{fleet.said()}"
    fire_times = [row.key.rpartition("@")[2] for row in rows]
    assert len(set(fire_times)) == len(fire_times)
    seconds = sorted(_second(text) for text in fire_times)
    missing = [b for a, b in pairwise(seconds) if b - a != every]
    assert missing == [], f"a gap before {missing} in {seconds}\n{fleet.said()}"
    reported = {(row.schedule, row.key) for row in _unknown(fleet.app)}
    assert reported == {(row.scope, row.key) for row in open_rows}


def _open(fleet: Fleet) -> list[ClaimView]:
    return [row for row in fleet.rows() if row.state not in ("done", "failed")]


def most_in_a_second(effects: list[Effect]) -> int:
    return max(Counter(int(effect.at) for effect in effects).values())


def _second(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def _unknown(app: App) -> list:
    from onejob.guards import Guard

    return Guard(app._services).unknown(limit=1_000)
