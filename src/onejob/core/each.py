"""One effect for each of many items: what a page of them comes to, and how the run then ends.

An item that cannot be done is *set aside*: it stands in nobody's way, and the run's end says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from onejob.core import effect as rules
from onejob.core.effect import Entry, Policy

#: Items that are read, and held, at once.
PAGE: Final = 500
#: Set-aside items that a result names; all of them are counted.
NAMED_MAX: Final = 100

Why: TypeAlias = Literal["error", "failed", "unknown", "in progress", "key reused"]


@dataclass(frozen=True, slots=True)
class SetAside:
    """An item that was not done.

    ``state`` is "error" (its call failed, nothing happened, and it may be called again), "failed"
    (refused for good), "unknown" (it may have happened), "in progress" or "key reused".
    """

    key: str
    state: Why
    why: str


@dataclass(frozen=True, slots=True)
class EachResult:
    """What became of the items: how many were done now, skipped as done before, set aside, unknown.

    ``set_aside`` counts those that certainly did not happen, ``unknown`` those that may have, and
    ``repeatable`` how many of the latter the effect's own policy will settle. ``items`` names the
    first hundred of both.
    """

    done: int = 0
    skipped: int = 0
    set_aside: int = 0
    unknown: int = 0
    repeatable: int = 0
    items: tuple[SetAside, ...] = ()
    scope: str = field(default="", repr=False)

    @property
    def seen(self) -> int:
        """Return how many items there were."""
        return self.done + self.skipped + self.set_aside + self.unknown

    def __str__(self) -> str:
        """Say it in a line, with the first items by their keys."""
        text = f"{self.set_aside:,} of {self.seen:,} items set aside, {self.unknown:,} unknown"
        named = "; ".join(f"{one.key}: {one.state}, {one.why}" for one in self.items[:5])
        return f"{text}: {named}" if named else text


@dataclass(frozen=True, slots=True)
class Fresh:
    """Nobody has claimed it: claim it, and call."""


@dataclass(frozen=True, slots=True)
class Skip:
    """It was done before."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Its outcome is unknown, and the policy may settle it: repeat, or ask."""


Sorted: TypeAlias = Fresh | Skip | Settle | SetAside


def sort(key: str, entry: Entry | None, policy: Policy, *, owner: str, fingerprint: str) -> Sorted:
    """Decide what an item comes to, given what the ledger has under its key."""
    if entry is None:
        return Fresh()
    match rules.answer(entry, policy, owner=owner, fingerprint=fingerprint):
        case rules.Replay():
            return Skip()
        case rules.RaiseFailed(error):
            return SetAside(key, "failed", error)
        case rules.Mismatch():
            return SetAside(key, "key reused", "this key was used before with other content")
        case rules.Busy():
            return SetAside(key, "in progress", "this attempt has called it already")
        case rules.Unknown(why):
            return SetAside(key, "unknown", why)
        case rules.Repeat() | rules.Ask():
            return Settle()


def room(*, concurrency: int, outstanding: int, ended_meanwhile: int) -> int:
    """Decide how many items to claim now, while ``outstanding`` are claimed and not recorded.

    As many as can be called at once; and, where calls end faster than the store answers, as many
    more as ended during its last answer, or their places would stand empty during the next one. A
    death thus leaves at most twice ``concurrency`` of them unknown, and no item waits for long
    between its claim and its call.
    """
    return max(0, concurrency + min(concurrency, ended_meanwhile) - outstanding)


@dataclass(frozen=True, slots=True)
class WaitForWord:
    """The run waits in state unknown: a person must say what became of ``scope``/``key``."""

    scope: str
    key: str
    why: str


@dataclass(frozen=True, slots=True)
class ComeBack:
    """The run's retry policy decides: its next attempt may settle what is unknown."""

    why: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The run ends as failed; ``onejob runs retry`` calls what was set aside again."""

    why: str


def ending(results: list[EachResult]) -> WaitForWord | ComeBack | Fail | None:
    """Decide how a run ends whose handler returned and whose loops set items aside; None: well."""
    why = "; ".join(str(result) for result in results if result.set_aside or result.unknown)
    for result in results:
        if result.unknown > result.repeatable:
            first = next((one for one in result.items if one.state == "unknown"), None)
            return WaitForWord(result.scope, first.key if first else "", why)
    if any(result.repeatable for result in results):
        return ComeBack(why)
    return Fail(why) if why else None
