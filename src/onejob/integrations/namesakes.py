"""Two schedules of one process that have one name: an oversight, or the end of one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from onejob.core.guarding import Name
from onejob.errors import UsageError
from onejob.runtime.events import log


class Namesakes:
    """Remembers whose name it is. ``alive`` tells whether a schedule is still there."""

    def __init__(self, alive: Callable[[Hashable], bool], advice: str) -> None:
        self._alive, self._advice = alive, advice
        self._lock = threading.Lock()
        self._first: dict[str, Hashable] = {}
        self._said: set[str] = set()

    def check(self, name: Name, schedule: Hashable) -> Name:
        """Return the name. Raises UsageError where another schedule may be meant by it too."""
        with self._lock:
            first = self._first.setdefault(name.text, schedule)
        if first == schedule:
            return name
        if not self._alive(first):
            with self._lock:
                self._first[name.text] = schedule
        elif name.vague:
            raise UsageError(
                f"two schedules can only be called {name.text}, and may differ in what they are "
                f"given. {self._advice}"
            )
        elif name.text not in self._said:
            self._said.add(name.text)
            log.warning("two schedules are both %s: they count as one. %s", name.text, self._advice)
        return name
