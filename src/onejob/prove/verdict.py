"""What a checker says of a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from onejob.prove.history import History


class Standing(IntEnum):
    """How a promise stands; of two, the worse one counts."""

    VALID = 0
    UNKNOWN = 1
    VIOLATED = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """One promise over one history: what stands against it, each with its time."""

    promise: str
    standing: Standing
    why: str = ""
    at: int = 0


Checker: TypeAlias = Callable[[History], Verdict]


def valid(promise: str) -> Verdict:
    """Say that nothing speaks against it."""
    return Verdict(promise, Standing.VALID)


def violated(promise: str, why: str, at: int) -> Verdict:
    """Say what broke it, and when."""
    return Verdict(promise, Standing.VIOLATED, why, at)


def first(promise: str, found: Iterable[tuple[str, int]]) -> Verdict:
    """Return the first violation found, or that there is none."""
    for why, at in found:
        return violated(promise, why, at)
    return valid(promise)


def judged(checkers: Iterable[tuple[str, Checker]], history: History) -> tuple[Verdict, ...]:
    """Ask each checker; one that fails itself has found nothing out."""
    verdicts = []
    for promise, check in checkers:
        try:
            verdicts.append(check(history))
        except Exception as error:  # noqa: BLE001 - a broken checker is "unknown", never "valid"
            why = f"the checker failed: {type(error).__name__}: {error}"
            verdicts.append(Verdict(promise, Standing.UNKNOWN, why))
    return tuple(verdicts)
