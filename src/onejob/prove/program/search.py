"""From the fault-free run to the shortest history that breaks something, within a budget."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from onejob.errors import UsageError
from onejob.prove.program import faults
from onejob.prove.program.effects import Effects
from onejob.prove.program.faults import Plan
from onejob.prove.program.judge import Verdict, overall
from onejob.prove.program.play import Play, Played, Rules

#: A frozen copy stands still for this long at least, and for this many fault-free runs.
FREEZE_SECONDS_LEAST, FREEZE_RUNS = 1.0, 2

#: What is copied for each play: more than this is no folder to try a job in.
FOLDER_BYTES_MOST, FOLDER_FILES_MOST = 64_000_000, 5_000

#: How long it may take to put back what a play has left elsewhere.
RESET_SECONDS = 60.0

#: Plays that run side by side, where each has a folder of its own.
SIDE_BY_SIDE = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """What to try. Seconds. ``reset`` is a shell command that undoes all effects elsewhere."""

    command: Sequence[str]
    effects: Effects
    folder: Path
    budget: float = 60.0
    patience: float = 60.0
    freeze: float | None = None
    seed: int = 0
    reset: str = ""
    apart: bool = True
    """Whether plays have nothing in common but this machine, and may run side by side."""
    only: Plan | None = None
    """Play this one and no other: a replay."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the program finds in its environment beside ours."""


@dataclass(slots=True)
class Tried:
    """What was tried, and how it went."""

    expected: Counter[str]
    usual: float
    freeze: float
    plays: list[Played] = field(default_factory=list)
    seconds: float = 0.0
    worst: Played | None = None

    @property
    def verdict(self) -> Verdict:
        """Return how all of it stands."""
        return overall([played.found for played in self.plays])


def search(asked: Asked, *, progress: Callable[[float, str], None]) -> Tried:
    """Try the program; UsageError where there is nothing to compare with.

    ``progress`` is told the share of the budget that is gone, and what was played.
    """
    began = time.monotonic()
    tried = _fault_free(asked)
    rules = _rules(asked, usual=tried.usual, freeze=tried.freeze)
    plans = iter([asked.only]) if asked.only else _plans(asked, len(tried.expected))

    def gone() -> float:
        return (time.monotonic() - began) / asked.budget

    for played in _played(asked, rules, tried.expected, plans, until=lambda: gone() >= 1):
        tried.plays.append(played)
        progress(min(1.0, gone()), played.plan.name)
        if played.found.verdict is Verdict.VIOLATED:
            tried.worst = played if asked.only else _smallest(asked, rules, tried, played)
            break
    if tried.worst is None:
        tried.worst = next((p for p in tried.plays if p.found.verdict is Verdict.UNKNOWN), None)
    tried.seconds = time.monotonic() - began
    return tried


def _rules(asked: Asked, *, usual: float = 0.0, freeze: float = 0.0) -> Rules:
    return Rules(asked.command, asked.effects, asked.patience, freeze, usual, asked.environment)


def _fault_free(asked: Asked) -> Tried:
    """Run it twice without a fault: the yardstick, and whether it is one."""
    first, again = (_one(asked, _rules(asked), Plan(), Counter()) for _ in range(2))
    if not first.found.finished:
        raise UsageError(
            f"without any fault the program does not end well: {first.said or 'it said nothing'}. "
            "Have it run by itself first."
        )
    if not first.seen:
        raise UsageError(
            "without any fault there was no effect to be seen, so nothing can be said. Does "
            "--effects-file (or -sql, -command) name what the program leaves behind?"
        )
    if first.seen != again.seen:
        key = next(iter((first.seen - again.seen) + (again.seen - first.seen)))
        raise UsageError(
            f"two runs without a fault differ: {key!r} is not in both. Name effects by what they "
            "mean (no times, no random ids); where the first run left something outside of this "
            "folder, give --reset CMD, which takes it away."
        )
    doubled = [key for key, count in first.seen.items() if count > 1]
    if doubled:
        raise UsageError(
            f"without any fault {doubled[0]!r} is there {first.seen[doubled[0]]} times. Each "
            "effect needs a name of its own, or a second one could not be told from the first."
        )
    usual = min(first.seconds, again.seconds)
    freeze = asked.freeze or max(FREEZE_SECONDS_LEAST, FREEZE_RUNS * usual)
    return Tried(first.seen, usual, freeze)


def _plans(asked: Asked, effects: int) -> Iterator[Plan]:
    yield from faults.singles(effects)
    yield from faults.drawn(asked.seed, effects)


def _played(
    asked: Asked,
    rules: Rules,
    expected: Counter[str],
    plans: Iterator[Plan],
    *,
    until: Callable[[], bool],
) -> Iterator[Played]:
    """Play plans in their order, side by side where they have nothing in common.

    Whoever wants no more of them need not wait for those under way: they are dropped.
    """
    rules = replace(rules, over=(over := threading.Event()))
    with ThreadPoolExecutor(SIDE_BY_SIDE if asked.apart else 1) as pool:
        waiting: list[Future[Played]] = []
        try:
            for plan in plans:
                if until():
                    break
                waiting.append(pool.submit(_one, asked, rules, plan, expected))
                if len(waiting) > SIDE_BY_SIDE:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            over.set()
            for future in waiting:
                future.cancel()


def _smallest(asked: Asked, rules: Rules, tried: Tried, found: Played) -> Played:
    """Leave out one thing after the other for as long as it still breaks."""
    while True:
        for plan in faults.smaller(found.plan):
            if plan == Plan():
                continue
            played = _one(asked, rules, plan, tried.expected)
            if played.found.verdict is Verdict.VIOLATED:
                found = played
                break
        else:
            return found


def _one(asked: Asked, rules: Rules, plan: Plan, expected: Counter[str]) -> Played:
    with _folder(asked) as (folder, log):
        return Play(plan, rules, folder, log).run(expected)


@contextmanager
def _folder(asked: Asked) -> Iterator[tuple[Path, Path]]:
    """Give each play a fresh copy of the folder that the program runs in."""
    with tempfile.TemporaryDirectory(prefix="onejob-prove-", ignore_cleanup_errors=True) as scratch:
        place = Path(scratch) / asked.folder.name
        shutil.copytree(asked.folder, place, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        if asked.reset:
            _reset(asked.reset, place)
        yield place, Path(scratch) / "said"


def _reset(command: str, folder: Path) -> None:
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RESET_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"--reset has not ended in {RESET_SECONDS:.0f} s. It runs before each play: give one "
            "that takes a moment."
        ) from None
    if done.returncode != 0:
        raise UsageError(f"--reset exits {done.returncode}: {done.stderr.strip()[-200:]}")


def check_folder(folder: Path) -> None:
    """Raise UsageError where a folder is too large to be copied for each play."""
    files = size = 0
    for path in folder.rglob("*"):
        if ".git" in path.parts or path.is_symlink() or not path.is_file():
            continue
        files, size = files + 1, size + path.stat().st_size
        if files > FOLDER_FILES_MOST or size > FOLDER_BYTES_MOST:
            raise UsageError(
                f"{folder} is too large to be copied for each play (over {FOLDER_FILES_MOST:,} "
                f"files or {FOLDER_BYTES_MOST // 1_000_000} MB). Go to a folder that holds just "
                "what the program needs, and give the program by its full path."
            )
