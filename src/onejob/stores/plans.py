"""How a store would carry a command out: its planner's answer, with nothing carried out."""

from __future__ import annotations

from typing import Any

from onejob.commands.command import Command
from onejob.errors import UnsupportedByStore


def plan(store: Any, command: Command[Any]) -> list[str]:
    """Return the plan of a command's statements in this store, line by line."""
    match store.dialect:
        case "postgresql":
            return _postgresql(store, command)
        case "sqlite":
            return _sqlite(store, command)
        case dialect:
            raise UnsupportedByStore(
                "explain its commands",
                dialect,
                instead="Plans are shown on postgresql:// and sqlite:///.",
            )


def _postgresql(store: Any, command: Command[Any]) -> list[str]:
    [statement] = store.statements(command, "pyformat")
    with store.mapped("explain"), store.connect() as connection:
        rows = connection.execute(
            b"EXPLAIN " + statement.text.encode(), statement.parameters, prepare=False
        ).fetchall()
    return [str(row[0]) for row in rows]


def _sqlite(store: Any, command: Command[Any]) -> list[str]:
    import sqlite3
    from contextlib import closing

    lines: list[str] = []
    with closing(sqlite3.connect(store.path)) as connection:
        for statement in store.statements(command, "named"):
            if statement.text.startswith("CREATE TEMP TABLE"):
                # This connection's own, and gone with it: what follows names it.
                connection.execute(statement.text)
                continue
            rows = connection.execute(
                f"EXPLAIN QUERY PLAN {statement.text}", dict(statement.parameters)
            )
            depths = {0: -1}
            for id, parent, _, detail in rows:
                depths[id] = depths.get(parent, -1) + 1
                lines.append("  " * depths[id] + str(detail))
    return lines
