"""The schedules of guarded schedulers: known here by their ticks, and found by their user's names.

The store calls one ``apscheduler:nightly``, or, where its user gave it no name,
``apscheduler:shop.jobs.nightly cron[…] UTC``. Its user calls both nightly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onejob.cli.text import clean, utc, when
from onejob.commands import claims
from onejob.commands.claims import ClaimView
from onejob.turn import holder

if TYPE_CHECKING:
    from onejob.cli.invocation import AnyStore

#: How many ticks are looked through, the newest.
LOOKED_AT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Guarded:
    """One of them, with its newest tick."""

    newest: ClaimView

    @property
    def name(self) -> str:
        """Return what the store calls it."""
        return self.newest.scope

    @property
    def library(self) -> str:
        """Return whose scheduler fires it."""
        return self.name.partition(":")[0]

    def is_called(self, name: str) -> bool:
        """Tell whether its user may mean it by that name: its id, or its function."""
        own = self.name.partition(":")[2]
        function = own.partition(" ")[0]
        return name in (self.name, own, function, function.rpartition(".")[2])


def known(store: AnyStore, prefix: str = "") -> list[Guarded]:
    """Return those of which ticks are kept, by name."""
    newest: dict[str, ClaimView] = {}
    for row in store.run(claims.listed(claims.TICK, limit=LOOKED_AT_MAX)):
        newest.setdefault(row.scope, row)
    return [
        Guarded(row)
        for name, row in sorted(newest.items())
        if name.startswith(prefix) or name.partition(":")[2].startswith(prefix)
    ]


def called(store: AnyStore, name: str) -> list[str]:
    """Return the full names of those that a user may call so."""
    return [found.name for found in known(store) if found.is_called(name)]


def cells(found: Guarded) -> tuple[object, ...]:
    """Return its row in ``onejob schedules``: when it fires next, its own scheduler knows."""
    last = when(found.newest.since)
    return (found.name, f"by {found.library}", "guarded", last, "", "", "its scheduler", "")


def as_json(found: Guarded) -> dict[str, object]:
    """Return it as ``--json`` shows it, beside schedules of onejob's own."""
    row = found.newest
    return {
        "name": found.name,
        "state": "guarded",
        "scheduler": found.library,
        "last": utc(row.since),
        "key": row.key,
        "claimed_by": clean(holder(row.owner)),
    }
