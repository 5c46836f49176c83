"""The room where ticks wait for somebody else's claim to end: fired, or lapsed.

A scheduler with a loop of its own asks for what is :meth:`due` in it, and sleeps no longer than
:meth:`seconds`. One without gets a thread, which exists only while somebody waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeAlias

from onejob.core.time import SECOND, Span
from onejob.runtime.clock import SystemClock
from onejob.runtime.events import log

#: Ticks that one process keeps in mind; above that the longest waiting are left to others.
WAITING_MAX: Final = 1_000

Again: TypeAlias = Callable[[], object]


class WaitingRoom:
    """Callbacks by key, each with the time to call it; the newest of a key stands for it."""

    def __init__(self, *, threaded: bool, clock: Callable[[], int] | None = None) -> None:
        self.threaded = threaded
        self._clock = clock or SystemClock().now
        self._waiting: dict[str, tuple[int, Again]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def knows(self, key: str) -> bool:
        """Tell whether a tick waits here."""
        return key in self._waiting

    def keep(self, key: str, again: Again, wait: Span) -> None:
        """Call ``again`` in ``wait``, unless it is forgotten until then."""
        with self._changed:
            if self._closed:
                return
            if key not in self._waiting and len(self._waiting) >= WAITING_MAX:
                left = next(iter(self._waiting))
                del self._waiting[left]
                log.warning("too many ticks wait for others to fire them: %s is left to them", left)
            self._waiting[key] = (self._clock() + wait, again)
            if self.threaded and self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="onejob-guard", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def forget(self, key: str) -> None:
        """Wait for this one no longer."""
        with self._changed:
            self._waiting.pop(key, None)

    def due(self) -> list[Again]:
        """Return the callbacks whose time has come. They stay known until they are forgotten or
        kept again, so that whoever is called back asks as one who has asked before."""
        now = self._clock()
        with self._changed:
            keys = [key for key, (when, _) in self._waiting.items() if when <= now]
            callbacks = [self._waiting[key][1] for key in keys]
            for key, again in zip(keys, callbacks, strict=True):
                self._waiting[key] = (now + SECOND, again)
        return callbacks

    def seconds(self) -> float | None:
        """Return how long nothing is due; None: nobody waits."""
        with self._changed:
            times = [when for when, _ in self._waiting.values()]
        return max(0, min(times) - self._clock()) / SECOND if times else None

    def look(self) -> None:
        """Call back whoever is due; one that raises is logged and does not keep up the others."""
        for again in self.due():
            try:
                again()
            except Exception:  # noqa: BLE001 - the others wait too
                log.exception("a tick that waited for somebody else's claim failed")

    def clear(self) -> None:
        """Forget everybody who waits now."""
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Forget everybody, for good."""
        with self._changed:
            self._closed = True
        self.clear()

    def _loop(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    return
                soonest = min(when for when, _ in self._waiting.values())
                self._changed.wait(max(0, soonest - self._clock()) / SECOND)
            self.look()
