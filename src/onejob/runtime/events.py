"""What happens in a replica, as frozen values with stable names.

Logging, metrics and ``onejob worker --json`` listen. Each event carries the ids needed to follow
one run. Names are part of the public surface: ``replica.joined``, ``run.ended``, ``tick.fired`` …
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

log = logging.getLogger("onejob")

#: Refusals are normal; only what a person should look at is louder.
_LEVELS = {
    "replica.lost": logging.WARNING,
    "replica.left": logging.INFO,
    "replica.joined": logging.INFO,
    "run.failed": logging.WARNING,
    "run.retried": logging.INFO,
    "run.unknown": logging.WARNING,
    "run.after_completion": logging.WARNING,
    "run.stale": logging.WARNING,
    "run.parked": logging.WARNING,
    "run.abandoned": logging.WARNING,
    "run.cancelled": logging.INFO,
    "run.late": logging.WARNING,
    "period.lost": logging.WARNING,
    "period.failed": logging.WARNING,
    "period.store_down": logging.WARNING,
    "period.claimed": logging.INFO,
    "period.done": logging.INFO,
    "tick.missed": logging.WARNING,
    "tick.skipped": logging.INFO,
    "schedule.broken": logging.ERROR,
    "schedule.left": logging.INFO,
    "clock.off": logging.WARNING,
    "heartbeat.failed": logging.WARNING,
    "guard.failed": logging.WARNING,
    "guard.lost": logging.WARNING,
    "guard.taken_over": logging.INFO,
    "guard.unknown": logging.WARNING,
    "message.failed": logging.WARNING,
    "message.dead": logging.ERROR,
    "message.trouble": logging.WARNING,
    "message.trimmed": logging.ERROR,
    "request.unknown": logging.WARNING,
    "request.taken_over": logging.WARNING,
    "lock.lost": logging.WARNING,
    "lock.broken": logging.WARNING,
    "store.trouble": logging.WARNING,
    "keeper.late": logging.WARNING,
    "loop.error": logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, with the ids needed to follow it."""

    name: str
    fields: Mapping[str, object]


Listener = Callable[[Event], None]


class Events:
    """Hands events to listeners; a listener that raises is logged and does not stop a loop."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` for every event from now on, in the thread where it happens."""
        self._listeners.append(listener)

    def heard(self, name: str) -> bool:
        """Tell whether anybody would hear of it: worth asking where events are many."""
        return bool(self._listeners) or log.isEnabledFor(_LEVELS.get(name, logging.DEBUG))

    def emit(self, name: str, **fields: object) -> None:
        """Tell log and listeners."""
        level = _LEVELS.get(name, logging.DEBUG)
        if log.isEnabledFor(level):
            log.log(level, "%s %s", name, " ".join(f"{k}={_shown(v)}" for k, v in fields.items()))
        for listener in self._listeners:
            try:
                listener(Event(name, fields))
            except Exception:
                log.exception("a listener failed on %s", name)


def _shown(value: object) -> object:
    """Return a value as a log line may show it: no control characters of a stored text."""
    return value if not isinstance(value, str) or value.isprintable() else repr(value)
