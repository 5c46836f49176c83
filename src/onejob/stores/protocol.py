"""What the layers above may ask of a store, and what it owes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from onejob.commands.command import Command, Parameter, Row
from onejob.core.time import Span

T = TypeVar("T")

#: How a driver writes parameters: ``:name``, ``%(name)s`` or ``$1``. ``typed`` is ``$1`` too, for a
#: driver that encodes by the type the server infers: JSON, which travels as text, then says so.
Style = Literal["named", "pyformat", "numbered", "typed"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement ready for a driver; ``answers`` where its rows are the command's.

    Where the style has numbers, ``parameters`` has just those, in order.
    """

    text: str
    parameters: Mapping[str, Parameter]
    answers: bool


@runtime_checkable
class Within(Protocol):
    """The caller's own connection, made to carry one statement.

    An adapter never commits, rolls back or closes it, and runs what it is given inside the
    transaction that is open there.
    """

    dialect: str
    style: Style

    def execute(self, text: str, parameters: Mapping[str, Parameter]) -> Sequence[Row]:
        """Carry out one statement and return its rows (none where it returns none)."""
        ...


@runtime_checkable
class AsyncWithin(Protocol):
    """The same for a connection that belongs to a loop."""

    dialect: str
    style: Style

    async def aexecute(self, text: str, parameters: Mapping[str, Parameter]) -> Sequence[Row]:
        """Carry out one statement and return its rows."""
        ...


class Lane(Protocol):
    """One connection of a replica's own, for its keeper: renewals, idle polling and hints.

    Neither a blocked loop nor an exhausted pool reaches it. Used by one thread at a time.
    """

    def run(self, command: Command[T]) -> T:
        """Carry out a command on this connection, within the lane's time bound."""
        ...

    def listen(self) -> bool:
        """Begin to receive hints that work has arrived. False: this store has none, poll."""
        ...

    def fileno(self) -> int | None:
        """Return a descriptor that is readable after a hint; None: call :meth:`hinted` often."""
        ...

    def hinted(self) -> bool:
        """Tell whether hints have arrived since the last call, without waiting."""
        ...

    def close(self) -> None:
        """Give the connection up."""
        ...


@runtime_checkable
class TellsOfReleases(Protocol):
    """A store whose locks notify on release where somebody waits."""

    def release_lane(self, *, patience: Span) -> Lane:
        """Open a lane that hears of releases."""
        ...


class Store(Protocol):
    """A place that carries out commands.

    Duties: one command is atomic; ``now`` None means the store's clock; refusals are returned;
    StoreUnavailable means that nothing was sent, OutcomeUnknown that the reply is missing; a
    command that the store rolled back by itself (deadlock, serialisation) is tried again inside,
    with a bound. Safe to use from many threads, and after a fork (with connections of its own).
    """

    dialect: str
    where: str

    def run(self, command: Command[T], within: Within | None = None) -> T:
        """Carry out one command: atomically by itself, or within the caller's transaction."""
        ...

    def statements(self, command: Command[T], style: Style) -> Sequence[Statement]:
        """Return what ``run`` would send, for a connection that the caller drives."""
        ...

    def transaction(self, *, longest: Span) -> AbstractContextManager[Any]:
        """Open a transaction; yields a connection of the store's driver, commits at the end.

        ``longest`` bounds how long it may stay open where an open one stops everybody else.
        """
        ...

    def lane(self, *, patience: Span) -> Lane:
        """Open a lane whose every command ends, one way or the other, within ``patience``."""
        ...

    def reap(self) -> None:
        """Close connections that have been idle for a while."""
        ...

    def close(self) -> None:
        """Close every idle connection."""
        ...


class AsyncStore(Protocol):
    """A store as a loop sees it."""

    dialect: str
    where: str

    async def run(self, command: Command[T], within: Within | AsyncWithin | None = None) -> T:
        """Carry out one command without blocking the loop."""
        ...
