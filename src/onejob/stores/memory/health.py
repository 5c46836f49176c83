"""The memory model of ``sql/base/health.sql``: a store without sessions, and without settings."""

from __future__ import annotations

from onejob.commands.health import KEYS
from onejob.stores.memory.tables import Rows, Tables


def health_transaction(tables: Tables, now: int) -> Rows:
    """There are no sessions here."""
    return []


def health_settings(tables: Tables, now: int) -> Rows:
    """There are no settings here."""
    return []


def health_keys(tables: Tables, now: int) -> Rows:
    """A dictionary has each key once."""
    return [(table, ",".join(columns)) for table, columns in KEYS.items()]
