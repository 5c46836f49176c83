"""Freeze one of two holders, at an instant that is aimed at what it is doing, past its lease.

Then the other rightly gets the lock and writes, and the frozen one goes on where it was.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from faults.pauses.board import PHASES, Board
from faults.pauses.effects import Data, Landed, stale
from faults.pauses.holder import Told
from faults.pauses.scripted import Value
from faults.pauses.service import Service
from onejob import App

TTL_SECONDS = 1.0
#: How long to wait for a moment to strike at; then whoever is there is struck.
AIM_SECONDS = 3.0
#: How long the frozen one stands still at the most, where nobody can take over: on SQLite it may
#: have been frozen inside a write, and then everybody waits for it.
FROZEN_SECONDS = 2.0
GONE_ON_SECONDS = 20.0
#: Instants inside one step: it takes about so long.
WITHIN_SECONDS = 0.004


@dataclass(frozen=True, slots=True)
class Place:
    """Where one exercise is held: a store, the user's data, a Redis for the script."""

    store: str
    url: str
    schema: str
    data: Data
    redis_url: str
    value: str


@dataclass(slots=True)
class Result:
    """What came of it. ``struck`` counts the instants by what was going on."""

    store: str
    instants: int = 0
    taken_over: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    landed: list[Landed] = field(default_factory=list)
    said: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    seconds: float = 0.0

    def stale(self, *, guarded: bool) -> list[Landed]:
        """Return the stale writes of the recipes, or those that nothing guarded."""
        return [line for line in stale(self.landed) if (line.recipe != "bare") == guarded]

    def misreported(self) -> list[str]:
        """Return writes that landed though refused, or are not there though said to have landed."""
        there = {line.who for line in self.landed if line.kind == "write"}
        wrong = [
            f"{recipe}: {who} was refused, and landed"
            for recipe, answers in self.said.items()
            for who in answers.get("refused", set()) & there
        ]
        return wrong + [
            f"{recipe}: {who} was said to have landed, and did not"
            for recipe, answers in self.said.items()
            for who in answers.get("landed", set()) - there
        ]

    def told(self) -> str:
        """Return it in a few lines."""
        counts = {
            recipe: {answer: len(names) for answer, names in sorted(answers.items())}
            for recipe, answers in sorted(self.said.items())
        }
        return "\n".join(
            [
                f"{self.store}: {self.instants} instants in {self.seconds:.0f} s, "
                f"{self.taken_over} taken over while frozen",
                f"  struck in: {dict(sorted(self.struck.items()))}",
                f"  stale writes that landed: guarded {len(self.stale(guarded=True))}, "
                f"bare {len(self.stale(guarded=False))}",
                f"  by recipe: {json.dumps(counts)}",
            ]
        )


