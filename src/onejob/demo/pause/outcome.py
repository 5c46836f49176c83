"""What a way came to: who held the lock when, and which writes landed. No I/O here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from onejob.demo.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Holding:
    """From when to when a process held the lock by what the store said, in seconds of the act."""

    who: str
    token: int | None
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Written:
    """One write. ``late``: by a process that had been overtaken. ``why`` it did not land."""

    who: str
    at: float
    token: int | None
    landed: bool
    late: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class PauseResult:
    """One way's figures. ``trouble`` says why it did not come to its end."""

    name: str
    store: str
    stall: str
    ttl: float
    pause: float
    holders: Sequence[Holding]
    writes: Sequence[Written]
    seconds: float
    timeline: Timeline
    freed_another: bool = False
    trouble: str = ""

    @property
    def landed(self) -> int:
        """Return how many writes landed."""
        return sum(1 for write in self.writes if write.landed)

    @property
    def late(self) -> int:
        """Return how many writes landed of a process that had been overtaken."""
        return sum(1 for write in self.writes if write.landed and write.late)

    @property
    def safe(self) -> bool:
        """Tell whether one write landed, nobody's twice and nobody's too late."""
        return self.landed == 1 and not self.late and not self.freed_another and not self.trouble

    def as_json(self) -> dict[str, object]:
        """Return the figures as ``--json`` prints them."""
        figures = asdict(self)
        del figures["timeline"]
        if not self.trouble:
            del figures["trouble"]
        for name in ("holders", "writes"):
            figures[name] = [_rounded(one) for one in figures[name]]
        figures["seconds"] = round(self.seconds, 1)
        return {**figures, "landed": self.landed, "late": self.late, "safe": self.safe}


#: The ways that we answer for.
OURS = ("lease-fenced", "lease-ledger")


def held(results: Sequence[PauseResult]) -> bool:
    """Tell whether the ways that we answer for let one write land, and no late one."""
    return all(result.safe for result in results if result.name in OURS)


def verdict(results: Sequence[PauseResult]) -> str:
    """Say in a sentence or two what the exercise showed."""
    ours = [result for result in results if result.name in OURS]
    others = [result for result in results if result.name not in OURS]
    for result in ours:
        if result.trouble:
            return f"{result.name} did not come to its end: {result.trouble}."
        if not result.safe:
            return (
                f"{result.name} let {result.landed} writes land: that is a bug, please report it."
            )
    harmed = [result.name for result in others if not result.safe]
    return (
        f"A pause of {ours[0].pause:g} s in a lease of {ours[0].ttl:g} s: two processes believed "
        f"that they hold the lock, every time. Harm was done with {', '.join(harmed) or 'none'}. "
        "With fencing the late write was refused; with the ledger it was a duplicate, and harmless."
    )


def _rounded(one: dict[str, object]) -> dict[str, object]:
    return {
        name: round(value, 3) if isinstance(value, float) else value for name, value in one.items()
    }
