"""Claims outside runs: who may do the work of one period, or fire one tick, and who has done it.

A row of the ledger is one (kind, scope, key): the kind ``period`` for ``once_per`` and
``onejob once``, the kind ``schedule`` for the ticks of a guarded scheduler. Its life::

    (nothing) ──take──▶ claimed ──mark──▶ firing ──end──▶ done | failed   (kept, then purged)
                 ▲        │  │ lapsed       │  │
                 │        │  └──▶ taken over by the next who asks, under a fresh token
                 └─ free ◀┴────release──────┘  └ lapsed: unknown, taken over only where told to

To take is to insert, in one statement with the answer: nobody looks first and writes afterwards.
Everything later carries (token, owner), and finds no row once somebody else has taken over.
A row that was given back stays, free, so that its next token is drawn under its lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final, Literal, TypeAlias

from onejob.commands.command import Command, Parameters, Row, as_json, found
from onejob.core.run import Token

PERIOD: Final = "period"
"""What ``once_per`` and ``onejob once`` claim."""

TICK: Final = "schedule"
"""What a guarded scheduler claims."""

ClaimState: TypeAlias = Literal["free", "claimed", "firing", "done", "failed"]


@dataclass(frozen=True, slots=True)
class LedgerClaim:
    """What a holder shows with each later command: the row, and (token, owner)."""

    kind: str
    scope: str
    key: str
    token: Token
    owner: str


@dataclass(frozen=True, slots=True)
class Won:
    """It is ours until ``until``. ``attempt`` above 1: it was given back, or its holder lapsed."""

    claim: LedgerClaim
    attempt: int
    since: int
    until: int
    now: int


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody holds it: ask again after ``until`` (0: never lapses, it is the key of a run)."""

    owner: str
    token: Token
    state: ClaimState
    since: int
    until: int
    now: int


@dataclass(frozen=True, slots=True)
class Unsure:
    """Its holder had begun to fire, and lapsed: whether it did fire is unknown."""

    owner: str
    token: Token
    since: int
    until: int
    now: int


@dataclass(frozen=True, slots=True)
class Finished:
    """It has been done (or has failed, and was to count all the same)."""

    owner: str
    token: Token
    state: ClaimState
    since: int
    ended: int
    now: int


Taken: TypeAlias = Won | Busy | Unsure | Finished


@dataclass(frozen=True, slots=True)
class ClaimView:
    """One row as it stands. ``until`` is when the claim lapses, or when it ended."""

    kind: str
    scope: str
    key: str
    state: ClaimState
    token: Token
    owner: str
    attempt: int
    since: int
    until: int
    error: str | None
    now: int

    @property
    def lapsed(self) -> bool:
        """Tell whether its holder has let it lapse without a word."""
        return self.state in ("claimed", "firing") and 0 < self.until <= self.now


def take(
    kind: str,
    scope: str,
    key: str,
    *,
    owner: str,
    lease: int,
    keep: int,
    spacing: int = 0,
    even_if_unsure: bool = False,
    tell: bool = True,
    now: int | None = None,
) -> Command[Taken]:
    """Claim (kind, scope, key) for ``lease``, or learn who has it.

    ``owner`` names this very claim, and is fresh for each: asking again under it gives the same
    answer. A claim that lapsed is taken over; one that had begun to fire only with
    ``even_if_unsure``. An abandoned row is kept for ``keep`` after it lapsed.

    With ``spacing``, one row stands for all ticks of a name: it is admitted again once that much
    time has passed since the tick it was last admitted for, whatever became of that one; within
    it, whoever takes over a lapsed or released claim does the same tick, and moves nothing.

    The loser of a first question is recorded for ``why``; say ``tell=False`` when asking again.
    """
    parameters: Parameters = {
        "kind": kind,
        "scope": scope,
        "key": key,
        "owner": owner,
        "lease": lease,
        "keep": keep,
        "spacing": spacing,
        "even_if_unsure": int(even_if_unsure),
        "tell": int(tell),
        "now": now,
    }
    decode = partial(_taken, kind, scope, key, owner)
    return Command("claim_take", parameters, decode, repeatable=True)


