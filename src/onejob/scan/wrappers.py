"""Schedulers of the house's own: calls of a wrapper are the triggers, wherever they stand.

A wrapper that nobody seems to call stays one trigger, at the place where it starts its timer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from onejob.scan.facts import Fact, Guard, Trigger, Use, Wrapper
from onejob.scan.finding import Related, Verdict
from onejob.scan.purposes import own_purpose

#: A name that is called more often than this is a word, not a scheduler.
USES_MAX = 400


def unwrapped(facts: Sequence[Fact]) -> list[Trigger]:
    """Return the triggers that calls of wrappers are, and the wrappers' own where nobody calls."""
    uses: dict[str, list[Use]] = defaultdict(list)
    wrappers: list[Wrapper] = []
    for fact in facts:
        if isinstance(fact, Use):
            uses[fact.name].append(fact)
        elif isinstance(fact, Wrapper):
            wrappers.append(fact)
    found: dict[tuple[str, int], Trigger] = {}
    for wrapper in wrappers:
        named = [*uses[wrapper.name], *uses[wrapper.name.lstrip("_")]]
        calls = [use for use in dict.fromkeys(named) if _outside(use, wrapper)]
        if not calls or len(calls) > USES_MAX:
            found.setdefault((wrapper.trigger.path, wrapper.trigger.line), wrapper.trigger)
            continue
        place = Related(wrapper.path, wrapper.trigger.line, "starts it")
        for use in calls:
            found.setdefault(
                (use.path, use.line),
                replace(
                    wrapper.trigger,
                    path=use.path,
                    line=use.line,
                    name=use.label,
                    schedule=use.schedule or _fixed(wrapper.trigger.schedule),
                    target=use.target,
                    marks=(),
                    guards=(*wrapper.trigger.guards, *_own(use)),
                    confidence="medium",
                    related=(place,),
                ),
            )
    taken = {(fact.path, fact.line) for fact in facts if isinstance(fact, Trigger)}
    return [trigger for place, trigger in found.items() if place not in taken]


def _fixed(schedule: str) -> str:
    """What a wrapper computes from its own parameters says nothing about one call of it."""
    return "" if schedule.startswith("from ") else schedule


def _own(use: Use) -> tuple[Guard, ...]:
    name = own_purpose((use.label, use.target), ())
    if not name:
        return ()
    return (Guard(name, Verdict.PER_PROCESS_OK, use.line, "serves its own process"),)


def _outside(use: Use, wrapper: Wrapper) -> bool:
    return use.path != wrapper.path or not (wrapper.line <= use.line <= wrapper.trigger.line)
