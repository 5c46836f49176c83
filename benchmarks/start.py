"""Start: what ``import onejob`` and ``onejob --help`` add to a Python that does nothing."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.field import Context
from benchmarks.rounds import Column, Entry, Failed, Figures, Table

COLUMNS = (Column("milliseconds", "ms"),)
IMPORT = "import onejob, beyond Python's own start (target: under 100)"
HELP = "onejob --help, in all (target: under 250)"
COMMAND = Path(sys.executable).parent / "onejob"


def table(context: Context) -> Table:
    """Measure starts of processes on a warm disk."""
    starts = context.sizes.starts

    def imported() -> Figures:
        nothing = _median([sys.executable, "-c", "pass"], starts)
        return {"milliseconds": _median([sys.executable, "-c", "import onejob"], starts) - nothing}

    def helped() -> Figures:
        return {"milliseconds": _median([str(COMMAND), "--help"], starts)}

    return Table(COLUMNS, [Entry(IMPORT, imported), Entry(HELP, helped)])


def _median(command: list[str], starts: int) -> float:
    # The first one warms the disk, and writes what is compiled.
    return statistics.median([_milliseconds(command) for _ in range(starts + 1)][1:])


def _milliseconds(command: list[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, env=os.environ, check=False)
    took = time.perf_counter() - began
    if done.returncode != 0:
        raise Failed(done.stderr.decode(errors="replace").strip()[-300:])
    return took * 1e3
