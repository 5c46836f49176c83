"""Real processes, each a scheduler of its own, and what they did as files and the store show it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from onejob import App
from onejob.commands import claims
from onejob.commands.claims import ClaimView
from onejob.guards import Guard

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE_SECONDS = 40

#: Fire times that a library leaves out at a time by itself, at the most.
SKIPPED_MOST = 10


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

    def prepare(self) -> None:
        """Let the program make what all of its processes share, and end."""
        self.more["MAKE"] = "1"
        done = self.start().wait(PATIENCE_SECONDS)
        del self.more["MAKE"]
        assert done == 0, self.said()
        self.processes.clear()

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

    def effects(self, what: str = "") -> list[Effect]:
        """Return what jobs did so far, in the order of the file."""
        if not self.file.exists():
            return []
        lines = [line.split(" ", 2) for line in self.file.read_text().splitlines()]
        every = [Effect(int(pid), float(at), said) for pid, at, said in lines]
        return [effect for effect in every if what in ("", effect.what.partition(" ")[0])]

    def rows(self, schedule: str = "") -> list[ClaimView]:
        """Return the ticks that were claimed of schedules that begin so, oldest first."""
        found = self.app.store.run(claims.listed(claims.TICK, limit=1_000))
        return [row for row in reversed(found) if row.scope.startswith(schedule)]

    def state(self, key: str) -> str:
        """Return how a tick stands."""
        return next(row.state for row in self.rows() if row.key == key)

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Wait until something is so; what the processes said explains a failure."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not done():
            ended = [one for one in self.processes if one.poll() not in (None, -9)]
            assert not ended, f"{ended} ended\n{self.said()}"
            assert time.monotonic() < end, f"no {what}\n{self.said()}"
            time.sleep(0.02)

    def wait_for_effects(self, count: int, what: str = "") -> list[Effect]:
        self.wait(lambda: len(self.effects(what)) >= count, f"{count} effects")
        return self.effects(what)

    def wait_for_three_at_once(self, what: str) -> None:
        """Wait for a second of the wall clock in which it was done three times."""

        def most() -> int:
            seconds = Counter(int(effect.at) for effect in self.effects(what))
            return max(seconds.values(), default=0)

        self.wait(lambda: most() == 3, f"{what} done three times in one second")

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
        """Kill every process: what it was doing is left as it was."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@contextmanager
def fleet(
    program: str, app: App, directory: Path, *, size: int = 3, made: bool = False, **more: str
) -> Iterator[Fleet]:
    """Run some processes of a program for as long as the block lasts; ``made``: prepared first."""
    one = Fleet(program, app, directory, guarded=more.pop("unguarded", "") == "", more=more)
    try:
        if made:
            one.prepare()
        for _ in range(size):
            one.start()
        yield one
    finally:
        one.end()


def kill_one_at_work(fleet: Fleet, what: str = "") -> int:
    """Kill a process as soon as it does something anew; start another."""
    seen = len(fleet.effects(what))
    pid = fleet.wait_for_effects(seen + 1, what)[-1].pid
    fleet.kill(pid)
    fleet.start()
    return pid


def assert_each_once(
    fleet: Fleet, schedule: str, what: str, *, every: float = 1.0, skips: bool = True
) -> None:
    """Each fire time is done once, or unknown and listed; none is done twice, none is missing.

    ``skips``: this library itself leaves a fire time out when it gets no time until the next one,
    as happens on a machine with other things to do.
    """
    fleet.wait(lambda: all(row.lapsed for row in _open(fleet, schedule)), "end of what was held")
    rows, open_rows = fleet.rows(schedule), _open(fleet, schedule)
    effects = fleet.effects(what)
    # What was only claimed when the last process ended had nobody left to take it over.
    unknown = [row for row in open_rows if row.state == "firing"]
    assert open_rows in (unknown, [*unknown, rows[-1]]), fleet.said()
    done = len(rows) - len(open_rows)
    assert 1 <= done <= len(effects) <= done + len(unknown), f"{effects} of {rows}"
    assert len(rows) >= 3, fleet.said()
    seconds = sorted(_second(row.key) for row in rows)
    gaps = {after - before for before, after in pairwise(seconds)}
    most = SKIPPED_MOST if skips else 1
    assert gaps <= {n * every for n in range(1, most + 1)}, f"{seconds}\n{fleet.said()}"
    listed = {(tick.schedule, tick.key) for tick in Guard(fleet.app._services).unknown()}
    assert {(row.scope, row.key) for row in unknown} <= listed


def assert_spaced(effects: list[Effect], *, least: float, most: float) -> None:
    """Nearly an interval lies between any two effects, whoever did them, and not much more."""
    times = sorted(effect.at for effect in effects)
    gaps = [b - a for a, b in pairwise(times)]
    assert min(gaps) >= least, gaps
    assert max(gaps) <= most, gaps


def _open(fleet: Fleet, schedule: str) -> list[ClaimView]:
    return [row for row in fleet.rows(schedule) if row.state not in ("done", "failed")]


def _second(key: str) -> float:
    return datetime.fromisoformat(key.rpartition("@")[2]).timestamp()
