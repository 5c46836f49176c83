"""Commands that run under onejob: ``onejob once NAME --per day -- CMD``, and what that is worth."""

from __future__ import annotations

from collections.abc import Sequence

from onejob.scan.command import Started
from onejob.scan.facts import Guard
from onejob.scan.finding import Verdict

#: The weakest of several is what they are worth together.
_OURS = (Verdict.INERT_GUARD, Verdict.NO_OVERLAP, Verdict.GUARDED)
_IDLE = (":", "sleep", "wait", "onejob")


def guarded_by_us(found: Sequence[Started], line: int) -> Guard | None:
    """Return the guard that onejob is before a command; None where something runs without it."""
    rest = [each for each in found if each.program not in _IDLE]
    ours = [each for each in rest if each.program.startswith("onejob ") and each.verdict in _OURS]
    if not ours or len(ours) < len(rest):
        return None
    least = min(ours, key=lambda each: _OURS.index(each.verdict))
    return Guard(least.program, least.verdict, line + least.offset, least.why)
