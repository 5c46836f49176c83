"""Which lease belongs to which use of one lock object, when a block ends.

``__exit__`` is not told what ``__enter__`` returned, and one object may be used by many threads and
tasks, one after the other, and even inside itself once its first use has lost the lock.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Generic, TypeAlias, TypeVar

L = TypeVar("L")

User: TypeAlias = tuple[int, object]


class Uses(Generic[L]):
    """The leases that are inside, by the thread and task that entered them."""

    def __init__(self) -> None:
        self._inside: dict[User, list[L]] = {}
        self._lock = threading.Lock()

    def enter(self, lease: L) -> None:
        """Remember a lease as this thread's or task's."""
        with self._lock:
            self._inside.setdefault(_user(), []).append(lease)

    def leave(self) -> L:
        """Return the lease whose block ends here, and forget it.

        Of several, the one that was entered first: it is over, or the next could not have been
        entered, and to give it back is to give back nothing. So no exit ever releases a lock that
        another block of this object still works under.
        """
        with self._lock:
            user = _user()
            if user not in self._inside and len(self._inside) == 1:
                # Entered by one thread or task and left by another, as a fixture may be.
                [user] = self._inside
            leases = self._inside[user]
            lease = leases.pop(0)
            if not leases:
                del self._inside[user]
            return lease


def _user() -> User:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return threading.get_ident(), task
