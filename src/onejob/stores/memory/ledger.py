"""The memory model of ``sql/base/ledger.sql``."""

from __future__ import annotations

import json

from onejob.stores.memory.tables import Entry, Rows, Tables


def ledger_first(
    tables: Tables, now: int, *, kind: str, scope: str, key: str, owner: str, keep: int
) -> Rows:
    """Insert a done entry; the second insert is an ordinary "already there"."""
    name = (kind, scope, key)
    if name in tables.ledger:
        return []
    tables.ledger[name] = Entry(*name, "done", owner, now, kept_until=now + keep)
    return [(key,)]


def ledger_first_many(
    tables: Tables, now: int, *, kind: str, scope: str, keys: str, owner: str, keep: int
) -> Rows:
    """The same for many keys; answers with those that are first."""
    rows: Rows = []
    for key in json.loads(keys):
        rows += ledger_first(tables, now, kind=kind, scope=scope, key=key, owner=owner, keep=keep)
    return rows


def ledger_first_in_run(
    tables: Tables, now: int, *, id: int, token: int, replica: str, scope: str, key: str, keep: int
) -> Rows:
    """The same, only while the claim holds its run."""
    if not tables.held(id, token, replica):
        return []
    rows = ledger_first(tables, now, kind="effect", scope=scope, key=key, owner=replica, keep=keep)
    if rows:
        tables.ledger["effect", scope, key].run_id = id
    return rows


def effect_claim(
    tables: Tables, now: int, *, scope: str, key: str, owner: str, fingerprint: str, claim_for: int
) -> Rows:
    """Claim an effect that no run guards."""
    name = ("effect", scope, key)
    if name in tables.ledger:
        return []
    entry = tables.ledger[name] = Entry(*name, "claimed", owner, now, fingerprint=fingerprint)
    entry.claim_until = now + claim_for if claim_for else 0
    entry.token = tables.next_token()
    return [(entry.token,)]


def effect_claim_in_run(
    tables: Tables,
    now: int,
    *,
    id: int,
    token: int,
    replica: str,
    scope: str,
    key: str,
    owner: str,
    fingerprint: str,
) -> Rows:
    """Claim an effect for an attempt; a superseded one claims nothing."""
    if not tables.held(id, token, replica):
        return []
    rows = effect_claim(
        tables, now, scope=scope, key=key, owner=owner, fingerprint=fingerprint, claim_for=0
    )
    if rows:
        tables.ledger["effect", scope, key].run_id = id
    return rows


def effect_claim_many_in_run(
    tables: Tables,
    now: int,
    *,
    id: int,
    token: int,
    replica: str,
    scope: str,
    owner: str,
    entries: str,
) -> Rows:
    """Claim many for an attempt, in key order; what is there already is left out."""
    claimed: list[tuple[object, ...]] = []
    for given in sorted(json.loads(entries), key=lambda given: given["key"].encode()):
        rows = effect_claim_in_run(
            tables, now, id=id, token=token, replica=replica, scope=scope, owner=owner, **given
        )
        claimed += [(given["key"], *row) for row in rows]
    return claimed


def effect_reclaim(
    tables: Tables,
    now: int,
    *,
    id: int,
    token: int,
    replica: str,
    scope: str,
    key: str,
    owner: str,
    claim_for: int,
    held: int,
) -> Rows:
    """Take over an open entry from exactly the claim that was read."""
    entry = _open_under(tables, scope, key, held)
    if entry is None or (id and not tables.held(id, token, replica)):
        return []
    entry.token = tables.next_token()
    entry.state, entry.owner = "claimed", owner
    entry.attempt += 1
    entry.run_id = id or entry.run_id
    entry.claim_until = now + claim_for if claim_for else 0
    return [(entry.token,)]


def effect_record(
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
    """Record an outcome under the claim's own token, whoever runs by now."""
    entry = tables.ledger.get(("effect", scope, key))
    if entry is None or entry.token != token:
        return []
    entry.state, entry.result, entry.error = state, result, error
    settled = state in ("done", "failed")
    entry.kept_until = now + keep if settled else 0
    if settled:
        _wake(tables, now, entry)
    return [(key,)]


def effect_record_many(tables: Tables, now: int, *, scope: str, entries: str, keep: int) -> Rows:
    """Record many, each under its own claim's token."""
    recorded: list[tuple[object, ...]] = []
    for given in json.loads(entries):
        recorded += effect_record(tables, now, scope=scope, keep=keep, **given)
    return recorded


def effect_release(tables: Tables, now: int, *, scope: str, key: str, token: int) -> Rows:
    """Remove an open claim whose call was not sent."""
    entry = _open_under(tables, scope, key, token)
    if entry is None:
        return []
    del tables.ledger["effect", scope, key]
    _wake(tables, now, entry)
    return [(key,)]


def effect_release_many(tables: Tables, now: int, *, scope: str, entries: str) -> Rows:
    """Remove many, each under its own claim's token."""
    released: list[tuple[object, ...]] = []
    for given in json.loads(entries):
        released += effect_release(tables, now, scope=scope, **given)
    return released


def effect_read(tables: Tables, now: int, *, scope: str, keys: str) -> Rows:
    """Read entries of a scope."""
    wanted = set(json.loads(keys))
    return [_shown(e, now) for e in _effects(tables) if e.scope == scope and e.key in wanted]


def effect_unsettled(tables: Tables, now: int, *, limit: int) -> Rows:
    """Read entries that nobody has settled, oldest first."""
    open_ones = [e for e in _effects(tables) if e.state in ("claimed", "unknown")]
    open_ones.sort(key=lambda e: (e.claimed, e.scope, e.key))
    return [_shown(entry, now) for entry in open_ones[:limit]]


def ledger_purge(tables: Tables, now: int, *, limit: int) -> Rows:
    """Delete entries past their time; never an open effect, which is kept until it is settled."""
    old = [
        entry
        for _, entry in sorted(tables.ledger.items())
        if 0 < entry.kept_until < now
        and (entry.state in ("done", "failed", "free") or 0 < entry.claim_until <= now)
        and entry.run_id not in tables.runs
    ][:limit]
    for entry in old:
        del tables.ledger[entry.kind, entry.scope, entry.key]
    return [(entry.key,) for entry in old]


def _effects(tables: Tables) -> list[Entry]:
    return [entry for entry in tables.ledger.values() if entry.kind == "effect"]


def _open_under(tables: Tables, scope: str, key: str, token: int) -> Entry | None:
    entry = tables.ledger.get(("effect", scope, key))
    if entry is None or entry.token != token or entry.state not in ("claimed", "unknown"):
        return None
    return entry


def _wake(tables: Tables, now: int, entry: Entry) -> None:
    """Schedule the run again that waits for this entry's outcome."""
    run = tables.runs.get(entry.run_id)
    waits_for_a_person = run is not None and run.on_loss == "unknown" and run.deaths > 0
    if run is not None and run.state == "unknown" and not waits_for_a_person:
        run.state, run.due = "scheduled", max(run.due, now)


def _shown(entry: Entry, now: int) -> tuple[object, ...]:
    return (
        entry.scope,
        entry.key,
        entry.state,
        entry.token,
        entry.owner,
        entry.run_id,
        entry.claimed,
        entry.claim_until,
        entry.fingerprint,
        entry.result,
        entry.error,
        entry.attempt,
        now,
    )
