"""Events in memory."""

from __future__ import annotations

from onejob.stores.memory.tables import Rows, Tables


def event_purge(tables: Tables, now: int, *, before: int, limit: int) -> Rows:
    """Forget old events that belong to no run."""
    old = [event.id for event in tables.events if event.run_id == 0 and event.at < before][:limit]
    tables.events = [event for event in tables.events if event.id not in old]
    return [(id,) for id in old]
