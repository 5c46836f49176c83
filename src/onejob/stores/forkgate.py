"""Nobody is inside SQLite when this process forks.

SQLite keeps what this process has locked in memory, by file. A fork copies that memory: had a
thread of the parent been inside a transaction at that instant, the child would wait for ever for a
lock that nobody holds there (or believe in one that the kernel never gave it). So a fork waits,
with a bound, until every use has ended, closes the idle connections, and lets nobody in until it
is over.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakSet

#: A fork waits this long for uses to end: longer than any bounded one.
PATIENCE_SECONDS = 10.0


class Holder(Protocol):
    """Something that keeps idle connections."""

    def close(self) -> None:
        """Close the idle ones; new ones are opened when they are needed."""
        ...


class ForkGate:
    """Counts the uses under way and keeps new ones out while a fork happens."""

    def __init__(self) -> None:
        self._holders: WeakSet[Holder] = WeakSet()
        self._torn = False
        self._begin_anew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._shut,
                after_in_parent=self._open,
                after_in_child=self._in_child,
            )

    def watch(self, holder: Holder) -> None:
        """Close what ``holder`` keeps idle before each fork."""
        self._holders.add(holder)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Be inside SQLite for the length of the block. A thread may nest its uses."""
        mine = threading.get_ident()
        with self._changed:
            while self._is_shut and mine not in self._uses:
                self._changed.wait()
            self._uses[mine] = self._uses.get(mine, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._uses[mine] -= 1
                if not self._uses[mine]:
                    del self._uses[mine]
                    if self._is_shut:
                        self._changed.notify_all()

    def _shut(self) -> None:
        mine = threading.get_ident()
        with self._changed:
            self._is_shut = True
            self._torn = not self._changed.wait_for(
                lambda: self._is_empty_but_for(mine), PATIENCE_SECONDS
            )
        for holder in list(self._holders):
            holder.close()

    def _is_empty_but_for(self, mine: int) -> bool:
        return not self._uses.keys() - {mine}

    def _open(self) -> None:
        with self._changed:
            self._is_shut = False
            self._changed.notify_all()

    def _begin_anew(self) -> None:
        # The parent's lock may have been held by a thread that does not exist in the child.
        self._changed = threading.Condition()
        self._uses: dict[int, int] = {}
        self._is_shut = False
        #: True in a child whose fork could not wait: SQLite's memory there is not to be trusted.
        self.torn = False

    def _in_child(self) -> None:
        torn = self._torn
        self._begin_anew()
        self.torn = torn


gate = ForkGate()
