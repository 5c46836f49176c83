"""What processes and handlers note of themselves, besides what the store sees."""

from __future__ import annotations

from collections import Counter

from onejob.prove.history import Begun, Died, History, Waited
from onejob.prove.virtual import VirtualLoop
from onejob.runtime.events import Event


class Diary:
    """Adds to a history, and counts the events that replicas emit."""

    def __init__(self, loop: VirtualLoop, history: History) -> None:
        self._loop, self._history = loop, history
        self.events: Counter[str] = Counter()

    def event(self, event: Event) -> None:
        """Count an event of a replica."""
        self.events[event.name] += 1

    def died(self, process: str) -> None:
        """Note that a process has crashed."""
        self._history.add(Died(self._loop.micros, process))

    def begun(self, run: int, token: int) -> None:
        """Note that a handler was called."""
        self._history.add(Begun(self._loop.micros, run, token))

    def waited(self, run: int, token: int) -> None:
        """Note that an attempt was told to wait for its run's own effect."""
        self._history.add(Waited(self._loop.micros, run, token))
