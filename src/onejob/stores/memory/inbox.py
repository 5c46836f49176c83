"""The memory model of ``sql/base/inbox.sql``."""

from __future__ import annotations

from onejob.stores.memory.tables import Entry, Rows, Tables


def inbox_claim(
    tables: Tables, now: int, *, scope: str, key: str, owner: str, fingerprint: str, claim_for: int
) -> Rows:
    """Claim a message for a time."""
    name = ("inbox", scope, key)
    if name in tables.ledger:
        return []
    entry = tables.ledger[name] = Entry(*name, "claimed", owner, now, fingerprint=fingerprint)
    entry.claim_until = now + claim_for
    entry.token = tables.next_token()
    return [(entry.token,)]


def inbox_take_over(
    tables: Tables, now: int, *, scope: str, key: str, owner: str, claim_for: int, held: int
) -> Rows:
    """Take over from exactly the claim that was read, once its time is over."""
    entry = tables.ledger.get(("inbox", scope, key))
    if entry is None or entry.token != held or not _unsettled(entry, now):
        return []
    entry.token = tables.next_token()
    entry.state, entry.owner = "claimed", owner
    entry.attempt += 1
    entry.claim_until = now + claim_for
    return [(entry.token,)]


def inbox_record(
    tables: Tables,
    now: int,
    *,
    scope: str,
    key: str,
    token: int,
    state: str,
    result: str | None,
    error: str | None,
    keep: int,
) -> Rows:
    """Record what became of a message, under the claim's own token."""
    entry = tables.ledger.get(("inbox", scope, key))
    if entry is None or entry.token != token or entry.state not in ("claimed", "unknown", state):
        return []
    entry.state, entry.result, entry.error = state, result, error
    entry.kept_until = now + keep if state in ("done", "failed") else 0
    return [(key,)]


def inbox_give_back(tables: Tables, now: int, *, scope: str, key: str, token: int) -> Rows:
    """Remove an open claim."""
    entry = tables.ledger.get(("inbox", scope, key))
    if entry is None or entry.token != token or entry.state not in ("claimed", "unknown"):
        return []
    del tables.ledger["inbox", scope, key]
    return [(key,)]


def inbox_read(tables: Tables, now: int, *, scope: str, key: str) -> Rows:
    """Read what is known of a message."""
    entry = tables.ledger.get(("inbox", scope, key))
    return [] if entry is None else [_shown(entry, now)]


def inbox_unsettled(tables: Tables, now: int, *, scope: str, limit: int) -> Rows:
    """Read messages that are unknown, and claims that have lapsed, oldest first."""
    found = [
        entry
        for entry in tables.ledger.values()
        if entry.kind == "inbox" and entry.scope == scope and _unsettled(entry, now)
    ]
    found.sort(key=lambda entry: (entry.claimed, entry.key))
    return [_shown(entry, now) for entry in found[:limit]]


def inbox_begun(tables: Tables, now: int, *, scope: str, key: str, least: int, keep: int) -> Rows:
    """Count one more beginning of a message."""
    name = ("delivery", scope, key)
    entry = tables.ledger.get(name)
    if entry is None:
        entry = tables.ledger[name] = Entry(*name, "free", "", now, attempt=0)
    entry.attempt = max(entry.attempt + 1, least)
    entry.kept_until = now + keep
    return [(entry.attempt,)]


def _unsettled(entry: Entry, now: int) -> bool:
    return entry.state == "unknown" or (entry.state == "claimed" and entry.claim_until <= now)


def _shown(entry: Entry, now: int) -> tuple[object, ...]:
    return (
        entry.scope,
        entry.key,
        entry.state,
        entry.token,
        entry.owner,
        entry.claimed,
        entry.claim_until,
        entry.fingerprint,
        entry.result,
        entry.error,
        entry.attempt,
        now,
    )
