"""Effects outside the database: claimed before the call, recorded after it, never guessed.

Between "the provider did it" and "we wrote that down" a process can die. What is left then is an
entry that was claimed and never recorded: its outcome is *unknown*, and only three things may
settle it: the provider's own idempotency (``repeat``), asking the provider (a resolver), or a
person. :func:`answer` decides which, given what the ledger has.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from onejob.core.run import RunId, Token
from onejob.core.time import Span


class EntryState(StrEnum):
    """Where an effect stands in the ledger."""

    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Entry:
    """An effect as the ledger has it, and the store's clock when it was read.

    ``claimed`` is when it was claimed first; ``attempt`` counts the claims. ``owner`` names the
    attempt (or process) of the latest claim, ``claim_until`` when that claim lapses (0: when the
    attempt does).
    """

    scope: str
    key: str
    state: EntryState
    token: Token
    owner: str
    run_id: RunId
    claimed: int
    claim_until: int
    fingerprint: str
    result: str | None
    error: str | None
    attempt: int
    now: int

    @property
    def age(self) -> Span:
        """How long ago it was claimed first, by the store's clock."""
        return Span(max(0, self.now - self.claimed))


class IfUnknown(StrEnum):
    """What to do when nobody knows whether an effect happened."""

    RAISE = "raise"
    REPEAT = "repeat"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Policy:
    """How an unknown outcome is settled.

    ``provider_keeps`` is how long the provider remembers idempotency keys: within that time from
    the first claim, repeating with the same key is harmless.
    """

    if_unknown: IfUnknown = IfUnknown.RAISE
    provider_keeps: Span = Span(0)


@dataclass(frozen=True, slots=True)
class Replay:
    """It happened before: return the recorded result, call nobody."""

    result: str | None


@dataclass(frozen=True, slots=True)
class RaiseFailed:
    """The provider refused it for good: say so again, call nobody."""

    error: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The same key with other content: refuse, call nobody, return nothing stored."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody who is still entitled to it is calling right now."""

    age: Span


@dataclass(frozen=True, slots=True)
class Repeat:
    """Take the entry over and call again with the same provider key."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the caller's resolver what the provider says."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Leave it unknown, visible, until a person says."""

    why: str


Answer = Replay | RaiseFailed | Mismatch | Busy | Repeat | Ask | Unknown


def claimant(attempt: str, call: str) -> str:
    """Return the owner under which one call of an attempt claims: each call has a name of its own.

    Whoever finds that very name in the ledger after a lost reply knows that the claim is its own.
    """
    return f"{attempt}/{call}"


def attempt_of(owner: str) -> str:
    """Return the attempt (``replica/token``) that an owner belongs to."""
    return owner.rpartition("/")[0]


def answer(entry: Entry, policy: Policy, *, owner: str, fingerprint: str) -> Answer:
    """Decide what a caller who finds ``entry`` in its way does.

    Content is compared before anything else, "in progress" included: another payload must never be
    told to wait for, or be given, somebody else's result.
    """
    if entry.fingerprint and fingerprint and entry.fingerprint != fingerprint:
        return Mismatch()
    match entry.state:
        case EntryState.DONE:
            return Replay(entry.result)
        case EntryState.FAILED:
            return RaiseFailed(entry.error or "refused by the provider")
        case EntryState.CLAIMED if _entitled(entry, owner):
            return Busy(entry.age)
        case EntryState.CLAIMED:
            return _settle(entry, policy, "its caller died, or lost its lease, during the call")
        case EntryState.UNKNOWN:
            return _settle(entry, policy, entry.error or "the call ended without a clear answer")


def _entitled(entry: Entry, owner: str) -> bool:
    """Tell whether the latest claimer may still be calling.

    An attempt's claims end with the attempt: whoever runs now under another owner has superseded
    it. A claim outside a run ends at its stated time.
    """
    if entry.claim_until:
        return entry.claim_until > entry.now
    return attempt_of(entry.owner) == attempt_of(owner)


def _settle(entry: Entry, policy: Policy, why: str) -> Answer:
    match policy.if_unknown:
        case IfUnknown.RAISE:
            return Unknown(why)
        case IfUnknown.ASK:
            return Ask()
        case IfUnknown.REPEAT if entry.age < policy.provider_keeps:
            return Repeat()
        case IfUnknown.REPEAT:
            return Unknown(f"{why}, longer ago than the provider remembers its keys")
