"""What a replica is told when its process is started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One replica's part in an act: which act, under which name, and where everything is."""

    act: str
    replica: str
    customers: int
    provider: str
    store: str
    schema: str
