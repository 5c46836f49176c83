"""When a unit of work in a transaction of ours is worth another try: the store rolled it back.

Only then is it known that nothing of it is there. A commit whose reply is missing is unknown, and
not tried again; an error that came from elsewhere is none of our business.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from onejob.adapters import sqlstate
from onejob.errors import StoreUnavailable

#: How often a unit is tried.
TRIES_MAX: Final = 8

#: Serialisation failure, deadlock: the server has rolled back, and says that trying again may help.
_ROLLED_BACK: Final = {"40001", "40P01"}
#: SQLITE_BUSY and SQLITE_LOCKED: another connection is writing, and this one wrote nothing.
_SQLITE_BUSY: Final = (5, 6)
_PAUSE_FIRST: Final = 0.01
_PAUSE_LONGEST: Final = 0.5


class Tries:
    """The tries of one unit, with a bound."""

    def __init__(self) -> None:
        self._failures = 0
        self._elsewhere = False

    @contextmanager
    def on(self, connection: Any) -> Iterator[None]:
        """Tell errors of this transaction from others that the unit raises, inside the block."""
        self._elsewhere = False
        try:
            yield
        except Exception:
            self._elsewhere = not _has_failed(connection)
            raise

    def pause_after(self, error: Exception) -> float | None:
        """Return how long to wait before the next try; None: raise the error instead."""
        self._failures += 1
        if self._elsewhere or self._failures >= TRIES_MAX or not _rolled_back(error):
            return None
        # Spread, so that those who met do not meet again.
        longest: float = min(_PAUSE_LONGEST, _PAUSE_FIRST * 2**self._failures)
        return longest * random.uniform(0.5, 1.0)


def _rolled_back(error: Exception) -> bool:
    if isinstance(error, StoreUnavailable):
        return getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF in _SQLITE_BUSY
    return sqlstate(error) in _ROLLED_BACK


def _has_failed(connection: Any) -> bool:
    """Tell whether the transaction on the store's own connection is over, or can only be so."""
    if hasattr(connection, "in_transaction"):  # sqlite3's
        return not connection.in_transaction
    return bool(connection.info.transaction_status.name == "INERROR")