def mark(claim: LedgerClaim, *, lease: int, now: int | None = None) -> Command[bool]:
    """Say that it is about to fire, and renew the claim for ``lease``. False: it is not ours."""
    parameters: Parameters = {**asdict(claim), "lease": lease, "now": now}
    return Command("claim_mark", parameters, found, repeatable=True)


def end(
    claim: LedgerClaim,
    *,
    keep: int,
    state: Literal["done", "failed"] = "done",
    error: str | None = None,
    now: int | None = None,
) -> Command[bool]:
    """Record that it was done, and keep it for ``keep``. False: somebody has taken it over."""
    parameters: Parameters = {
        **asdict(claim),
        "keep": keep,
        "state": state,
        "error": error,
        "now": now,
    }
    return Command("claim_end", parameters, found, repeatable=True)


def release(
    claim: LedgerClaim, *, keep: int, error: str | None = None, now: int | None = None
) -> Command[bool]:
    """Give it back: whoever asks next has it, under a later token. False: it is not ours.

    ``error`` says why it was not done. The free row is kept for ``keep``.
    """
    parameters: Parameters = {**asdict(claim), "keep": keep, "error": error, "now": now}
    return Command("claim_release", parameters, found, repeatable=True)


def renew(
    claims: Iterable[tuple[LedgerClaim, int]], *, now: int | None = None
) -> Command[frozenset[str]]:
    """Renew each claim for its lease, in one statement; return the owners that still hold."""
    batch = [{**asdict(claim), "lease": lease} for claim, lease in claims]
    return Command("claim_renew", {"batch": as_json(batch), "now": now}, _owners, repeatable=True)


def read(
    kind: str, scope: str, keys: Sequence[str], *, now: int | None = None
) -> Command[tuple[ClaimView, ...]]:
    """Read rows of a scope by key; unknown keys are absent."""
    parameters: Parameters = {
        "kind": kind,
        "scope": scope,
        "keys": as_json(list(keys)),
        "now": now,
    }
    return Command("claim_read", parameters, _views, writes=False, repeatable=True)


def listed(
    kind: str, *, scope: str = "", lapsed: bool = False, limit: int = 50, now: int | None = None
) -> Command[tuple[ClaimView, ...]]:
    """Read rows of a kind, the latest claims first; ``scope`` "" means any.

    With ``lapsed``, only those whose holder let them lapse: abandoned, or unknown.
    """
    parameters: Parameters = {
        "kind": kind,
        "scope": scope,
        "lapsed": int(lapsed),
        "limit": limit,
        "now": now,
    }
    return Command("claim_listed", parameters, _views, writes=False, repeatable=True)


def _taken(kind: str, scope: str, key: str, asked_by: str, rows: Sequence[Row]) -> Taken:
    [(won, state, token, owner, attempt, since, until, now)] = rows
    if won or (owner == asked_by and state == "claimed"):
        claim = LedgerClaim(kind, scope, key, Token(token), owner)
        return Won(claim, attempt, since, until, now)
    if state in ("done", "failed"):
        return Finished(owner, Token(token), state, since, until, now)
    if state == "firing" and until <= now:
        return Unsure(owner, Token(token), since, until, now)
    return Busy(owner, Token(token), state, since, until, now)


def _owners(rows: Sequence[Row]) -> frozenset[str]:
    return frozenset(row[0] for row in rows)


def _views(rows: Sequence[Row]) -> tuple[ClaimView, ...]:
    return tuple(
        ClaimView(kind, scope, key, state, Token(token), owner, attempt, since, until, error, now)
        for kind, scope, key, state, token, owner, attempt, since, until, error, now in rows
    )
