"""Those who are measured: onejob and its peers, all driven through the same few commands.

Each contender is a driver script that runs in its library's own environment, so that nothing it
needs, and nothing it imports, is ever in ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.environments import Unavailable, python_with
from benchmarks.places import Place, Places
from benchmarks.processes import Process, running
from benchmarks.rounds import Failed, Skipped

ROOT = Path(__file__).resolve().parents[1]
CALL_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Contender:
    """A library as it is measured.

    ``left`` asks the store how many runs are not done yet (empty: its handlers' count is all there
    is to know). ``share`` is the part of a benchmark's runs that a slow one is given.
    """

    label: str
    driver: str
    store: Literal["postgres", "sqlite"]
    left: str = ""
    packages: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    share: float = 1.0

    @property
    def ours(self) -> bool:
        """Whether this is onejob."""
        return not self.packages


class Stage:
    """A contender in a fresh place, ready to be called."""

    def __init__(self, contender: Contender, place: Place, python: Path) -> None:
        self.contender, self.place = contender, place
        self._python = python
        self._environment = {
            **os.environ,
            "BENCH_URL": place.url,
            "BENCH_DIRECTORY": str(place.directory),
            "BENCH_OPTIONS": json.dumps(dict(contender.options)),
            "ONEJOB_URL": place.url,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }

    def call(self, *words: object) -> dict[str, float]:
        """Run the driver to its end; return the figures that it printed."""
        driver, environment = self.contender.driver, self._environment
        return called(driver, *words, python=self._python, environment=environment)

    def worker(self, name: str = "worker") -> AbstractContextManager[Process]:
        """Start a worker process."""
        log = self.place.directory / f"{name}.log"
        return running(self._command("work"), self._environment, log)

    def counted(self) -> int:
        """Return how many runs the handlers have counted."""
        try:
            return (self.place.directory / "count").stat().st_size
        except FileNotFoundError:
            return 0

    def marks(self, what: str) -> list[tuple[int, float, int]]:
        """Return (number, monotonic second, process id) of each mark of a kind."""
        try:
            text = (self.place.directory / "marks").read_text()
        except FileNotFoundError:
            return []
        lines = (line.split() for line in text.splitlines())
        return [(int(n), float(at), int(pid)) for kind, n, at, pid in lines if kind == what]

    def left(self) -> int:
        """Return how many runs the store says are not done."""
        return self.place.ask(self.contender.left) if self.contender.left else 0

    def _command(self, *words: object) -> list[str]:
        module = f"benchmarks.drivers.{self.contender.driver}"
        return [str(self._python), "-m", module, *map(str, words)]


def called(
    driver: str,
    *words: object,
    python: Path = Path(sys.executable),
    environment: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """Run one of ``benchmarks.drivers`` to its end; return the figures that it printed last."""
    done = subprocess.run(
        [str(python), "-m", f"benchmarks.drivers.{driver}", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=CALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip(" ^~")][-1:]
        raise Failed(f"{words[0]}: {said[0] if said else done.returncode}")
    last = done.stdout.strip().splitlines()[-1:]
    answer: dict[str, float] = json.loads(last[0]) if last else {}
    return answer


@contextmanager
def staged(contender: Contender, places: Places, *, setup: bool = True) -> Iterator[Stage]:
    """Give a contender a fresh place, with its tables in it unless it makes them itself."""
    make = places.postgres if contender.store == "postgres" else places.sqlite
    python = Path(sys.executable)
    if contender.packages:
        python = python_with(contender.packages)
    with make() as place:
        stage = Stage(contender, place, python)
        if setup:
            stage.call("setup")
        yield stage


def missing(contender: Contender, places: Places, *, peers: bool) -> Skipped | None:
    """Say why a contender can't be measured here; None: it can, and is installed now."""
    if contender.store == "postgres" and places.server is None:
        return Skipped(contender.label, "no PostgreSQL")
    if contender.packages and not peers:
        return Skipped(contender.label, "peers were not asked for")
    if contender.packages:
        try:
            python_with(contender.packages)
        except Unavailable as why:
            return Skipped(contender.label, str(why))
    return None
