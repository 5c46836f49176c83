"""Who had a run: whose tick made it, who went to fire it too and lost, and where it ran.

Two reads: the ticks by their keys, and the fleet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onejob.cli.ticks import place
from onejob.commands import ticks, views
from onejob.commands.views import RunView

if TYPE_CHECKING:
    from onejob.cli.invocation import AnyStore

#: How the cells are headed.
COLUMNS = ("CLAIMED BY", "LOST BY", "RAN ON")


@dataclass(frozen=True, slots=True)
class TookPart:
    """Each as host and pid. Only what a tick made was claimed by somebody, or lost."""

    claimed_by: str = ""
    lost_by: tuple[str, ...] = ()
    ran_on: str = ""


def of(store: AnyStore, runs: Iterable[RunView], key: str) -> dict[int, TookPart]:
    """Return who had each of these runs of one key, by their ids."""
    made = store.run(ticks.made((run.job, key) for run in runs))
    replicas = {replica.id: replica for replica in store.run(views.replicas())}
    by_run = {tick.run.id: tick for tick in made}
    found = {}
    for run in runs:
        tick, ran_on = by_run.get(run.id), place(run.replica, replicas)
        if tick is None:
            found[run.id] = TookPart(ran_on=ran_on)
        else:
            lost_by = tuple(place(loser, replicas) for loser in tick.lost_by)
            found[run.id] = TookPart(place(tick.claimed_by, replicas), lost_by, ran_on)
    return found


def cells(part: TookPart) -> tuple[str, ...]:
    """Return them as a table shows them."""
    return part.claimed_by, ", ".join(part.lost_by), part.ran_on


def as_json(part: TookPart | None) -> dict[str, object]:
    """Return them as ``--json`` shows them; nothing where nobody asked."""
    if part is None:
        return {}
    return {
        "claimed_by": part.claimed_by or None,
        "lost_by": list(part.lost_by),
        "ran_on": part.ran_on or None,
    }
