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

from onejob.core.time import Instant, text

SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """A store that processes share. ``calls`` is a file where outside effects leave a line.

    ``looking`` is where its tables are looked at, if not at ``url``: past a network that breaks.
    """

    dialect: str
    url: str
    schema: str
    calls: Path
    looking: str = ""

    @property
    def prefix(self) -> str:
        """What stands before a table's name."""
        return f'"{self.schema}".' if self.dialect == "postgresql" else f"{self.schema}_"

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Read (or change) the tables behind the library's back; ``{t}`` stands for the prefix."""
        return self.queries(sql)[0]

    def queries(self, *texts: str) -> list[list[tuple[Any, ...]]]:
        """The same for several that see one state of the tables, whoever works on meanwhile."""
        texts = tuple(text.replace("{t}", self.prefix) for text in texts)
        if self.dialect == "postgresql":
            with psycopg.connect(self.looking or self.url) as connection:
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                cursors = [connection.execute(text.encode()) for text in texts]
                return [each.fetchall() if each.description else [] for each in cursors]
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=20)) as lite:
            lite.isolation_level = None
            lite.execute("BEGIN")
            answers = [lite.execute(text).fetchall() for text in texts]
            lite.execute("COMMIT")
            return answers

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
        written = path.with_suffix(f".{name}-part")
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

    def ticked(self) -> bool:
        """Tell whether a fire time has become a run here."""
        [[live]], [[ended]] = self.queries(
            "SELECT count(*) FROM {t}run WHERE schedule <> ''",
            "SELECT count(*) FROM {t}history WHERE schedule <> ''",
        )
        return bool(live or ended)


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
    landings, live_rows, ended_rows, [[last]], misses = place.queries(
        "SELECT key FROM {t}landed",
        "SELECT job, key, state, fire_time FROM {t}run",
        "SELECT job, key, outcome, error, fire_time FROM {t}history",
        "SELECT COALESCE(max(last), 0) FROM {t}schedule",
        "SELECT detail FROM {t}event WHERE kind = 'tick.missed'",
    )
    landed = Counter(key for [key] in landings)
    landed.update(place.calls.read_text().split() if place.calls.exists() else [])
    live = {f"{job}/{key}": state for job, key, state, _ in live_rows}
    ended = Counter(f"{job}/{key}" for job, key, *_ in ended_rows)
    failed = {
        f"{job}/{key}: {outcome} ({error})"
        for job, key, outcome, error, _ in ended_rows
        if outcome != "succeeded"
    }
    fired = {row[-1] for row in (*live_rows, *ended_rows) if row[-1]}
    told = [json.loads(detail) for [detail] in misses]
    missed = {entry["at"] for detail in told for entry in detail["newest"]}
    lost = {name for name in expected if name not in live and name not in ended} | failed
    lost |= {name for name in ended if landed[name] == 0} | silent(fired, missed, last)
    doubled = {name for name, times in landed.items() if times > 1}
    doubled |= {name for name, times in ended.items() if times > 1 or name in live}
    unknown = sum(state == "unknown" for state in live.values())
    return Count(len(live) + len(ended), unknown, tuple(sorted(lost)), tuple(sorted(doubled)))


def silent(fired: set[int], missed: set[str], last: int) -> set[str]:
    """Return the seconds, from a schedule's first fire time to its last, that nothing tells of."""
    if not fired:
        return set()
    expected = set(range(min(fired), last + 1, SECOND))
    return {text(Instant(at)) for at in expected - fired if text(Instant(at)) not in missed}
