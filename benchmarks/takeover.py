"""Take-over: from the SIGKILL of the process that executes a run to its start in another one.

A quarter of the lease is the sweep's period, and a run that has outlived a replica is claimed
alone, so a take-over takes one lease and a little. Peers are not here: by their defaults they
need minutes, or somebody who asks.
"""

from __future__ import annotations

import time
from dataclasses import replace

from benchmarks.contenders import Contender, Stage
from benchmarks.field import OURS_ON_POSTGRES, OURS_ON_SQLITE, Context, entries
from benchmarks.processes import Process
from benchmarks.rounds import Column, Figures, Table

COLUMNS = (
    Column("seconds", "seconds", 2),
    Column("leases", "leases", 2),
)
START_SECONDS = 30.0
#: A take-over that takes longer than so many leases is a failure.
LEASES_MOST = 5


def table(context: Context) -> Table:
    """Measure take-overs for several leases."""
    lines = []
    for contender in (OURS_ON_POSTGRES, OURS_ON_SQLITE):
        for lease in context.sizes.leases:
            lines += entries([_with_lease(contender, lease)], taken_over, context)
    return Table(COLUMNS, lines)


def _with_lease(contender: Contender, lease: float) -> Contender:
    label = f"{contender.label}, lease {lease:g} s"
    return replace(contender, label=label, options={"lease": f"{lease:g}s"})


def taken_over(stage: Stage) -> Figures:
    """Start two workers, give them one long run, kill the one that executes it."""
    lease = float(str(stage.contender.options["lease"]).rstrip("s"))
    with stage.worker("first") as first, stage.worker("second") as second:
        workers = {first.pid: first, second.pid: second}
        for worker in workers.values():
            worker.wait_for("joining", lambda: _replicas(stage) == 2, seconds=START_SECONDS)
        stage.call("hold")
        first.wait_for("the start", lambda: bool(stage.marks("held")), seconds=START_SECONDS)
        # Well into a lease, and not always at the same place in it.
        time.sleep(lease / 2)
        [(_, _, holder)] = stage.marks("held")
        killed = time.monotonic()
        workers.pop(holder).kill()
        [other] = workers.values()
        _wait_for_second(stage, other, lease * LEASES_MOST)
        (_, began, _) = stage.marks("held")[1]
        # A long run is not worth a drain.
        other.kill()
    return {"seconds": began - killed, "leases": (began - killed) / lease}


def _wait_for_second(stage: Stage, worker: Process, seconds: float) -> None:
    worker.wait_for("the take-over", lambda: len(stage.marks("held")) > 1, seconds=seconds)


def _replicas(stage: Stage) -> int:
    table = "onejob.replica" if stage.contender.store == "postgres" else "onejob_replica"
    return stage.place.ask(f"SELECT count(*) FROM {table} WHERE dead_at = 0")
