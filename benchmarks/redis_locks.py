"""Redis locks: taking a free one and giving it back, beside bare commands and other libraries."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from benchmarks import brokers
from benchmarks.contenders import called
from benchmarks.environments import Unavailable, python_with
from benchmarks.field import Context
from benchmarks.rounds import Column, Entry, Figures, Skipped, Table

COLUMNS = (
    Column("p50", "acquire and release: p50, us"),
    Column("p99", "p99, us"),
)
BARE = "SET NX PX and a Lua delete"
KINDS = (
    ("app.lock", "onejob", ()),
    (BARE, "bare", ()),
    ("redis-py Lock", "redis_py", ("redis",)),
    ("python-redis-lock", "python_redis_lock", ("python-redis-lock",)),
    ("pottery Redlock", "pottery", ("pottery",)),
    ("sherlock", "sherlock", ("sherlock[redis]",)),
)


def table(context: Context) -> Table:
    """Measure pairs of acquire and release on a server that keeps nothing."""
    if not brokers.have_redis():
        return Table(COLUMNS, [Skipped("Redis", "no server to start")])
    entries = [_entry(label, kind, packages, context) for label, kind, packages in KINDS]
    return Table(COLUMNS, entries, against=BARE)


def _entry(label: str, kind: str, packages: tuple[str, ...], context: Context) -> Entry | Skipped:
    if packages and not context.peers:
        return Skipped(label, "peers were not asked for")
    try:
        python = python_with(packages) if packages else Path(sys.executable)
    except Unavailable as why:
        return Skipped(label, str(why))
    return Entry(label, partial(_measured, kind, python, context), ours=kind == "onejob")


def _measured(kind: str, python: Path, context: Context) -> Figures:
    pairs = context.sizes.fenced
    with context.places.sqlite() as place, brokers.redis(place.directory) as port:
        return called("redis_locks", kind, port, pairs, python=python)
