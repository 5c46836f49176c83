"""A listener for releases: one connection for all in this process who wait for locks.

It hears that some lock was released somewhere, not which: whoever waits here looks for himself.
Hints may be lost and connections may break: waiters look now and then by themselves, and here
nothing is tried again before somebody else begins to wait.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from contextlib import suppress

from onejob.core.time import SECOND, Span
from onejob.runtime.events import Events
from onejob.stores.protocol import Lane

#: How long a silent lane is listened to before looking whether anybody still waits.
TURN_SECONDS = 0.5

#: It goes on for so many turns in which nobody waits: waits come in series.
TURNS_UNNEEDED = 6

#: How long the lane's own commands may take.
PATIENCE = Span(2 * SECOND)


class Listener:
    """Tells those who wait, from a thread of its own, that some lock was released."""

    def __init__(self, lane: Callable[[Span], Lane], *, events: Events) -> None:
        self._open, self._events = lane, events
        self._heard: Callable[[], None] = _nobody
        self._lock = threading.Lock()
        self._waiting = 0
        self._running = self._ending = False
        self._thread: threading.Thread | None = None

    def begin(self, heard: Callable[[], None]) -> None:
        """Listen, for one more who waits; ``heard`` wakes those who do."""
        with self._lock:
            self._heard = heard
            self._waiting += 1
            if not self._running:
                self._running = True
                self._ending = False
                self._thread = threading.Thread(
                    target=self._listen, name="onejob-listener", daemon=True
                )
                self._thread.start()

    def end(self) -> None:
        """Listen for one fewer."""
        with self._lock:
            self._waiting -= 1

    def close(self) -> None:
        """End at once, unless somebody waits."""
        with self._lock:
            self._ending, thread = True, self._thread
        if thread is not None and not self._waiting:
            thread.join(TURN_SECONDS * 2)

    def _listen(self) -> None:
        try:
            lane = self._open(PATIENCE)
            try:
                self._serve(lane)
            finally:
                with suppress(Exception):
                    lane.close()
        except Exception as error:  # noqa: BLE001 - no hints: those who wait look by themselves
            self._events.emit("store.trouble", doing="listen", error=str(error))
            with self._lock:
                self._running = False

    def _serve(self, lane: Lane) -> None:
        lane.listen()
        # Released before it was listened for: look once more.
        self._heard()
        unneeded = 0
        while self._goes_on(unneeded):
            if self._hinted(lane):
                self._heard()
            unneeded = 0 if self._waiting else unneeded + 1

    def _goes_on(self, unneeded: int) -> bool:
        with self._lock:
            lingers = unneeded < TURNS_UNNEEDED and not self._ending
            self._running = self._waiting > 0 or lingers
            return self._running

    @staticmethod
    def _hinted(lane: Lane) -> bool:
        descriptor = lane.fileno()
        assert descriptor is not None, "a lane that hears of releases has a descriptor"
        # A hint that came with the reply to LISTEN has left the socket already.
        if lane.hinted():
            return True
        select.select([descriptor], [], [], TURN_SECONDS)
        return lane.hinted()


def _nobody() -> None:
    """Stand in until somebody waits."""
