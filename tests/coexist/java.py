"""A Java service as ShedLock's documentation has it act on its table; and the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

#: Four columns, the name is the key.
TABLE = """
CREATE TABLE shedlock (
  name text PRIMARY KEY,
  lock_until timestamp NOT NULL,
  locked_at timestamp NOT NULL,
  locked_by text NOT NULL
)"""
#: The database's clock, as with usingDbTime().
NOW = "timezone('utc', current_timestamp)"


@dataclass(frozen=True, slots=True)
class Java:
    """One service on one host."""

    connection: Any
    host: str = "java-1"

    def lock(self, name: str, seconds: float = 600) -> bool:
        """Insert the row; where there is one, take it over if its time has passed."""
        until = f"{NOW} + make_interval(secs => %s)"
        try:
            self.connection.execute(
                f"INSERT INTO shedlock VALUES (%s, {until}, {NOW}, %s)", (name, seconds, self.host)
            )
        except psycopg.errors.UniqueViolation:
            updated = self.connection.execute(
                f"UPDATE shedlock SET lock_until = {until}, locked_at = {NOW}, locked_by = %s "
                f"WHERE name = %s AND lock_until <= {NOW}",
                (seconds, self.host, name),
            )
            return bool(updated.rowcount)
        return True

    def unlock(self, name: str, *, db_time: bool = True) -> None:
        """Set its end to now: by name and host, or by name alone without usingDbTime()."""
        self.connection.execute(
            f"UPDATE shedlock SET lock_until = {NOW} WHERE name = %s AND (locked_by = %s OR %s)",
            (name, self.host, not db_time),
        )
