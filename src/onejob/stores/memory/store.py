"""MemoryStore: carry out commands on plain tables, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, TypeVar

from onejob.commands.command import Command
from onejob.core.time import Span
from onejob.errors import UnsupportedByStore
from onejob.stores.memory import (
    claims,
    events,
    health,
    inbox,
    leases,
    ledger,
    overlap,
    replicas,
    runs,
    schedules,
    ticks,
    views,
)
from onejob.stores.memory.tables import Rows, Tables
from onejob.stores.protocol import Statement, Style, Within

T = TypeVar("T")

Operation = Callable[..., Rows]

#: Operations are named as the SQL texts are: by subject.
_SUBJECTS = {
    "claim",
    "event",
    "replica",
    "run",
    "schedule",
    "ledger",
    "effect",
    "view",
    "health",
    "inbox",
    "lease",
    "fence",
}

_SQLITE = "Use sqlite:///jobs.db: it needs no server either."


_MODULES = (
    claims,
    events,
    health,
    inbox,
    leases,
    ledger,
    overlap,
    replicas,
    runs,
    schedules,
    ticks,
    views,
)


def _operations() -> dict[str, Operation]:
    """Find the operation of each command."""
    return {
        name: operation
        for module in _MODULES
        for name, operation in vars(module).items()
        if name.partition("_")[0] in _SUBJECTS
    }


class MemoryStore:
    """A store that lives and dies with this object.

    ``clock`` gives the store's now in microseconds since the epoch; a command that brings its own
    ``now`` does not ask it. Safe to use from many threads.
    """

    dialect = "memory"
    where = "memory"

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.tables = Tables()
        self._lock = Lock()
        self._operations = _operations()

    def run(self, command: Command[T], within: Within | None = None) -> T:
        """Carry out one command."""
        if within is not None:
            raise UnsupportedByStore("join your transaction", "memory", instead=_SQLITE)
        parameters: dict[str, Any] = dict(command.parameters)
        operation = self._operations[command.name]
        with self._lock:
            now = parameters.pop("now", None)
            rows = operation(self.tables, self.clock() if now is None else now, **parameters)
        return command.decode(rows)

    def statements(self, command: Command[T], style: Style) -> Sequence[Statement]:
        """Refuse: there are no texts here for another connection to carry."""
        raise UnsupportedByStore("join your transaction", "memory", instead=_SQLITE)

    def transaction(self, *, longest: Span) -> AbstractContextManager[Any]:
        """Refuse: there is no data of yours here to change in one transaction with ours."""
        raise UnsupportedByStore("open a transaction for your data", "memory", instead=_SQLITE)

    def lane(self, *, patience: Span) -> MemoryLane:
        """Open a lane onto the same tables; nothing here takes long enough to need patience."""
        return MemoryLane(self)

    def reap(self) -> None:
        """There are no connections to close."""

    def close(self) -> None:
        """Keep everything: another reference may still use it."""


class MemoryLane:
    """A lane onto a MemoryStore. Hints are a counter that rises when runs are made for the idle."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._seen = store.tables.hints

    def run(self, command: Command[T]) -> T:
        """Carry out one command."""
        return self._store.run(command)

    def listen(self) -> bool:
        """Begin to count hints from now on."""
        self._seen = self._store.tables.hints
        return True

    def fileno(self) -> int | None:
        """Return None: there is no descriptor to wait on."""
        return None

    def hinted(self) -> bool:
        """Tell whether the counter has risen since the last call."""
        seen, self._seen = self._seen, self._store.tables.hints
        return self._seen > seen

    def close(self) -> None:
        """Do nothing: there is no connection."""
