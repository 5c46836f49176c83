"""What a store says of itself: transactions that are open for long, and settings that matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from onejob.commands.command import Command, Row

#: The unique keys that promises rest on, by table: without one of them two may win.
KEYS: Final = {
    "fence": ("scope", "resource"),
    "history": ("id", "token"),
    "lease": ("scope", "name"),
    "ledger": ("kind", "scope", "key"),
    "replica": ("id",),
    "schedule": ("name",),
}
#: Those of them that a store of locks and claims has.
KEYS_OF_LOCKS: Final = {table: KEYS[table] for table in ("fence", "lease", "ledger")}


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """Somebody's transaction. ``age`` is in microseconds; behind it nothing can be cleaned up."""

    pid: int
    age: int
    state: str
    application: str


def oldest_transaction() -> Command[OpenTransaction | None]:
    """Read whose transaction has been open for longest in this database; None where none is."""
    return Command("health_transaction", {}, _transaction, writes=False, repeatable=True)


def settings() -> Command[dict[str, str]]:
    """Read the settings by which commits last, by name; what a store doesn't have is absent."""
    return Command("health_settings", {}, _settings, writes=False, repeatable=True)


def keys() -> Command[frozenset[tuple[str, tuple[str, ...]]]]:
    """Read the unique keys of our tables that are there and valid: table and columns."""
    return Command("health_keys", {}, _keys, writes=False, repeatable=True)


def _transaction(rows: Sequence[Row]) -> OpenTransaction | None:
    return OpenTransaction(*rows[0]) if rows else None


def _settings(rows: Sequence[Row]) -> dict[str, str]:
    return {str(name): str(value) for name, value in rows}


def _keys(rows: Sequence[Row]) -> frozenset[tuple[str, tuple[str, ...]]]:
    return frozenset((str(table), tuple(str(columns).split(","))) for table, columns in rows)
