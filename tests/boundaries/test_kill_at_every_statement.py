"""A process is killed at every statement boundary of every command; another one takes over.

Then everything is counted in the store's own tables: no run and no fire time lost, none doubled,
and an outside effect called once at most.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from boundaries.conftest import Make
from boundaries.doom import Boundary, phases
from boundaries.fleet import ASKED, Fleet, ask, build, bury, doomed, recovering
from boundaries.place import Count, Place, counted
from boundaries.tables import Row
from onejob.commands import replicas, runs, views
from onejob.core.run import ReplicaId
from onejob.core.watermark import full_probes

COMMANDS = (
    "run_enqueue_keyed",
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
    "transaction",
    "handler",
    "call",
)
#: What a sweeper does when it finds a replica dead: it dies over it.
SWEEP = ("replica_look", "replica_judge", "replica_lost", "run_settle", "run_claim_alone")
#: Boundaries that are no command's: in a handler, in an effect's call, at a transaction's commit.
ELSEWHERE = {
    "handler": ["start", "written", "end"],
    "call": ["before", "after"],
    "transaction": ["before commit", "after"],
}
#: Where most was lost before: these are killed at in every run, the others by ``make soak``.
TELLING = ("sent", "before commit", "written", "end")
AT_ONCE = 8


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize(("haunted", "commands"), [(False, COMMANDS), (True, SWEEP)])
def test_a_process_killed_inside_a_command_loses_and_doubles_nothing(
    dialect: str,
    haunted: bool,
    commands: tuple[str, ...],
    make: Make,
    fleet: Fleet,
    tabled: Callable[[Row], None],
) -> None:
    """B07, P1-P5: whatever a replica dies over, its own work or a sweep, another one completes."""
    boundaries = [b for b in every(dialect, commands) if b.phase in TELLING or b.command == "call"]

    all_killed(dialect, boundaries, make, fleet, tabled, haunted=haunted)


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize(("haunted", "commands"), [(False, COMMANDS), (True, SWEEP)])
def test_a_process_killed_at_every_statement_loses_and_doubles_nothing(
    dialect: str,
    haunted: bool,
    commands: tuple[str, ...],
    make: Make,
    fleet: Fleet,
    tabled: Callable[[Row], None],
) -> None:
    """B07, P1-P5: the same at every boundary there is, the first and the second time."""
    boundaries = [
        replace(boundary, occurrence=occurrence)
        for boundary in every(dialect, commands)
        for occurrence in ((1,) if haunted or boundary.command in ONCE else (1, 2))
    ]

    all_killed(dialect, boundaries, make, fleet, tabled, haunted=haunted)


#: A process gets there once in its life.
ONCE = ("replica_join", "replica_leave", "replica_idle", "schedule_define")


def every(dialect: str, commands: tuple[str, ...]) -> list[Boundary]:
    """Return every boundary of these commands at a store."""
    found = [
        Boundary(command, phase)
        for command in commands
        for phase in ELSEWHERE.get(command) or phases(dialect, command)
    ]
    if dialect == "postgresql" and "transaction" in commands:
        found.append(Boundary("transaction", "sent"))
    return found


def all_killed(
    dialect: str,
    boundaries: list[Boundary],
    make: Make,
    fleet: Fleet,
    tabled: Callable[[Row], None],
    *,
    haunted: bool,
) -> None:
    """Kill a process at each of these boundaries, each at a place of its own; count them all."""
    made = [make(dialect) for _ in boundaries]

    def one(boundary: Boundary, place: Place) -> Count:
        return killed(boundary, place, fleet, haunted=haunted)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        counts = list(threads.map(one, boundaries, made))

    wrong = {str(b): c for b, c in zip(boundaries, counts, strict=True) if c.lost or c.doubled}
    for command in dict.fromkeys(boundary.command for boundary in boundaries):
        mine = [c for b, c in zip(boundaries, counts, strict=True) if b.command == command]
        tabled(row("a sweeper killed" if haunted else "a replica killed", dialect, command, mine))
    assert wrong == {}


def row(table: str, dialect: str, fault: str, counts: list[Count]) -> Row:
    return Row(
        table=table,
        store=dialect,
        fault=fault,
        injected=len(counts),
        runs=sum(count.runs for count in counts),
        unknown=sum(count.unknown for count in counts),
        lost=sum(len(count.lost) for count in counts),
        doubled=sum(len(count.doubled) for count in counts),
    )


def killed(boundary: Boundary, place: Place, fleet: Fleet, *, haunted: bool) -> Count:
    """Kill one process at one boundary, let another one take over, and count."""
    if haunted:
        haunt(place)
    victim = fleet.start(doomed, place, boundary, not haunted)
    victim.join(60)
    assert victim.exitcode == -signal.SIGKILL, f"never got to {boundary}"
    bury(place)
    heir = fleet.start(recovering, place, not haunted)
    heir.join(90)
    assert heir.exitcode == 0, f"after {boundary}: not recovered in time"
    return counted(place, ASKED)


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
