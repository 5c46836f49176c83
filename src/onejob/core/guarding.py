"""Guarding another scheduler: what its schedules and ticks are called, in every process alike.

Each replica runs that scheduler, and each decides for itself what is due. They can only refuse each
other a tick that all of them call by the same name. So a name comes from what the user wrote, never
from what a process made up (ids of APScheduler jobs and of Taskiq schedules are random, addresses
differ), and a fire time from the expression, never from the moment of waking up.

An interval has no fire times in common: each process counts from its own start. There the rule is
a distance: admitted when nearly a whole interval has passed since the last one, by the store's
clock. Rounding to the nearest boundary instead lets the phases of all processes through.
"""

from __future__ import annotations

import datetime as dates
import enum
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from hashlib import sha256
from inspect import isbuiltin, isclass, isfunction, ismethod, ismodule
from typing import Any, Final
from uuid import UUID

from onejob.core.keys import fire_key
from onejob.core.time import DAY, SECOND, Instant, Span

NAME_CHARACTERS: Final = 200
"""Longer names of schedules keep their beginning, and a hash stands for the whole."""

KEEP: Final = Span(2 * DAY)
"""How long the key of a tick is known at the least: a process may have been frozen meanwhile."""

EARLY: Final = Span(30 * SECOND)
"""How far ahead of its fire time a tick may be at the most, where only the match is known."""

_DEPTH_MAX: Final = 10
_RANDOM_ID: Final = re.compile(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}")
_PLAIN: Final = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    Decimal,
    UUID,
    dates.date,
    dates.time,
    dates.timedelta,
    dates.tzinfo,
)


@dataclass(frozen=True, slots=True)
class Name:
    """What a schedule is called. ``vague``: an argument could only be called by its type, so
    another schedule may have the same name and mean something else."""

    text: str
    vague: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """One fire time of a schedule; with ``spacing``, the next one that is far enough from the last.

    ``keep`` is how long its key must stay known; ``late``, how long after its time it is asked for.
    """

    schedule: str
    key: str
    keep: Span
    spacing: Span = Span(0)
    late: Span = Span(0)


def given(library: str, name: str) -> Name:
    """Name a schedule by the id that its user gave it."""
    return Name(_short(f"{library}:{name}"))


def derived(
    library: str,
    function: object,
    trigger: str,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
) -> Name:
    """Name a schedule by what it does and when: function (or its name), trigger, arguments."""
    what = _Writer()
    called = function if isinstance(function, str) else what.write(function)
    arguments = [what.write(value) for value in args]
    arguments += [f"{key}={what.write(value)}" for key, value in sorted((kwargs or {}).items())]
    shown = f"({', '.join(arguments)})" if arguments else ""
    return Name(_short(f"{library}:{called}{shown} {trigger}"), vague=what.vague)


def is_random(id: str) -> bool:
    """Tell whether an id looks like one that a process draws for itself (a version 4 UUID)."""
    return _RANDOM_ID.fullmatch(id.replace("-", "").lower()) is not None


def at(schedule: Name, fire_time: Instant, *, period: Span = Span(0)) -> Tick:
    """Return the tick of one fire time.

    Its key is kept for two periods: a scheduler that comes back with an old memory asks again for
    the last fire time, however long ago that is.
    """
    return Tick(schedule.text, fire_key(schedule.text, fire_time), Span(max(KEEP, 2 * period)))


def every(schedule: Name, interval: Span, *, jitter: Span = Span(0), late: Span = Span(0)) -> Tick:
    """Return the next tick of an interval, in whatever phase its process asks.

    ``jitter`` is by how much all processes alike may count it shorter: a day of 23 hours. What
    each draws for itself is none, or every phase would be let through.
    """
    spacing = Span(max(1, interval - slack(interval) - jitter))
    keep = Span(max(KEEP, 2 * interval))
    return Tick(schedule.text, f"{schedule.text}@every", keep, spacing, late)


def noted_late(tick: Tick, *, since: int, now: int, took: int) -> Span:
    """Return how long after its time the tick was noted that stands ``since`` then.

    The store's clock says ``now`` in an answer that ``took`` so long. 0 where another tick stands
    there: of a phase that came before ours, or so far from it that it can't be the same.
    """
    late = since - (now - took - tick.late)
    return Span(late if 0 < late <= tick.spacing // 2 else 0)


def distance(tick: Tick, *, before: Span) -> Span:
    """Return how far from the last tick as it was noted, ``before`` late, this one may be.

    Both count from when they were meant: a store that was slow for one would refuse the next.
    """
    return Span(min(tick.spacing, tick.spacing - before + tick.late)) if before else tick.spacing


def slack(interval: Span) -> Span:
    """Return by how much an interval may be short: timers are not exact."""
    return Span(min(interval // 20, SECOND))


def early(period: Span) -> Span:
    """Return by how much a process may be ahead of a fire time and still mean it."""
    return Span(min(EARLY, period // 10))


def look_again(*, until: int, now: int, lease: Span, chance: float) -> Span:
    """Return when to ask again for a tick that somebody else holds ``until`` (the store's clock).

    Not before: a holder that lives renews, or is done. A little after, and not all at once.
    """
    return Span(max(0, until - now) + round(lease / 20 * (1 + chance)))


class _Writer:
    """Writes values so that every process writes them alike; notes where it could not."""

    def __init__(self) -> None:
        self.vague = False

    def write(self, value: object, depth: int = 0) -> str:
        if depth > _DEPTH_MAX:
            return self._by_type(value)
        if isinstance(value, enum.Enum):
            return f"{_qualified(type(value))}.{value.name}"
        if isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, Mapping):
            pairs = (
                f"{self.write(k, depth + 1)}: {self.write(v, depth + 1)}" for k, v in value.items()
            )
            return f"{{{', '.join(sorted(pairs))}}}"
        if isinstance(value, Set):
            return f"{{{', '.join(sorted(self.write(v, depth + 1) for v in value))}}}"
        if isinstance(value, list | tuple):
            return f"({', '.join(self.write(v, depth + 1) for v in value)})"
        return self._callable(value, depth)

    def _callable(self, value: Any, depth: int) -> str:
        if isinstance(value, partial):
            parts = [value.func, *value.args, value.keywords]
            return f"partial({', '.join(self.write(v, depth + 1) for v in parts)})"
        owner = getattr(value, "__self__", None)
        if (ismethod(value) or isbuiltin(value)) and not (owner is None or ismodule(owner)):
            whose = _qualified(owner) if isclass(owner) else self._by_type(owner)
            return f"{whose}.{value.__name__}"
        if isfunction(value) or isbuiltin(value) or isclass(value):
            # Two lambdas of a module, or two closures, have one name and may differ.
            self.vague |= "<" in value.__qualname__
            return _qualified(value)
        return self._by_type(value)

    def _by_type(self, value: object) -> str:
        self.vague = True
        return f"<{_qualified(type(value))}>"


def _qualified(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _short(name: str) -> str:
    """Return a name that every store can keep and a person can read, distinct as the given one."""
    clean = "".join(c if c.isprintable() else "\ufffd" for c in name).strip()
    if clean == name and len(name) <= NAME_CHARACTERS and len(name.encode()) <= 2 * NAME_CHARACTERS:
        return name
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return f"{clean[: NAME_CHARACTERS // 2]} ~{digest}"
