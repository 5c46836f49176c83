"""How much is done: for a test that it runs at all, for a look, and for a record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Counts of runs, and seconds to wait."""

    enqueued_singly: int
    enqueued_in_bulk: int
    drained: int
    picked_up: int
    fenced: int
    remembered: int
    idle_seconds: float
    starts: int
    leases: tuple[float, ...]
    ticks: float
    fire_times: int
    schedules: int
    herd: int
    contended: float
    locks: int


TINY = Sizes(
    enqueued_singly=20,
    enqueued_in_bulk=100,
    drained=200,
    picked_up=5,
    fenced=20,
    remembered=400,
    idle_seconds=1.0,
    starts=1,
    leases=(1.0,),
    ticks=3.0,
    fire_times=1_000,
    schedules=50,
    herd=20,
    contended=1.0,
    locks=20,
)
DEFAULT = Sizes(
    enqueued_singly=2_000,
    enqueued_in_bulk=10_000,
    drained=20_000,
    picked_up=200,
    fenced=2_000,
    remembered=50_000,
    idle_seconds=20.0,
    starts=5,
    leases=(3.0, 12.0),
    ticks=20.0,
    fire_times=50_000,
    schedules=100_000,
    herd=10_000,
    contended=10.0,
    locks=2_000,
)
FULL = Sizes(
    enqueued_singly=5_000,
    enqueued_in_bulk=50_000,
    drained=50_000,
    picked_up=500,
    fenced=10_000,
    remembered=200_000,
    idle_seconds=60.0,
    starts=15,
    leases=(3.0, 12.0),
    ticks=300.0,
    fire_times=500_000,
    schedules=100_000,
    herd=10_000,
    contended=30.0,
    locks=10_000,
)
