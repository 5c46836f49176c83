"""The ledger: what has taken effect, or may have, by unique key.

A row is inserted before anything else happens; the unique key makes the second insert an ordinary
"already there". Each entry carries the token of whoever claimed it last, and an outcome is
recorded only under that token: accepted from a superseded attempt too (it knows the truth), never
after somebody has reclaimed it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from onejob.commands.command import Command, Parameters, Row, as_json, count, found
from onejob.core.effect import Entry, EntryState
from onejob.core.run import Claim, ReplicaId, RunId, Token

#: What an entry that is only ever "done" is about: they never collide.
Kind = Literal["effect", "inbox"]

#: The guard of an effect that belongs to no run.
NO_RUN = Claim(RunId(0), Token(0), ReplicaId(""))


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An effect about to happen.

    ``owner`` names the attempt or process that calls; ``fingerprint`` "" means that content is not
    compared; ``claim_for`` (microseconds) is when a claim outside a run lapses.
    """

    scope: str
    key: str
    owner: str
    fingerprint: str = ""
    claim_for: int = 0


def first(
    scope: str,
    key: str,
    *,
    owner: str,
    keep: int,
    kind: Kind = "effect",
    now: int | None = None,
) -> Command[bool]:
    """Insert a done entry in the caller's transaction. True: first time; False: known.

    Meant for ``within=``: it commits or rolls back with the effect. Waits for another transaction
    that has inserted the same key; if that one rolls back, this one is first. Where the store has
    no RETURNING, ``owner`` tells whose row it is, and so must be this call's own.
    """
    parameters: Parameters = {
        "kind": kind,
        "scope": scope,
        "key": key,
        "owner": owner,
        "keep": keep,
        "now": now,
    }
    return Command("ledger_first", parameters, found)


def first_many(
    scope: str,
    keys: Collection[str],
    *,
    owner: str,
    keep: int,
    kind: Kind = "effect",
    now: int | None = None,
) -> Command[frozenset[str]]:
    """The same for many keys of a scope in one statement: answers which of them are first.

    Rows are inserted in the order of the keys, so that two transactions that ask for overlapping
    sets wait for each other and never in a circle.
    """
    parameters: Parameters = {
        "kind": kind,
        "scope": scope,
        "keys": as_json(sorted(set(keys))),
        "owner": owner,
        "keep": keep,
        "now": now,
    }
    return Command("ledger_first_many", parameters, _keys)


def first_in_run(
    claim: Claim, scope: str, key: str, *, keep: int, now: int | None = None
) -> Command[bool]:
    """The same for an attempt: inserts only while its claim holds the run, and locks the run.

    False is "known" or "superseded": ask :func:`runs.fence` which.
    """
    parameters: Parameters = {
        **claim._asdict(),
        "scope": scope,
        "key": key,
        "keep": keep,
        "now": now,
    }
    return Command("ledger_first_in_run", parameters, found)


def claim(entry: NewEntry, *, now: int | None = None) -> Command[Token | None]:
    """Claim an effect that no run guards. None: an entry exists, see :func:`read`."""
    parameters: Parameters = {**asdict(entry), "now": now}
    return Command("effect_claim", parameters, _token)


def claim_in_run(claim: Claim, entry: NewEntry, *, now: int | None = None) -> Command[Token | None]:
    """Claim an effect for an attempt, checked under the run row's lock.

    None: an entry exists, or the attempt is superseded; :func:`read` and ``runs.standings`` tell.
    """
    parameters: Parameters = {
        **claim._asdict(),
        "scope": entry.scope,
        "key": entry.key,
        "owner": entry.owner,
        "fingerprint": entry.fingerprint,
        "now": now,
    }
    return Command("effect_claim_in_run", parameters, _token)


def claim_many_in_run(
    claim: Claim,
    scope: str,
    entries: Mapping[str, str],
    *,
    owner: str,
    now: int | None = None,
) -> Command[dict[str, Token]]:
    """Claim many effects of one scope for an attempt: ``entries`` are keys with fingerprints.

    Answers with what was claimed. A key that is missing has an entry, or the attempt is superseded.
    """
    batch = [{"key": key, "fingerprint": content} for key, content in sorted(entries.items())]
    parameters: Parameters = {
        **claim._asdict(),
        "scope": scope,
        "owner": owner,
        "entries": as_json(batch),
        "now": now,
    }
    return Command("effect_claim_many_in_run", parameters, _tokens)


