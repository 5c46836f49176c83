"""Where a fault is tried: one store, and what has landed there, counted from its own tables."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from onejob.core.time import text

SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """A store that processes share. ``calls`` is a file where outside effects leave a line."""

    dialect: str
    url: str
    schema: str
    calls: Path

    @property
    def prefix(self) -> str:
        """What stands before a table's name."""
        return f'"{self.schema}".' if self.dialect == "postgresql" else f"{self.schema}_"

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Read (or change) the tables behind the library's back; ``{t}`` stands for the prefix."""
        sql = sql.replace("{t}", self.prefix)
        if self.dialect == "postgresql":
            with psycopg.connect(self.url, autocommit=True) as connection:
                cursor = connection.execute(sql.encode())
                return cursor.fetchall() if cursor.description else []
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=20)) as lite:
            with lite:
                return lite.execute(sql).fetchall()

    def prepare(self) -> None:
        """Make the table in which effects land: no unique key, so that a second one shows."""
        self.query("CREATE TABLE {t}landed (key text NOT NULL)")

    def land(self, connection: Any, key: str) -> None:
        """Take effect, in the caller's transaction."""
        mark = "%s" if self.dialect == "postgresql" else "?"
        connection.execute(f"INSERT INTO {self.prefix}landed (key) VALUES ({mark})", (key,))

    def call(self, key: str) -> str:
        """Take effect outside: a line in a file, which no transaction takes back."""
        with self.calls.open("a") as file:
            file.write(key + "\n")
        return f"receipt for {key}"

    def mark(self, name: str, text: str = "") -> None:
        """Tell other processes something, by a file beside the calls."""
        path = self.calls.with_suffix(f".{name}")
        written = path.with_suffix(".part")
        written.write_text(text or name)
        written.replace(path)

    def marked(self, name: str) -> str:
        """Return what was told under this name, "" before."""
        path = self.calls.with_suffix(f".{name}")
        return path.read_text() if path.exists() else ""

    def open_runs(self) -> int:
        """Count the runs that callers wait for: live, not unknown, and not made by a schedule."""
        [[count]] = self.query(
            "SELECT count(*) FROM {t}run WHERE state <> 'unknown' AND schedule = ''"
        )
        return int(count)


@dataclass(frozen=True, slots=True)
class Count:
    """What came of the runs at one place."""

    runs: int
    unknown: int
    lost: tuple[str, ...]
    doubled: tuple[str, ...]


def counted(place: Place, expected: set[str]) -> Count:
    """Count at a place where the runs named ``expected`` (job/key) were asked for.

    Exactly once: an ended run has landed once, a live one at most once. Lost: a run that was asked
    for and isn't there or didn't succeed, and a fire time that neither became a run nor is told as
    missed. A run in state unknown is neither, as long as its effect was not called twice.
    """
    landed = Counter(key for [key] in place.query("SELECT key FROM {t}landed"))
    calls = Counter(place.calls.read_text().split() if place.calls.exists() else [])
    landed.update(calls)
    live = {
        f"{job}/{key}": state
        for job, key, state in place.query("SELECT job, key, state FROM {t}run")
    }
    ended = Counter(
        f"{job}/{key}" for job, key in place.query("SELECT job, key FROM {t}history")
    )
    failed = {
        f"{job}/{key}: {outcome} ({error})"
        for job, key, outcome, error in place.query(
            "SELECT job, key, outcome, error FROM {t}history WHERE outcome <> 'succeeded'"
        )
    }
    lost = {name for name in expected if name not in live and name not in ended} | failed
    lost |= {name for name in ended if landed[name] == 0} | lost_fire_times(place)
    doubled = {name for name, times in landed.items() if times > 1}
    doubled |= {name for name, times in ended.items() if times > 1 or name in live}
    unknown = sum(state == "unknown" for state in live.values())
    return Count(len(live) + len(ended), unknown, tuple(sorted(lost)), tuple(sorted(doubled)))


def lost_fire_times(place: Place) -> set[str]:
    """Return the seconds, from a schedule's first fire time to its last, that nothing tells of."""
    fired = {
        at
        for [at] in place.query(
            "SELECT fire_time FROM {t}run WHERE fire_time > 0"
            " UNION ALL SELECT fire_time FROM {t}history WHERE fire_time > 0"
        )
    }
    [[last]] = place.query("SELECT COALESCE(max(last), 0) FROM {t}schedule")
    told = [
        json.loads(detail)
        for [detail] in place.query("SELECT detail FROM {t}event WHERE kind = 'tick.missed'")
    ]
    missed = {entry["at"] for detail in told for entry in detail["newest"]}
    if not fired:
        return set()
    expected = set(range(min(fired), last + 1, SECOND))
    return {text(at) for at in expected - fired if text(at) not in missed}
