"""Run entries round after round, so that what disturbs the machine disturbs all of them alike.

Every measurement is made anew in each round. An entry that fails in one round keeps its figures of
the others and says why it failed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from subprocess import TimeoutExpired

#: What one measurement found, by column; a figure that could not be had is left out.
Figures = Mapping[str, float]


class Failed(Exception):
    """A measurement could not be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of a table. ``target`` is what we hold ourselves to, in words."""

    key: str
    head: str
    digits: int = 0
    target: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a table: something that is measured once a round."""

    label: str
    measure: Callable[[], Figures]
    ours: bool = True


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that is not measured here, and why."""

    label: str
    why: str


@dataclass(frozen=True, slots=True)
class Table:
    """What a benchmark will measure. Others' first column is also shown relative to ``against``."""

    columns: Sequence[Column]
    entries: Sequence[Entry | Skipped]
    against: str = ""


@dataclass(slots=True)
class Measured:
    """The rounds of one entry."""

    label: str
    ours: bool
    rounds: list[Figures] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def values(self, key: str) -> list[float]:
        """Return a column's figures, one for each round that has it."""
        return [figures[key] for figures in self.rounds if key in figures]

    def median(self, key: str) -> float | None:
        """Return the median over the rounds; None where no round has it."""
        values = self.values(key)
        return statistics.median(values) if values else None


def run(table: Table, rounds: int, tell: Callable[[str], None]) -> list[Measured]:
    """Measure every entry ``rounds`` times, interleaved; ``tell`` hears of progress."""
    entries = [entry for entry in table.entries if isinstance(entry, Entry)]
    measured = [Measured(entry.label, entry.ours) for entry in entries]
    first = table.columns[0]
    for number in range(1, rounds + 1):
        for entry, result in zip(entries, measured, strict=True):
            try:
                figures = entry.measure()
            except (Failed, TimeoutExpired) as failure:
                result.failures.append(str(failure))
                tell(f"  round {number}/{rounds}  {entry.label}: failed: {failure}")
            else:
                result.rounds.append(figures)
                shown = figures.get(first.key, float("nan"))
                tell(f"  round {number}/{rounds}  {entry.label}: {shown:,.{first.digits}f}")
    return measured
