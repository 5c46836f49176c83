"""The kinds of work that are tried, each with what it must leave behind."""

from __future__ import annotations

from onejob.prove.workload import Workload
from onejob.prove.workloads.effects import Effects
from onejob.prove.workloads.poison import Poison
from onejob.prove.workloads.queue import Queue
from onejob.prove.workloads.ticks import Ticks
from onejob.prove.workloads.versions import Versions


def every() -> tuple[Workload, ...]:
    """Return all of them."""
    return (Queue(), Effects(), Ticks(), Poison(), Versions())
