"""Where the exercise's document lies, and the lock beside it that people write at home."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from onejob.demo.place import Place

#: One table for all: the lock, the document (its writer and the highest token it has seen), and a
#: row for each write that has landed.
CREATE = "CREATE TABLE {table} (name TEXT PRIMARY KEY, holder TEXT, expires FLOAT, token BIGINT)"
LOCK = "INSERT INTO {table} VALUES ('lock', '', 0, 0)"
DOCUMENT = "INSERT INTO {table} VALUES ('document', '', 0, 0)"

TAKE = "UPDATE {table} SET holder = ?, expires = ? WHERE name = 'lock' AND expires < ?"
#: Whose lock it is by now is not asked: that is what is wrong with it.
DROP = "UPDATE {table} SET holder = '', expires = 0 WHERE name = 'lock'"
WRITE = "UPDATE {table} SET holder = ?, token = ? WHERE name = 'document'"
WRITE_IF = "UPDATE {table} SET holder = ?, token = ? WHERE name = 'document' AND token <= ?"
LANDED = "INSERT INTO {table} VALUES (?, ?, ?, 0)"
READ_LANDED = (
    "SELECT holder FROM {table} WHERE name > 'landed' AND name < 'lock' ORDER BY expires, name"
)


class Desk(Protocol):
    """A store with a document on it, and a lock as it is often written."""

    def take(self, who: str, seconds: float) -> bool:
        """Take the home-made lock for so long, if it is free."""
        ...

    def drop(self) -> None:
        """Free the home-made lock, whoever holds it."""
        ...

    def write(self, who: str) -> None:
        """Write to the document."""
        ...

    def write_if(self, who: str, token: int) -> bool:
        """Write unless the document has seen a higher token."""
        ...

    def landed(self) -> list[str]:
        """Return who has written, in the order of their writes."""
        ...


@dataclass(frozen=True, slots=True)
class SqlDesk:
    """A table."""

    place: Place

    def prepare(self) -> None:
        """Lay the document out."""
        self.place.prepare()
        for statement in (CREATE, LOCK, DOCUMENT):
            self.place.write(statement)

    def take(self, who: str, seconds: float) -> bool:
        now = time.time()
        return bool(self.place.write(TAKE, who, now + seconds, now))

    def drop(self) -> None:
        self.place.write(DROP)

    def write(self, who: str) -> None:
        self.place.write(WRITE, who, 0)
        self._note(who)

    def write_if(self, who: str, token: int) -> bool:
        if not self.place.write(WRITE_IF, who, token, token):
            return False
        self._note(who)
        return True

    def write_in(self, connection: Any, who: str) -> None:
        """Write inside somebody's transaction."""
        for statement, values in (
            (WRITE, (who, 0)),
            (LANDED, (f"landed {time.time_ns()}", who, time.time())),
        ):
            connection.execute(self.place.text(statement), values)

    def landed(self) -> list[str]:
        rows: Sequence[Any] = self.place.fetch(READ_LANDED)
        return [str(row[0]) for row in rows]

    def _note(self, who: str) -> None:
        self.place.write(LANDED, f"landed {time.time_ns()}", who, time.time())
