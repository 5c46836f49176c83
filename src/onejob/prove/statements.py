"""SQLite in a simulation: the same play, with commands that end between two statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, overload

from onejob.commands.command import Command
from onejob.stores.protocol import Statement, Style
from onejob.stores.sqlite import SqliteStore

T = TypeVar("T")


class CutOff(Exception):
    """The store's process died here: between two statements, or just before the commit."""


class StatementStore(SqliteStore):
    """A SQLite store of which one command can be cut off after some of its statements."""

    _after: int | None = None

    def cut(self, command: Command[T], place: int) -> T:
        """Carry out a command up to a statement chosen by ``place``. Always raises CutOff."""
        self._after = place
        try:
            return self.run(command)
        finally:
            self._after = None

    def statements(self, command: Command[Any], style: Style) -> Sequence[Statement]:
        """Return the statements, of which the iteration ends early while a cut is asked for."""
        whole = super().statements(command, style)
        return whole if self._after is None else _Cut(whole, 1 + self._after % len(whole))


class _Cut(Sequence[Statement]):
    """The first ``after`` statements, then the end of everything."""

    def __init__(self, whole: Sequence[Statement], after: int) -> None:
        self._whole, self._after = whole, after

    def __iter__(self) -> Iterator[Statement]:
        yield from self._whole[: self._after]
        raise CutOff

    @overload
    def __getitem__(self, at: int) -> Statement: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Statement]: ...
    def __getitem__(self, at: int | slice) -> Statement | Sequence[Statement]:
        return self._whole[at]

    def __len__(self) -> int:
        return len(self._whole)


def sqlite_in(folder: Path) -> Callable[[Callable[[], int]], StatementStore]:
    """Return how to make a fresh store in this folder for each play."""
    numbers = count()

    def make(clock: Callable[[], int]) -> StatementStore:
        store = StatementStore(folder / f"play-{next(numbers)}.db", clock=clock)
        store.init()
        return store

    return make
