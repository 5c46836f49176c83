"""The kinds of work that are tried, each with what it must leave behind."""

from __future__ import annotations

from random import Random

from onejob.prove.workload import Workload
from onejob.prove.workloads.effects import Effects
from onejob.prove.workloads.poison import Poison
from onejob.prove.workloads.queue import Queue
from onejob.prove.workloads.ticks import Ticks
from onejob.prove.workloads.versions import Versions


def drawn(seed: int) -> tuple[Workload, ...]:
    """Return some or all of them: a fleet that is busy with one thing shows more of it."""
    random = Random(f"workloads {seed}")
    every = (Queue(), Effects(), Ticks(), Poison(), Versions())
    return tuple(work for work in every if random.random() < 0.7) or every
