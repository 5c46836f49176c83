"""The field: who runs beside us, and how each one's unfinished runs are counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.contenders import Contender, Stage, missing, staged
from benchmarks.places import Places
from benchmarks.rounds import Entry, Figures, Skipped
from benchmarks.sizes import Sizes

OURS_ON_POSTGRES = Contender(
    "onejob", "for_onejob", "postgres", left="SELECT count(*) FROM onejob.run"
)
OURS_ON_POSTGRES_IN_THREADS = Contender(
    "onejob, sync handlers",
    "for_onejob",
    "postgres",
    left="SELECT count(*) FROM onejob.run",
    options={"job": "noop_in_thread"},
)
OURS_ON_SQLITE = Contender(
    "onejob, SQLite", "for_onejob", "sqlite", left="SELECT count(*) FROM onejob_run"
)
OURS_ON_SQLITE_IN_THREADS = Contender(
    "onejob, SQLite, sync handlers",
    "for_onejob",
    "sqlite",
    left="SELECT count(*) FROM onejob_run",
    options={"job": "noop_in_thread"},
)
OURS = (
    OURS_ON_POSTGRES,
    OURS_ON_POSTGRES_IN_THREADS,
    OURS_ON_SQLITE,
    OURS_ON_SQLITE_IN_THREADS,
)

_PROCRASTINATE_LEFT = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"

PROCRASTINATE = Contender(
    "procrastinate",
    "for_procrastinate",
    "postgres",
    left=_PROCRASTINATE_LEFT,
    packages=("procrastinate",),
    share=0.1,
)
PROCRASTINATE_WIDE = Contender(
    "procrastinate, concurrency 20",
    "for_procrastinate",
    "postgres",
    left=_PROCRASTINATE_LEFT,
    packages=("procrastinate",),
    options={"concurrency": 20},
    share=0.1,
)
PGQUEUER = Contender(
    "pgqueuer",
    "for_pgqueuer",
    "postgres",
    left="SELECT count(*) FROM pgqueuer",
    packages=("pgqueuer", "asyncpg"),
    share=0.5,
)
PGQUEUER_WIDE = Contender(
    "pgqueuer, batches of 200",
    "for_pgqueuer",
    "postgres",
    left="SELECT count(*) FROM pgqueuer",
    packages=("pgqueuer", "asyncpg"),
    options={"run": {"batch_size": 200}},
    share=0.5,
)
HUEY = Contender("huey, SQLite", "for_huey", "sqlite", packages=("huey",), share=0.25)
HUEY_DURABLE = Contender(
    "huey, SQLite, fsync",
    "for_huey",
    "sqlite",
    packages=("huey",),
    options={"storage": {"fsync": True}},
    share=0.25,
)

Measure = Callable[[Stage], Figures]


def entries(
    contenders: Sequence[Contender], measure: Measure, context: Context
) -> list[Entry | Skipped]:
    """Return a line for each contender, or why it has none here."""
    return [_entry(contender, measure, context) for contender in contenders]


class Context:
    """What every benchmark is given."""

    def __init__(self, places: Places, sizes: Sizes, *, peers: bool) -> None:
        self.places, self.sizes, self.peers = places, sizes, peers


def _entry(contender: Contender, measure: Measure, context: Context) -> Entry | Skipped:
    if skipped := missing(contender, context.places, peers=context.peers):
        return skipped

    def measured() -> Figures:
        with staged(contender, context.places) as stage:
            return measure(stage)

    return Entry(contender.label, measured, ours=contender.ours)
