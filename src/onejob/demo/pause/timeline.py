"""Draw up one way's timeline: who lived, stood still and held, and which writes landed. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from onejob.demo.pause.outcome import Holding
from onejob.demo.processes import Mark
from onejob.demo.timeline import Bar, Lane, Timeline

SHOWN = ("freeze", "thaw", "landed", "refused")


def drawn(
    marks: Mapping[str, Sequence[Mark]],
    holders: Sequence[Holding],
    *,
    began: float,
    ended: float,
) -> Timeline:
    """Return one lane for each process. Marks are in monotonic seconds, holdings in the act's."""
    lanes = []
    for name, all_marks in marks.items():
        of = sorted(all_marks, key=lambda mark: mark.at)
        bars = [Bar("alive", 0.0, ended - began)]
        still = [mark for mark in of if mark.what in ("freeze", "thaw")]
        bars += [
            Bar("frozen", mark.at - began, following.at - began)
            for mark, following in pairwise(still)
            if mark.what == "freeze"
        ]
        bars += [Bar("held", held.since, held.until) for held in holders if held.who == name]
        shown = [Mark(mark.at - began, mark.what) for mark in of if mark.what in SHOWN]
        lanes.append(Lane(name, tuple(bars), tuple(shown)))
    return Timeline(ended - began, tuple(lanes))
