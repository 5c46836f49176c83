"""Run a console block as a reader would: in a directory, with a store, checking what is printed.

``onejob worker`` runs in the background, three times, until the document ends. A command that only
looks is repeated until it prints what the document says, since what it looks at takes its time.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

BIN = Path(sys.executable).parent
WORKERS = 3
#: Longer than what is run here waits for itself: its own words are worth more than ours.
PATIENCE_SECONDS = 120.0
#: Stands for anything within a line of output; alone on a line, for any lines.
ANYTHING = "…"
PROGRAMS = {"onejob", "python"}
#: First among the lines that a command must print: it ends with this code, and not with 0.
EXITS = re.compile(r"exits (\d+)")
LOOKING = {"runs", "jobs", "schedules", "replicas", "effects", "why", "doctor"}


@dataclass(slots=True)
class Terminal:
    """The terminals of one reader. ``close`` ends what runs in them."""

    directory: Path
    environment: dict[str, str]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, text: str) -> None:
        """Run each command of a console block; AssertionError where it prints something else."""
        for command, expected in commands(text):
            if command[:2] == ["onejob", "worker"]:
                self._start_workers(command)
            else:
                self._run(command, expected)

    def close(self) -> None:
        """End the workers, by their process ids."""
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            try:
                worker.wait(15)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def _start_workers(self, command: list[str]) -> None:
        for _ in range(WORKERS):
            log = (self.directory / f"worker.{len(self.workers)}.log").open("wb")
            with log:
                self.workers.append(
                    subprocess.Popen(
                        self._program(command),
                        cwd=self.directory,
                        env=self.environment,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
                )
        self._run(["onejob", "replicas"], [f"{ANYTHING}live{ANYTHING}"] * WORKERS)

    def _run(self, command: list[str], expected: list[str]) -> None:
        code = 0
        if expected and (exits := EXITS.fullmatch(expected[0])):
            code, expected = int(exits[1]), expected[1:]
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            done = subprocess.run(
                self._program(command),
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
            as_said = done.returncode == code and prints(done.stdout, expected)
            if as_said or command[1] not in LOOKING or time.monotonic() > end:
                break
            time.sleep(0.1)
        shown = f"$ {shlex.join(command)}\n{done.stdout}{done.stderr}(exit {done.returncode})"
        assert as_said, f"{shown}\nexpected:\n" + "\n".join(expected)

    def _program(self, command: list[str]) -> list[str]:
        assert command[0] in PROGRAMS, f"{command[0]}: only {PROGRAMS} are run; mark the block"
        return [str(BIN / command[0]), *command[1:]]


def terminal(directory: Path) -> Terminal:
    """Return a terminal in a directory, of a reader who has set nothing yet."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ONEJOB_")},
        "HOME": str(directory),
        "PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]),
        "COLUMNS": "120",
        "TZ": "UTC",
        "PYTHONUNBUFFERED": "1",
    }
    return Terminal(directory, environment)


def commands(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Return each command and the lines that it must print; ``exits N`` first, if it says so."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        words = shlex.split(command.replace("\\\n", " "), comments=True)
        exits = re.search(r"# (exits \d+)$", command)
        lines = [line for line in output.splitlines() if line.strip()]
        yield words, [exits[1], *lines] if exits else lines


def prints(output: str, expected: list[str]) -> bool:
    """Tell whether the expected lines are in the output, in their order."""
    lines = iter([" ".join(line.split()) for line in output.splitlines()])
    wanted = [" ".join(line.split()) for line in expected if line.strip() != ANYTHING]
    return all(any(matches(line, want) for line in lines) for want in wanted)


def matches(line: str, wanted: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in wanted.split(ANYTHING))
    return re.fullmatch(pattern, line) is not None