class Holders:
    """Two processes, and what they are doing at this moment."""

    def __init__(self, place: Place, port: int, seed: int, directory: Path) -> None:
        self.boards = [Board(directory / f"{place.store}-{who}.board") for who in "ab"]
        self._errors = [directory / f"{place.store}-{who}.err" for who in "ab"]
        self.processes = []
        self._bells: list[int] = []
        for number, who in enumerate("ab"):
            hearing, bell = os.pipe()
            self._bells.append(hearing)
            told = Told(
                who=who,
                url=place.url,
                schema=place.schema,
                ttl=f"{int(TTL_SECONDS * 1000)}ms",
                board=str(directory / f"{place.store}-{who}.board"),
                seed=seed,
                data_url=place.data.url,
                data_prefix=place.data.prefix,
                redis_url=place.redis_url,
                value=place.value,
                port=port,
                bell=bell,
            )
            with self._errors[number].open("wb") as errors:
                self.processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "faults.pauses.holder", json.dumps(asdict(told))],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        text=True,
                        process_group=0,
                        pass_fds=(bell,),
                        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                    )
                )
            os.close(bell)

    def wait_until_both_work(self) -> None:
        self._until(lambda: all(board.rounds for board in self.boards), GONE_ON_SECONDS * 3)

    def strike(self, target: str, random: Random) -> tuple[int, str]:
        """Freeze a holder in that step; return which one, and in which step it was hit."""
        # One that gets the lock gets it after the other's release.
        aimed, within = ("release", 0.1) if target == "acquire" else (target, WITHIN_SECONDS)
        for board in self.boards:
            board.target = aimed
        rung, _, _ = select.select(self._bells, [], [], AIM_SECONDS)
        victim = self._bells.index(rung[0]) if rung else random.choice((0, 1))
        if target == "acquire":
            victim = 1 - victim
        time.sleep(random.uniform(0, within))
        self.processes[victim].send_signal(signal.SIGSTOP)
        for board, bell in zip(self.boards, self._bells, strict=True):
            board.target = ""
            if select.select([bell], [], [], 0)[0]:
                assert os.read(bell, 100), f"a holder has ended: {self.last_words()}"
        return victim, self.boards[victim].phase

    def wait_for_takeover(self, victim: int, before: int) -> bool:
        """Wait until the other one has got a token of its own, or for long enough."""
        other = self.boards[1 - victim]
        return self._until(lambda: other.token > before, FROZEN_SECONDS)

    def thaw(self, victim: int) -> None:
        """Let it go on, and wait until it has written all that it was going to."""
        board = self.boards[victim]
        rounds = board.rounds
        self.processes[victim].send_signal(signal.SIGCONT)
        if board.phase != "acquire":
            assert self._until(lambda: board.rounds > rounds, GONE_ON_SECONDS), self.last_words()

    def finish(self) -> list[dict[str, dict[str, list[str]]]]:
        """Have both end, and return what they said of their writes."""
        for board in self.boards:
            board.stop = True
        said = []
        for process in self.processes:
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 0, self.last_words()
            said.append(json.loads(out))
        return said

    def last_words(self) -> str:
        return "\n".join(file.read_text(errors="replace")[-2_000:] for file in self._errors)

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
        for bell in self._bells:
            os.close(bell)

    @staticmethod
    def _until(condition: Callable[[], object], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.002)
        return True


def exercise(place: Place, *, instants: int, seed: int, directory: Path) -> Result:
    """Strike so often, and read afterwards what has landed."""
    result, random, began = Result(place.store), Random(seed), time.monotonic()
    app = App(place.url, schema=place.schema, name="pauses", single_machine=True)
    app.store.init()  # type: ignore[attr-defined]  # every store here has it
    place.data.lay_out()
    targets = _targets(place, instants, random)
    with Service(app) as service, _holders(place, service.port, seed, directory) as holders:
        holders.wait_until_both_work()
        for target in targets:
            highest = max(board.token for board in holders.boards)
            victim, struck = holders.strike(target, random)
            before = max(highest, *(board.token for board in holders.boards))
            result.taken_over += holders.wait_for_takeover(victim, before)
            time.sleep(random.uniform(0, 0.1))
            holders.thaw(victim)
            result.instants += 1
            result.struck[struck] += 1
        for said in holders.finish():
            for recipe, answers in said.items():
                for answer, names in answers.items():
                    result.said.setdefault(recipe, {}).setdefault(answer, set()).update(names)
        result.landed += service.landed
    value = Value(place.redis_url, place.value)
    result.landed += [*place.data.landed(), *value.landed()]
    value.close()
    app.close()
    result.seconds = time.monotonic() - began
    return result


def _targets(place: Place, instants: int, random: Random) -> list[str]:
    """Return what each instant is aimed at: every step in turn, in any order."""
    steps = list(PHASES[1:])
    if place.store == "redis":
        steps = [step for step in steps if step not in ("transaction", "lease_fence", "app_fence")]
    # First where nothing is in its hands, so that there is a late write in any case.
    targets = ["work"]
    while len(targets) < instants:
        random.shuffle(steps)
        targets += steps
    return targets[:instants]


@contextmanager
def _holders(place: Place, port: int, seed: int, directory: Path) -> Iterator[Holders]:
    holders = Holders(place, port, seed, directory)
    try:
        yield holders
    finally:
        holders.kill()
