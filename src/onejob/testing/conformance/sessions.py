"""Two transactions at once: what a store provides so that its guards can be shown to hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from onejob.commands.command import Command

T = TypeVar("T")


class Busy(Exception):
    """The session waited for another one's lock, and gave up within its short patience."""


class Session(Protocol):
    """A connection with an open transaction, as a user's would be.

    Its patience with locks is short (a fraction of a second): a statement that has to wait longer
    raises :class:`Busy`, whereupon the transaction can only be rolled back.
    """

    def run(self, command: Command[T]) -> T:
        """Carry out a command within this transaction."""
        ...

    def savepoint(self) -> None:
        """Set a savepoint."""
        ...

    def rollback_to_savepoint(self) -> None:
        """Undo what followed the savepoint."""
        ...

    def commit(self) -> None:
        """End the transaction; the next command begins another."""
        ...

    def rollback(self) -> None:
        """Undo the transaction; the next command begins another."""
        ...


class Sessions(Protocol):
    """Where sessions come from. All of them are closed when the test ends."""

    def open(self) -> Session:
        """Open an independent session."""
        ...


def gets_nothing(ask: Callable[[], object]) -> bool:
    """Tell whether a session is kept out now: answered with nothing, or made to wait.

    Stores with row locks skip the row; a store with one lock for all lets the second writer wait.
    """
    try:
        return not ask()
    except Busy:
        return True
