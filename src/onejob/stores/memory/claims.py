"""The memory model of ``sql/base/claims.sql``."""

from __future__ import annotations

import json

from onejob.stores.memory.tables import Entry, Rows, Tables

#: How far back the clock may be set before ticks stop waiting for it to catch up.
SET_BACK = 60_000_000


def claim_take(
    tables: Tables,
    now: int,
    *,
    kind: str,
    scope: str,
    key: str,
    owner: str,
    lease: int,
    keep: int,
    spacing: int,
    even_if_unsure: int,
    tell: int,
) -> Rows:
    """Insert the claim, or take over what may be taken; else tell who has it."""
    entry = tables.ledger.get((kind, scope, key))
    if entry is None:
        entry = tables.ledger[kind, scope, key] = Entry(kind, scope, key, "free", "", now)
        entry.attempt = 0
    held = entry.state in ("claimed", "firing")
    same_tick = entry.claimed - spacing - SET_BACK <= now < entry.claimed + spacing
    won = entry.run_id == 0 and (
        entry.state == "free"
        or (entry.state == "claimed" and 0 < entry.claim_until <= now)
        or (entry.state == "firing" and entry.claim_until <= now and bool(even_if_unsure))
        or (spacing > 0 and not same_tick)
    )
    if won:
        if held:
            _tell(tables, now, "abandoned", entry, taken_by=owner, state=entry.state)
        entry.state, entry.owner, entry.error = "claimed", owner, None
        entry.token = tables.next_token()
        entry.attempt = entry.attempt + 1 if same_tick or not spacing else 1
        entry.claimed = entry.claimed if same_tick else now
        entry.claim_until, entry.kept_until = now + lease, now + lease + keep
    elif tell and entry.owner != owner:
        _tell(tables, now, "lost", entry, by=owner, holder=entry.owner, state=entry.state)
    shown = (entry.state, entry.token, entry.owner, entry.attempt, entry.claimed)
    return [(int(won), *shown, entry.claim_until, now)]


def claim_mark(
    tables: Tables,
    now: int,
    *,
    kind: str,
    scope: str,
    key: str,
    token: int,
    owner: str,
    lease: int,
) -> Rows:
    """Say that it is about to fire."""
    entry = _held(tables, kind, scope, key, token, owner)
    if entry is None:
        return []
    entry.state, entry.claim_until = "firing", now + lease
    return [(key,)]


def claim_end(
    tables: Tables,
    now: int,
    *,
    kind: str,
    scope: str,
    key: str,
    token: int,
    owner: str,
    keep: int,
    state: str,
    error: str | None,
) -> Rows:
    """Record that it was done."""
    entry = _held(tables, kind, scope, key, token, owner, state)
    if entry is None:
        return []
    entry.error = error
    if entry.state != state:
        entry.state, entry.claim_until, entry.kept_until = state, now, now + keep
    return [(key,)]


def claim_release(
    tables: Tables,
    now: int,
    *,
    kind: str,
    scope: str,
    key: str,
    token: int,
    owner: str,
    keep: int,
    error: str | None,
) -> Rows:
    """Give it back; the row stays, free."""
    entry = _held(tables, kind, scope, key, token, owner, "free")
    if entry is None:
        return []
    if entry.state != "free":
        _tell(tables, now, "released", entry, error=error)
        entry.state, entry.error = "free", error
        entry.claim_until, entry.kept_until = now, now + keep
    return [(key,)]


def claim_renew(tables: Tables, now: int, *, batch: str) -> Rows:
    """Renew each claim that still holds."""
    rows: Rows = []
    for one in json.loads(batch):
        lease = one.pop("lease")
        entry = _held(tables, **one)
        if entry is not None:
            entry.claim_until = now + lease
            rows.append((entry.owner,))
    return rows


def claim_read(tables: Tables, now: int, *, kind: str, scope: str, keys: str) -> Rows:
    """Read rows of a scope."""
    wanted = set(json.loads(keys))
    found = [e for e in _claims(tables, kind) if e.scope == scope and e.key in wanted]
    return [_shown(entry, now) for entry in sorted(found, key=lambda entry: entry.key)]


def claim_listed(
    tables: Tables, now: int, *, kind: str, scope: str, lapsed: int, limit: int
) -> Rows:
    """Read rows of a kind, the latest claims first."""
    found = [
        entry
        for entry in _claims(tables, kind)
        if scope in ("", entry.scope)
        and (not lapsed or (entry.state in ("claimed", "firing") and entry.claim_until <= now))
    ]
    found.sort(key=lambda entry: (-entry.claimed, entry.scope, entry.key))
    return [_shown(entry, now) for entry in found[:limit]]


def _claims(tables: Tables, kind: str) -> list[Entry]:
    return [e for e in tables.ledger.values() if e.kind == kind and e.run_id == 0]


def _held(
    tables: Tables, kind: str, scope: str, key: str, token: int, owner: str, also: str = ""
) -> Entry | None:
    """Return the row while exactly this claim holds it, or has left it in state ``also``."""
    entry = tables.ledger.get((kind, scope, key))
    if entry is None or (entry.token, entry.owner) != (token, owner):
        return None
    return entry if entry.state in ("claimed", "firing", also) else None


def _tell(
    tables: Tables, now: int, what: str, entry: Entry, by: str = "", **detail: object
) -> None:
    subject = "tick" if entry.kind == "schedule" else entry.kind
    tables.tell(
        now,
        f"{subject}.{what}",
        entry.scope,
        entry.key,
        token=entry.token,
        replica=by or entry.owner,
        schedule=entry.scope,
        detail=json.dumps(detail),
    )


def _shown(entry: Entry, now: int) -> tuple[object, ...]:
    return (
        entry.kind,
        entry.scope,
        entry.key,
        entry.state,
        entry.token,
        entry.owner,
        entry.attempt,
        entry.claimed,
        entry.claim_until,
        entry.error,
        now,
    )
