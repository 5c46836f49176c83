"""What a row of the table is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One guard taken away. ``needs`` is the store without which its tests say nothing."""

    guard: str
    file: str
    old: str
    new: str
    tests: str
    needs: str = ""
