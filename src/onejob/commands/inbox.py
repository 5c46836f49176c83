"""The inbox: which messages have been handled, are being handled, and how often they came back.

A message that is handled in the caller's transaction is one row, ``done`` at once
(:func:`onejob.commands.ledger.first` with the kind ``inbox``). One that is handled outside is
claimed first, under a token, and recorded under it. How often a message was begun is counted in a
row of its own (kind ``delivery``), so that the count outlives whatever became of the attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from onejob.commands.command import Command, Parameters, Row, found, one_int
from onejob.commands.ledger import NewEntry
from onejob.core.effect import Entry, EntryState
from onejob.core.run import RunId, Token


def claim(entry: NewEntry, *, now: int | None = None) -> Command[Token | None]:
    """Claim a message until ``claim_for`` has passed. None: an entry exists, see :func:`read`."""
    return Command("inbox_claim", {**asdict(entry), "now": now}, _token)


def take_over(entry: NewEntry, *, held: Token, now: int | None = None) -> Command[Token | None]:
    """Take over a message whose claim ``held`` has lapsed, or that is unknown, under a new token.

    None: it changed meanwhile; read again.
    """
    parameters: Parameters = {
        "scope": entry.scope,
        "key": entry.key,
        "owner": entry.owner,
        "claim_for": entry.claim_for,
        "held": held,
        "now": now,
    }
    return Command("inbox_take_over", parameters, _token)


def record(
    scope: str,
    key: str,
    *,
    token: Token,
    state: EntryState,
    result: str | None,
    error: str | None = None,
    keep: int,
    now: int | None = None,
) -> Command[bool]:
    """Record what became of a message, under its claim's own token. False: somebody took over."""
    parameters: Parameters = {
        "scope": scope,
        "key": key,
        "token": token,
        "state": state.value,
        "result": result,
        "error": error,
        "keep": keep,
        "now": now,
    }
    return Command("inbox_record", parameters, found, repeatable=True)


def give_back(scope: str, key: str, *, token: Token, now: int | None = None) -> Command[bool]:
    """Remove a claim, so that the next delivery is new. False: somebody took over, or it is done.

    Only under the claim's own token.
    """
    parameters: Parameters = {"scope": scope, "key": key, "token": token, "now": now}
    return Command("inbox_give_back", parameters, found, repeatable=True)


def read(scope: str, key: str, *, now: int | None = None) -> Command[Entry | None]:
    """Read what is known of a message."""
    parameters: Parameters = {"scope": scope, "key": key, "now": now}
    return Command("inbox_read", parameters, _entry, writes=False, repeatable=True)


def unsettled(scope: str, *, limit: int, now: int | None = None) -> Command[tuple[Entry, ...]]:
    """Read messages that are unknown, and claims that have lapsed, oldest first."""
    parameters: Parameters = {"scope": scope, "limit": limit, "now": now}
    return Command("inbox_unsettled", parameters, _entries, writes=False, repeatable=True)


def begun(scope: str, key: str, *, least: int, keep: int, now: int | None = None) -> Command[int]:
    """Count one more beginning of a message; answers how many there were, ``least`` at the least.

    ``least`` is 2 for a message that the broker says it has delivered before.
    """
    parameters: Parameters = {"scope": scope, "key": key, "least": least, "keep": keep, "now": now}
    return Command("inbox_begun", parameters, one_int)


def _token(rows: Sequence[Row]) -> Token | None:
    return Token(rows[0][0]) if rows else None


def _entry(rows: Sequence[Row]) -> Entry | None:
    entries = _entries(rows)
    return entries[0] if entries else None


def _entries(rows: Sequence[Row]) -> tuple[Entry, ...]:
    return tuple(
        Entry(scope, key, EntryState(state), Token(token), owner, RunId(0), *rest)
        for scope, key, state, token, owner, *rest in rows
    )
