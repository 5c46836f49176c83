"""Who held what when: one lane for each replica, from what was seen in an act. No I/O here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from onejob.demo.processes import Mark
from onejob.demo.provider import Asked
from onejob.demo.stage import Hold

#: Mails of one replica no further apart than this are one bar.
GAP_SECONDS = 0.15


@dataclass(frozen=True, slots=True)
class Bar:
    """A span in an act, in seconds since its beginning. ``what``: alive, held, sent or frozen."""

    what: str
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Lane:
    """One replica's share. ``marks`` are kills, freezes and thaws."""

    name: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """All lanes of one act, which lasted ``seconds``."""

    seconds: float
    lanes: tuple[Lane, ...]


def timeline(
    marks: Sequence[tuple[str, Sequence[Mark]]],
    requests: Iterable[Asked],
    holds: Iterable[Hold],
    *,
    began: float,
    ended: float,
) -> Timeline:
    """Draw up the timeline. ``marks`` has a name and its marks for each process, in start order."""
    requests, holds = list(requests), list(holds)
    lanes = []
    for name in dict.fromkeys(name for name, _ in marks):
        processes = [list(of) for other, of in marks if other == name]
        bars = [bar for of in processes for bar in _life(of, ended)]
        bars += [Bar("held", hold.since, hold.until) for hold in holds if hold.replica == name]
        bars += _sending([asked.at for asked in requests if asked.replica == name])
        told = [mark for of in processes for mark in of if mark.what in ("kill", "freeze", "thaw")]
        lanes.append(
            Lane(
                name,
                tuple(Bar(bar.what, bar.since - began, bar.until - began) for bar in bars),
                tuple(Mark(mark.at - began, mark.what) for mark in told),
            )
        )
    return Timeline(ended - began, tuple(lanes))


def _life(marks: Sequence[Mark], ended: float) -> list[Bar]:
    """Return when a process lived, and when it stood still."""
    bars = []
    if marks:
        last = marks[-1]
        bars.append(Bar("alive", marks[0].at, last.at if last.what in ("kill", "end") else ended))
    for mark, following in pairwise(marks):
        if mark.what == "freeze":
            bars.append(Bar("frozen", mark.at, following.at))
    return bars


def _sending(times: Sequence[float]) -> list[Bar]:
    """Join mails that follow each other closely."""
    bars: list[Bar] = []
    for at in times:
        if bars and at - bars[-1].until <= GAP_SECONDS:
            bars[-1] = Bar("sent", bars[-1].since, at)
        else:
            bars.append(Bar("sent", at, at))
    return bars
