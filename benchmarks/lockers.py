"""Processes that begin at the same moment on one store, each with one JSON document at its end."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

from benchmarks import brokers
from benchmarks.field import Context
from benchmarks.places import Place
from benchmarks.rounds import Entry, Failed, Figures, Skipped
from onejob import App
from servers import MARIADB, Running
from servers.mariadb import drop_tables

#: Beyond what they were told to do.
PATIENCE_SECONDS = 120.0


#: A store's URL and the schema in it.
Where: TypeAlias = tuple[str, str]
Make: TypeAlias = Callable[[], AbstractContextManager[Where]]


def everywhere(context: Context, measure: Callable[[Make], Figures]) -> list[Entry | Skipped]:
    """Return a line for each kind of store that locks are kept in."""
    places = context.places
    kinds: list[tuple[str, Make, str]] = [
        ("PostgreSQL", lambda: _tabled(places.postgres), "" if places.server else "no server"),
        ("MariaDB", _mariadb, "" if _mariadb_url() else "no server"),
        ("SQLite", lambda: _tabled(places.sqlite), ""),
        ("Redis", lambda: _redis(context), "" if brokers.have_redis() else "no server to start"),
    ]
    return [
        Skipped(label, why) if why else Entry(label, lambda make=make: measure(make))
        for label, make, why in kinds
    ]


@contextmanager
def _tabled(make: Callable[[], AbstractContextManager[Place]]) -> Iterator[Where]:
    with make() as place:
        yield _with_tables(place.url, "onejob")


@contextmanager
def _mariadb() -> Iterator[Where]:
    url, schema = _mariadb_url(), f"b_{secrets.token_hex(4)}"
    try:
        yield _with_tables(url, schema)
    finally:
        drop_tables(url, schema)


def _mariadb_url() -> str:
    match MARIADB.start(session="onejob_bench"):
        case Running(url=url):
            return url
        case _:
            return ""


@contextmanager
def _redis(context: Context) -> Iterator[Where]:
    with context.places.sqlite() as place, brokers.redis(place.directory) as port:
        yield f"redis://127.0.0.1:{port}/0", "onejob"


def _with_tables(url: str, schema: str) -> Where:
    app = App(url, schema=schema)
    app.store.init()  # type: ignore[attr-defined]
    app.close()
    return url, schema


def together(commands: Sequence[Sequence[object]], seconds: float) -> list[dict[str, Any]]:
    """Start ``benchmarks.drivers.locker`` with each of these arguments; let them go at once."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.drivers.locker", *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    try:
        for process in started:
            assert process.stdout is not None, "piped"
            if process.stdout.readline().strip() != "ready":
                raise Failed("a process did not begin")
        for process in started:
            assert process.stdin is not None, "piped"
            process.stdin.write("go\n")
            process.stdin.flush()
        ended = [process.communicate(timeout=seconds + PATIENCE_SECONDS) for process in started]
        if any(process.returncode for process in started):
            raise Failed("a process ended with an error")
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.wait()
    return [json.loads(out.splitlines()[-1]) for out, _ in ended]
