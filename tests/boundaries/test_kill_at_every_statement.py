"""A process is killed at every statement boundary of every command; another one takes over.

Then everything is counted in the store's own tables: no run and no fire time lost, none doubled,
and an outside effect called once at most.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from boundaries.conftest import Make
from boundaries.doom import Boundary, phases
from boundaries.fleet import ASKED, Fleet, build, ask, doomed, recovering, until
from boundaries.place import Count, Place, counted
from boundaries.tables import Row
from onejob.commands import replicas, runs, views
from onejob.core.run import ReplicaId
from onejob.core.watermark import full_probes

COMMANDS = (
    "run_enqueue",
    "replica_join",
    "replica_idle",
    "replica_renew",
    "replica_leave",
    "run_claim",
    "run_fence",
    "ledger_first_in_run",
    "effect_claim_in_run",
    "effect_record",
    "run_settle",
    "schedule_define",
    "schedule_due",
    "schedule_tick",
)
#: Boundaries that are no command's: in a handler, in an effect's call, at a transaction's commit.
ELSEWHERE = {
    "handler": ("start", "written", "end"),
    "call": ("before", "after"),
    "transaction": ("before commit", "after"),
}
#: What a sweeper does when it finds a replica dead: it dies over it.
SWEEP = ("replica_look", "replica_judge", "replica_lost", "run_settle", "run_claim_alone")
AT_ONCE = 6


@pytest.mark.slow
@pytest.mark.parametrize("command", [*COMMANDS, *ELSEWHERE])
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_a_process_killed_at_any_boundary_of(
    dialect: str, command: str, make: Make, fleet: Fleet, tabled: Callable[[Row], None]
) -> None:
    """B07, P1-P5: whatever instant a replica dies at, another one completes its runs, once."""
    places = ELSEWHERE.get(command) or phases(dialect, command)
    if (dialect, command) == ("postgresql", "transaction"):
        places = ("before commit", "sent", "after")

    counts = all_killed(dialect, command, list(places), make, fleet, haunted=False)

    tabled(row("killed at every statement boundary", dialect, command, counts))
    assert [(b, c.lost, c.doubled) for b, c in counts if c.lost or c.doubled] == []


@pytest.mark.slow
@pytest.mark.parametrize("command", SWEEP)
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_a_sweeper_killed_at_any_boundary_of(
    dialect: str, command: str, make: Make, fleet: Fleet, tabled: Callable[[Row], None]
) -> None:
    """P3: who gives back what a dead replica held may itself die over it."""
    counts = all_killed(dialect, command, phases(dialect, command), make, fleet, haunted=True)

    tabled(row("a sweeper killed", dialect, command, counts))
    assert [(b, c.lost, c.doubled) for b, c in counts if c.lost or c.doubled] == []


def row(table: str, dialect: str, fault: str, counts: list[tuple[str, Count]]) -> Row:
    return Row(
        table=table,
        store=dialect,
        fault=fault,
        injected=len(counts),
        runs=sum(count.runs for _, count in counts),
        unknown=sum(count.unknown for _, count in counts),
        lost=sum(len(count.lost) for _, count in counts),
        doubled=sum(len(count.doubled) for _, count in counts),
    )


def all_killed(
    dialect: str, command: str, places: list[str], make: Make, fleet: Fleet, *, haunted: bool
) -> list[tuple[str, Count]]:
    """Kill a process at each of these boundaries, each at a place of its own."""
    boundaries = [Boundary(command, phase) for phase in places]
    made = [make(dialect) for _ in boundaries]

    def one(boundary: Boundary, place: Place) -> tuple[str, Count]:
        return boundary.phase, killed(boundary, place, fleet, haunted=haunted)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(one, boundaries, made))


def killed(boundary: Boundary, place: Place, fleet: Fleet, *, haunted: bool) -> Count:
    """Kill one process at one boundary, let another one take over, and count."""
    if haunted:
        haunt(place)
    victim = fleet.start(doomed, place, boundary, not haunted)
    victim.join(20)
    assert victim.exitcode == -signal.SIGKILL, f"never got to {boundary}"
    bury(place)
    heir = fleet.start(recovering, place, not haunted)
    heir.join(40)
    assert heir.exitcode == 0, f"after {boundary}: not recovered in time"
    return counted(place, ASKED)


def bury(place: Place) -> None:
    """Let the dead one's lease be over, once the server has done what it was still sent."""
    if place.dialect == "postgresql":
        mine = (
            f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{place.schema}'"
            " AND pid <> pg_backend_pid()"
        )
        until(lambda: place.query(mine) == [(0,)], seconds=10, what="its sessions are over")
    app = build(place)
    for [id] in place.query("SELECT id FROM {t}replica WHERE dead_at = 0"):
        app.store.run(replicas.leave(ReplicaId(id)))
    app.close()


def haunt(place: Place) -> None:
    """Leave every run to a replica that died long ago and that nobody has judged yet."""
    app = build(place, ticking=False)
    ask(app)
    long_ago = app.store.run(views.clock()) - 60_000_000
    ghost = replicas.NewReplica(
        ReplicaId("ghost"), "boundaries", "there", 1, "", list(app.jobs), {}, 1_000_000
    )
    assert app.store.run(replicas.join(ghost, now=long_ago))
    claimed = app.store.run(
        runs.claim(full_probes(["default"]), jobs=list(app.jobs), replica=ghost.id, limit=100)
    )
    assert len(claimed) == len(ASKED)
    app.close()
