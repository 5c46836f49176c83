"""What an act came to, and the sentence about all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from onejob.demo.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Result:
    """One act's figures. ``emails`` were delivered; ``asked`` counts requests, replays included.

    ``trouble`` says why an act did not come to its end, "" where it did.
    """

    name: str
    replicas: int
    customers: int
    emails: int
    asked: int
    duplicates: int
    missing: int
    kills: int
    pauses: int
    seconds: float
    timeline: Timeline
    trouble: str = ""

    @property
    def once(self) -> bool:
        """Tell whether each customer got exactly one email."""
        return not (self.duplicates or self.missing or self.trouble)

    def as_json(self) -> dict[str, object]:
        """Return the figures as ``--json`` prints them."""
        figures: dict[str, object] = {
            "name": self.name,
            "replicas": self.replicas,
            "customers": self.customers,
            "emails": self.emails,
            "asked": self.asked,
            "duplicates": self.duplicates,
            "missing": self.missing,
            "kills": self.kills,
            "pauses": self.pauses,
            "seconds": round(self.seconds, 1),
        }
        return {**figures, "trouble": self.trouble} if self.trouble else figures


def counted(delivered: Counter[int], customers: int) -> tuple[int, int, int]:
    """Return emails delivered, duplicates among them, and customers who got none."""
    emails = delivered.total()
    missing = sum(1 for customer in range(customers) if not delivered[customer])
    return emails, emails - (customers - missing), missing


def verdict(results: Sequence[Result]) -> str:
    """Say in one sentence what the acts showed."""
    ours = next(result for result in results if result.name == "onejob")
    others = sum(result.duplicates for result in results if result.name != "onejob")
    faults = _faults(ours)
    if ours.trouble:
        return f"onejob did not come to its end: {ours.trouble}."
    if not ours.once:
        return (
            f"onejob sent {ours.duplicates} duplicates and missed {ours.missing} of "
            f"{ours.customers} customers{faults}: that is a bug, please report it with the seed."
        )
    return (
        f"onejob: each of {ours.customers} customers got exactly one email{faults}; "
        f"the other ways sent {others} duplicates."
    )


def _faults(result: Result) -> str:
    words = []
    if result.kills:
        words.append(_counted(result.kills, "replica") + " killed")
    if result.pauses:
        words.append(f"{result.pauses} frozen past its lease")
    return f", with {' and '.join(words)}" if words else ""


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