def reclaim(
    entry: NewEntry, *, held: Token, run: Claim | None = None, now: int | None = None
) -> Command[Token | None]:
    """Take over an entry that is claimed or unknown under token ``held``, with a fresh token.

    With ``run``, only while that claim holds its run. None: it changed meanwhile; read again.
    """
    parameters: Parameters = {
        **(run or NO_RUN)._asdict(),
        "scope": entry.scope,
        "key": entry.key,
        "owner": entry.owner,
        "claim_for": entry.claim_for,
        "held": held,
        "now": now,
    }
    return Command("effect_reclaim", parameters, _token)


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
    """Record an outcome (done, failed or unknown) under the claim's own token.

    False: somebody has reclaimed it since. A run that waits in state unknown for this entry is
    scheduled again when the outcome is known.
    """
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
    return Command("effect_record", parameters, found, repeatable=True)


@dataclass(frozen=True, slots=True)
class Record:
    """An outcome to record under ``token``, its claim's own."""

    key: str
    token: Token
    state: EntryState
    result: str | None = None
    error: str | None = None


def record_many(
    scope: str, records: Sequence[Record], *, keep: int, now: int | None = None
) -> Command[frozenset[str]]:
    """Record outcomes of one scope, each as :func:`record` does; answers with the keys accepted."""
    # Not asdict, which copies deeply: a loop over many items spent a sixth of its time there.
    batch = [
        {"key": r.key, "token": r.token, "state": r.state, "result": r.result, "error": r.error}
        for r in records
    ]
    parameters: Parameters = {"scope": scope, "entries": as_json(batch), "keep": keep, "now": now}
    return Command("effect_record_many", parameters, _keys, repeatable=True)


def release_many(
    scope: str, tokens: Mapping[str, Token], *, now: int | None = None
) -> Command[frozenset[str]]:
    """Remove claims whose calls were certainly not sent; answers with the keys released."""
    batch = [{"key": key, "token": token} for key, token in tokens.items()]
    parameters: Parameters = {"scope": scope, "entries": as_json(batch), "now": now}
    return Command("effect_release_many", parameters, _keys, repeatable=True)


def release(scope: str, key: str, *, token: Token, now: int | None = None) -> Command[bool]:
    """Remove a claim whose call was certainly not sent. False: somebody has reclaimed it."""
    parameters: Parameters = {"scope": scope, "key": key, "token": token, "now": now}
    return Command("effect_release", parameters, found, repeatable=True)


def read(scope: str, keys: Sequence[str], *, now: int | None = None) -> Command[tuple[Entry, ...]]:
    """Read entries of a scope; unknown keys are absent."""
    parameters: Parameters = {"scope": scope, "keys": as_json(list(keys)), "now": now}
    return Command("effect_read", parameters, _entries, writes=False, repeatable=True)


def unsettled(*, limit: int, now: int | None = None) -> Command[tuple[Entry, ...]]:
    """Read effects whose outcome is unknown, and claims that nobody has recorded, oldest first."""
    parameters: Parameters = {"limit": limit, "now": now}
    return Command("effect_unsettled", parameters, _entries, writes=False, repeatable=True)


def purge(*, limit: int, now: int | None = None) -> Command[int]:
    """Delete what is past its time; never an effect that is claimed or unknown, nor a run's key."""
    return Command("ledger_purge", {"limit": limit, "now": now}, count, repeatable=True)


def _keys(rows: Sequence[Row]) -> frozenset[str]:
    return frozenset(key for (key,) in rows)


def _token(rows: Sequence[Row]) -> Token | None:
    return Token(rows[0][0]) if rows else None


def _tokens(rows: Sequence[Row]) -> dict[str, Token]:
    return {key: Token(token) for key, token in rows}


def _entries(rows: Sequence[Row]) -> tuple[Entry, ...]:
    return tuple(
        Entry(
            scope=scope,
            key=key,
            state=EntryState(state),
            token=Token(token),
            owner=owner,
            run_id=RunId(run_id),
            claimed=claimed,
            claim_until=claim_until,
            fingerprint=fingerprint,
            result=result,
            error=error,
            attempt=attempt,
            now=now,
        )
        for (
            scope,
            key,
            state,
            token,
            owner,
            run_id,
            claimed,
            claim_until,
            fingerprint,
            result,
            error,
            attempt,
            now,
        ) in rows
    )
