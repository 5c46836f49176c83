"""The fenced transactions that are open around this code.

While one is open its run, or lock, cannot change hands, and on SQLite nobody else can write at all.
What we write there must go through it: by itself a write would commit whatever becomes of the
transaction, or wait for it until the lease is lost.

They follow the handler's context, so also into its tasks and into threads that are given it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Final

from onejob.core.hold import Grip
from onejob.core.run import Claim


@dataclass(slots=True)
class Fence:
    """A transaction that holds a run, or a lock, until it ends, in the store of ``dialect``.

    ``ours`` is open for as long as its block lasts; of the caller's own its adapter knows.
    """

    holder: Claim | Grip
    dialect: str
    where: str
    adapter: Any
    ours: bool
    ended: bool = False

    @property
    def open(self) -> bool:
        """Tell whether it still holds the row."""
        # A connection of ours may serve others after the block: it is not asked.
        return not self.ended and (self.ours or self.adapter.open)

    @property
    def unsure(self) -> bool:
        """Tell whether ``open`` may be about another transaction.

        Some drivers tell that a transaction is open, and not which. A pool may have lent the
        connection to another thread since: then it is open, and holds nothing of ours.
        """
        return not self.ours and getattr(self.adapter, "any_transaction", False)


_around: Final[ContextVar[tuple[Fence, ...]]] = ContextVar("onejob_fences", default=())


def around() -> tuple[Fence, ...]:
    """Return those that are open around this code, the outermost first."""
    return tuple(fence for fence in _around.get() if fence.open)


def add(fence: Fence) -> None:
    """Take note of a transaction of the caller's, until it ends."""
    _around.set((*around(), fence))


@contextmanager
def inside(fence: Fence) -> Iterator[None]:
    """Note that the code inside runs in a transaction of ours."""
    before = _around.set((*around(), fence))
    try:
        yield
    finally:
        fence.ended = True
        _around.reset(before)


def leave() -> Token[tuple[Fence, ...]]:
    """Begin a handler: what an earlier one left in this thread is not around it."""
    return _around.set(())


def back(before: Token[tuple[Fence, ...]]) -> None:
    """End a handler that began with :func:`leave`."""
    _around.reset(before)
