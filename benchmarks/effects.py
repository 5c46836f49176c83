"""Effects: ``first`` beside an INSERT, one by one beside peers, ``each`` beside the bare calls."""

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
    Column("rate", "a second"),
    Column("microseconds", "one statement, us"),
)
BARE = "one INSERT of your own"

#: Label, what the driver calls it, what its environment needs, and the share of the count it gets.
KINDS: tuple[tuple[str, str, tuple[str, ...], float], ...] = (
    (BARE, "bare_insert", (), 1),
    ("app.first", "first", (), 1),
    ("app.first_many, keys", "first_many", (), 20),
    ("app.effect, one by one", "effect", (), 1),
    ("justonce", "justonce", ("justonce[postgres]",), 1),
    ("DBOS steps", "dbos", ("dbos",), 1),
    (
        "Powertools, on Redis",
        "powertools",
        ("aws-lambda-powertools[redis]", "jmespath", "boto3"),
        1,
    ),
    ("run.each, a call of 0 ms", "each", (), 10),
    ("run.each, a call of 20 ms", "each_http", (), 2),
    ("the bare calls of 20 ms", "bare_http", (), 2),
)
OTHERS = ("bare_insert", "bare_http", "justonce", "dbos", "powertools")


def table(context: Context) -> Table:
    """Measure each in a process of its own, on PostgreSQL."""
    if not context.places.server:
        return Table(COLUMNS, [Skipped("PostgreSQL", "no server")])
    return Table(COLUMNS, [_entry(*kind, context=context) for kind in KINDS])


def _entry(
    label: str, kind: str, packages: tuple[str, ...], share: float, *, context: Context
) -> Entry | Skipped:
    if packages and not context.peers:
        return Skipped(label, "peers were not asked for")
    if kind == "powertools" and not brokers.have_redis():
        return Skipped(label, "no Redis to start")
    try:
        python = python_with(packages) if packages else Path(sys.executable)
    except Unavailable as why:
        return Skipped(label, str(why))
    count = round(context.sizes.fenced * share)
    return Entry(label, partial(_measured, kind, python, count, context), ours=kind not in OTHERS)


def _measured(kind: str, python: Path, count: int, context: Context) -> Figures:
    with context.places.postgres() as place:
        if kind != "powertools":
            return _called(python, kind, place.url, count)
        with brokers.redis(place.directory) as port:
            return _called(python, kind, f"redis://127.0.0.1:{port}/0", count)


def _called(python: Path, kind: str, url: str, count: int) -> Figures:
    given = {"POWERTOOLS_SERVICE_NAME": "bench"}
    return called("effects", kind, url, count, python=python, environment=given)
