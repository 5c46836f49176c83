"""How fast ``onejob scan`` reads, and how much memory all of its processes take together.

    python -m benchmarks.scan_speed [--lines 1000000] [--no-peers]

The tree is the sources of this project and the scanner's own fixtures, copied until it has that
many lines. Memory is the sum, over every process of the scan, of the most that was ever resident in
it (``VmHWM``, read ten times a second): no less than what all of them ever took at one time. Beside
it, in environments of their own: semgrep and ast-grep with ``scan_speed/``'s rules for the same
calls in the same languages; they say that a call is there, and neither join nor judge.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import Unavailable, python_with

ROOT = Path(__file__).resolve().parents[1]
RULES = Path(__file__).with_suffix("")
SOURCES = (*(ROOT / name for name in ("src", "tests", "benchmarks", "docs")),)
LOOK_SECONDS = 0.1
SECONDS_MAX = 1_800.0


@dataclass(frozen=True)
class Measured:
    """One run of a program over the tree."""

    seconds: float
    cpu_seconds: float
    """Of all its processes: what a busy machine doesn't change much."""
    megabytes: float
    code: int


def fill(root: Path, lines: int) -> tuple[int, int]:
    """Copy our sources into a tree until it has so many lines; return its files and lines."""
    originals = [path for source in SOURCES for path in sorted(source.rglob("*")) if _text(path)]
    read = [(path.relative_to(ROOT), path.read_bytes()) for path in originals]
    files = written = copy = 0
    while written < lines:
        for relative, content in read:
            if written >= lines:
                break
            place = root / f"service_{copy:03}" / relative
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            files, written = files + 1, written + content.count(b"\n")
        copy += 1
    return files, written


def _text(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and path.stat().st_size < 400_000


def measure(command: list[str]) -> Measured:
    """Run a command; look at it and all that it starts until it ends."""
    began, used = time.monotonic(), cpu()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        highest: dict[int, int] = {}
        while process.poll() is None:
            for pid in family(process.pid):
                highest[pid] = max(highest.get(pid, 0), most_resident(pid))
            if time.monotonic() - began > SECONDS_MAX:
                process.kill()
            time.sleep(LOOK_SECONDS)
        seconds = time.monotonic() - began
    return Measured(seconds, cpu() - used, sum(highest.values()) / 1024, process.returncode)


def cpu() -> float:
    """Return the seconds of processor time of all children that have ended, and of theirs."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def family(pid: int) -> Iterator[int]:
    """Return a process and all that descend from it."""
    yield pid
    try:
        tasks = [*Path(f"/proc/{pid}/task").iterdir()]
        children = [each for task in tasks for each in (task / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield from family(int(child))


def most_resident(pid: int) -> int:
    """Return the kilobytes that were ever resident in a process; 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line), 0)


def peers() -> Iterator[tuple[str, list[str]]]:
    """Return the commands of those who can be installed; say who cannot."""
    given = (
        ("semgrep", "semgrep", ["scan", "--metrics=off", "--disable-version-check", "--quiet"]),
        ("ast-grep", "ast-grep-cli", ["scan", "--no-ignore", "hidden"]),
    )
    for name, package, arguments in given:
        try:
            program = python_with((package,)).parent / name
        except Unavailable as error:
            print(f"{name}: {error}")
            continue
        rules = {
            "semgrep": ["--config", str(RULES / "semgrep.yaml"), "--jobs", str(os.cpu_count())],
            "ast-grep": ["--rule", str(RULES / "ast_grep.yaml")],
        }[name]
        yield name, [str(program), *arguments, *rules]


def main() -> None:
    """Fill a tree and read it with everybody."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="scan-speed-"))
    try:
        files, lines = fill(root, given.lines)
        print(f"{lines:,} lines in {files:,} files; {os.cpu_count()} cores, load {os.getloadavg()}")
        ours = [sys.executable, "-m", "onejob", "scan", "--fail-on", "none", "--format", "json"]
        for name, command in [("onejob", ours), *(peers() if given.peers else ())]:
            found = measure([*command, str(root)])
            rate = lines / found.seconds
            print(
                f"{name:10} {found.seconds:7.1f} s  CPU {found.cpu_seconds:6.1f} s  "
                f"{rate:9,.0f} lines/s  {found.megabytes:6.0f} MB  exit {found.code}",
                flush=True,
            )
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
