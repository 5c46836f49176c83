"""The memory model of ``sql/base/leases.sql`` and ``sql/base/fences.sql``."""

from __future__ import annotations

import json

from onejob.stores.memory.tables import Lease, Rows, Tables


def lease_take(
    tables: Tables,
    now: int,
    *,
    scope: str,
    name: str,
    owner: str,
    holder: str,
    ttl: int,
    at_least: int,
) -> Rows:
    """Take a lock that was given back."""
    lease = tables.leases.get((scope, name))
    if lease is None or lease.owner or lease.expires > now:
        return []
    return lease_acquire(
        tables,
        now,
        scope=scope,
        name=name,
        owner=owner,
        holder=holder,
        ttl=ttl,
        at_least=at_least,
        resources="[]",
        wait=0,
    )


def lease_acquire(
    tables: Tables,
    now: int,
    *,
    scope: str,
    name: str,
    owner: str,
    holder: str,
    ttl: int,
    at_least: int,
    resources: str,
    wait: int,
) -> Rows:
    """Take a lock that is free; a name that is new here gets its row, and no answer."""
    lease = tables.leases.get((scope, name))
    if lease is None:
        tables.leases[scope, name] = Lease(scope, name)
        return []
    if lease.expires <= now:
        if lease.owner:
            _tell(tables, now, "lock.lapsed", lease, holder)
        lease.token, lease.owner, lease.holder = tables.next_token(), owner, holder
        lease.resources, lease.acquired, lease.changed = resources, now, now
        lease.hold_until, lease.expires = now + at_least, now + max(ttl, at_least)
        _announce(tables, now, lease)
    if wait and lease.owner == owner:
        tables.waiters.pop((scope, name, owner), None)
    elif wait:
        tables.waiters.setdefault((scope, name, owner), now + wait)
    return [_row(lease, now)]


def lease_renew(tables: Tables, now: int, *, held: str) -> Rows:
    """Extend those that are still held by (token, owner) and have not lapsed."""
    renewed: Rows = []
    for given in json.loads(held):
        lease = _held(tables, given["scope"], given["name"], given["token"], given["owner"])
        if lease and lease.expires > now:
            lease.expires = max(now + given["ttl"], lease.hold_until)
            renewed.append((lease.owner,))
    return renewed


def lease_release(
    tables: Tables, now: int, *, scope: str, name: str, token: int, owner: str
) -> Rows:
    """Give it back; the minimum is kept. Asked again, it was done."""
    lease = tables.leases.get((scope, name))
    if lease is not None and lease.token == token and lease.owner == "":
        return [(name,)]
    lease = _held(tables, scope, name, token, owner)
    if lease is None:
        return []
    lease.owner, lease.expires, lease.changed = "", max(now, lease.hold_until), now
    return [(name,)]


def lease_undo(tables: Tables, now: int, *, scope: str, name: str, owner: str) -> Rows:
    """Free what its owner was never told of having."""
    lease = tables.leases.get((scope, name))
    if lease is None or lease.owner != owner:
        return []
    lease.owner, lease.hold_until, lease.expires, lease.changed = "", 0, now, now
    return [(name,)]


def lease_fence(
    tables: Tables, now: int, *, scope: str, name: str, token: int, owner: str, idle_limit: int
) -> Rows:
    """Tell whether it is held; there are no transactions here that could keep it so."""
    lease = _held(tables, scope, name, token, owner)
    return [(name,)] if lease and lease.expires > now else []


def lease_break(
    tables: Tables, now: int, *, scope: str, name: str, token: int, by: str, reason: str
) -> Rows:
    """Free it under a higher token, from exactly the holder that was read."""
    lease = tables.leases.get((scope, name))
    if lease is None or lease.token != token or lease.expires <= now:
        return []
    _tell(tables, now, "lock.broken", lease, f"{by}: {reason}")
    lease.token, lease.owner = tables.next_token(), ""
    lease.hold_until, lease.expires, lease.changed = 0, now, now
    _announce(tables, now, lease)
    return [_row(lease, now)]


def lease_give_up(tables: Tables, now: int, *, scope: str, name: str, owner: str) -> Rows:
    """Wait no longer."""
    return [(name,)] if tables.waiters.pop((scope, name, owner), 0) else []


def lease_list(tables: Tables, now: int, *, scope: str, name: str, free: int, limit: int) -> Rows:
    """Read those that are taken, or all."""
    found = [
        lease
        for _, lease in sorted(tables.leases.items())
        if scope in ("", lease.scope) and name in ("", lease.name) and (free or lease.expires > now)
    ]
    return [(*_row(lease, now), _waiting(tables, now, lease)) for lease in found[:limit]]


def lease_purge(tables: Tables, now: int, *, unused: int, limit: int) -> Rows:
    """Forget what has been free, and not asked for, for a while."""
    old = [
        key
        for key, lease in sorted(tables.leases.items())
        if lease.changed < now - unused and lease.expires < now - unused
    ][:limit]
    for key in old:
        del tables.leases[key]
    tables.waiters = {who: until for who, until in tables.waiters.items() if until >= now - unused}
    return [(name,) for _, name in old]


def fence_check(
    tables: Tables, now: int, *, scope: str, resource: str, token: int, idle_limit: int
) -> Rows:
    """Note a token unless a higher one is known."""
    known, _ = tables.fences.get((scope, resource), (token, 0))
    if known > token:
        return []
    tables.fences[scope, resource] = (token, now)
    return [(resource,)]


def fence_known(tables: Tables, now: int, *, scope: str, resource: str) -> Rows:
    """Read the highest token at a resource."""
    known = tables.fences.get((scope, resource))
    return [(known[0],)] if known else []


def fence_purge(tables: Tables, now: int, *, unused: int, limit: int) -> Rows:
    """Forget resources that no token was shown at for a long while."""
    old = [key for key, (_, seen) in sorted(tables.fences.items()) if seen < now - unused][:limit]
    for key in old:
        del tables.fences[key]
    return [(resource,) for _, resource in old]


def _held(tables: Tables, scope: str, name: str, token: int, owner: str) -> Lease | None:
    lease = tables.leases.get((scope, name))
    return lease if lease and (lease.token, lease.owner) == (token, owner) else None


def _waiting(tables: Tables, now: int, lease: Lease) -> int:
    here = (lease.scope, lease.name)
    return sum(until > now for (*lock, _), until in tables.waiters.items() if tuple(lock) == here)


def _announce(tables: Tables, now: int, lease: Lease) -> None:
    for resource in json.loads(lease.resources):
        known, _ = tables.fences.get((lease.scope, resource), (0, 0))
        if known < lease.token:
            tables.fences[lease.scope, resource] = (lease.token, now)


def _tell(tables: Tables, now: int, kind: str, lease: Lease, detail: str) -> None:
    more = {"token": lease.token, "replica": lease.holder, "detail": detail}
    tables.tell(now, kind, "", lease.name, **more)


def _row(lease: Lease, now: int) -> tuple[object, ...]:
    return (
        lease.scope,
        lease.name,
        lease.token,
        lease.owner,
        lease.holder,
        lease.resources,
        lease.acquired,
        lease.expires,
        lease.changed,
        now,
    )
