"""Play very many seeds: in several processes, until enough has been tried."""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED as FIRST
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from onejob.prove import report
from onejob.prove.simulate import MakeStore, simulate, smallest
from onejob.prove.statements import sqlite_in
from onejob.stores.memory import MemoryStore

#: Seeds that one process plays before it says how they went.
BLOCK = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """What to play. ``faults`` and ``each``: go on until so many in all, and of each pair met."""

    store: str = "memory"
    shrink: bool = True
    seconds: float = 0.0
    faults: int = 0
    each: int = 0
    jobs: int = 1

    def satisfied(self, tally: report.Tally) -> bool:
        """Tell whether as much as was asked for has been tried."""
        if not self.faults and not self.each:
            return False
        return sum(tally.faults.values()) >= self.faults and not self.rare(tally)

    def rare(self, tally: report.Tally) -> dict[tuple[str, str], int]:
        """Return the pairs of command and fault that have been met too seldom."""
        return {pair: met for pair, met in sorted(tally.faults.items()) if met < self.each}


@dataclass(frozen=True, slots=True)
class Played:
    """How a block of seeds went: the counts, and the story of each failure."""

    tally: report.Tally
    failures: str


def play(asked: Asked, seeds: range) -> int:
    """Play until done, print what was tried; 1 where a promise broke or too little was tried."""
    began = time.monotonic()
    tally = report.Tally()
    blocks = (seeds[at : at + BLOCK] for at in range(0, len(seeds), BLOCK))
    for played in _played(asked, blocks):
        tally.merge(played.tally)
        sys.stdout.write(played.failures)
        sys.stdout.flush()
        over = asked.seconds and time.monotonic() - began > asked.seconds
        if over or asked.satisfied(tally):
            break
    sys.stdout.write(tally.table(time.monotonic() - began))
    short = (asked.faults or asked.each) and not asked.satisfied(tally)
    if short:
        sys.stdout.write(f"too little was tried: {asked.faults=} {asked.rare(tally)=}\n")
    return 1 if tally.failed or short else 0


def _played(asked: Asked, blocks: Iterator[range]) -> Iterator[Played]:
    if asked.jobs == 1:
        for block in blocks:
            yield _block(asked, block)
        return
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        waiting: set[Future[Played]] = {
            pool.submit(_block, asked, block) for block in islice(blocks, 2 * asked.jobs)
        }
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST)
                waiting |= {
                    pool.submit(_block, asked, block) for block in islice(blocks, len(done))
                }
                for future in done:
                    yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _block(asked: Asked, seeds: range) -> Played:
    logging.disable(logging.CRITICAL)
    tally, failures = report.Tally(), ""
    with tempfile.TemporaryDirectory() as folder:
        make: MakeStore = sqlite_in(Path(folder)) if asked.store == "sqlite" else MemoryStore
        for seed in seeds:
            played = simulate(seed, make_store=make)
            tally.add(played.verdicts, played.injected, played.commands)
            if played.failures:
                small = smallest(played, make_store=make) if asked.shrink else played
                found = small.failures or played.failures
                failures += report.failure(seed, found, small.injected)
    return Played(tally, failures)
