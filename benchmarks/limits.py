"""The ceiling: plain loops that do what a queue must, measured in the same run.

``ONEJOB_PYREF`` may name a script of somebody else's loops besides. It is run as it is, with the
names of its loops as arguments, and prints a JSON line with ``rate`` for each repetition.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.contenders import Contender, missing, staged
from benchmarks.environments import Unavailable, python_with
from benchmarks.field import Context
from benchmarks.rounds import Entry, Failed, Figures, Skipped

#: Claims 100, finishes 100, keeps history: what we are compared with.
KEEP = "plain loop, keeps history"
#: A task for each, rows deleted, over asyncpg.
TASK = "plain loop, asyncpg, deletes"

REFERENCES = ("sync_batch100_keep_history", "asyncpg_batch100_delete_1conn_taskperjob")
REFERENCE_PACKAGES = ("asyncpg", "psycopg[binary]", "uvloop")
REFERENCE_SECONDS = 300.0


def drains(context: Context) -> list[Entry | Skipped]:
    """Return the loops that drain, ours and those of ``ONEJOB_PYREF``."""
    runs = context.sizes.drained
    plain = [
        loop(KEEP, {"rate": ("keep", runs)}, context),
        loop(TASK, {"rate": ("task", runs)}, context, packages=("asyncpg", "psycopg[binary]")),
    ]
    if script := os.environ.get("ONEJOB_PYREF"):
        plain += [_reference(Path(script), name) for name in REFERENCES]
    return plain


def loop(
    label: str,
    figures: Mapping[str, tuple[str, int]],
    context: Context,
    *,
    packages: tuple[str, ...] = (),
) -> Entry | Skipped:
    """Return a line for plain loops: each figure is the answer of one loop for so many runs."""
    contender = Contender(label, "loops", "postgres", packages=packages)
    if skipped := missing(contender, context.places, peers=context.peers):
        return skipped

    def measure() -> Figures:
        found = {}
        for key, (name, runs) in figures.items():
            with staged(contender, context.places, setup=False) as stage:
                found[key] = stage.call(name, runs)["figure"]
        return found

    return Entry(label, measure, ours=False)


def _reference(script: Path, name: str) -> Entry | Skipped:
    label = f"{script.name}: {name}"
    if not script.is_file():
        return Skipped(label, f"there is no {script}")
    try:
        python = python_with(REFERENCE_PACKAGES)
    except Unavailable as why:
        return Skipped(label, str(why))

    def measure() -> Figures:
        done = subprocess.run(
            [python, script, name],
            capture_output=True,
            text=True,
            timeout=REFERENCE_SECONDS,
            check=False,
        )
        rates = [json.loads(line)["rate"] for line in done.stdout.splitlines()]
        if done.returncode != 0 or not rates:
            raise Failed(done.stderr.strip()[-300:] or "it printed nothing")
        return {"rate": statistics.median(rates)}

    return Entry(label, measure, ours=False)
