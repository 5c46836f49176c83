"""Named locks: one row a name, held under a lease by one owner.

::

    (no row) ──acquire──▶ free ──acquire──▶ held ──release──▶ free   (or kept for its minimum)
                           ▲                 │ ▲─renew─┘
                           └── lapsed ◀──────┘             break: free, under a higher token

The row is made first, with token 0, and taken by the next request: whoever changes its hands draws
the token in SET, under the row's lock. Everything later carries (token, owner) and finds no row
once somebody else has taken over. A lease that has lapsed is not revived, even if nobody came.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onejob.commands.command import Command, Parameters, Row, as_json, count, found
from onejob.core.hold import Grip, Listed, Standing
from onejob.core.run import Token
from onejob.core.time import Span


def take(
    scope: str,
    name: str,
    *,
    owner: str,
    holder: str,
    ttl: Span,
    at_least: Span = Span(0),
    now: int | None = None,
) -> Command[Standing | None]:
    """Take a lock that was given back, the quick way; None: nothing was done, :func:`acquire` it.

    For a lock that protects no resources. A store for which nothing is quicker always says None.
    """
    parameters: Parameters = {
        "scope": scope,
        "name": name,
        "owner": owner,
        "holder": holder,
        "ttl": ttl,
        "at_least": at_least,
        "now": now,
    }
    return Command("lease_take", parameters, _standing, repeatable=True)


def acquire(
    scope: str,
    name: str,
    *,
    owner: str,
    holder: str,
    ttl: Span,
    at_least: Span = Span(0),
    resources: Sequence[str] = (),
    wait: int = 0,
    now: int | None = None,
) -> Command[Standing | None]:
    """Take a lock that is free, and announce its new token at ``resources``.

    The answer is the lock as it stands then: taken where its owner is ``owner``, else held by
    somebody, or in the way of a transaction that is open at the lock or at a resource. None: nobody
    had asked for this name before, its row has now been made, ask again. ``at_least`` is how long
    the lock stays taken, released or not. The same ``owner`` asking again gets the same answer.
    With ``wait``, an owner that is refused counts as waiting for that long (:func:`give_up`).
    """
    parameters: Parameters = {
        "scope": scope,
        "name": name,
        "owner": owner,
        "holder": holder,
        "ttl": ttl,
        "at_least": at_least,
        "resources": as_json(sorted(set(resources))) if resources else "[]",
        "wait": wait,
        "now": now,
    }
    return Command("lease_acquire", parameters, _standing, repeatable=True)


def renew(held: Iterable[tuple[Grip, Span]], *, now: int | None = None) -> Command[frozenset[str]]:
    """Extend many leases from the store's now; returns the owners whose lease was extended."""
    batch = [{**_shown(grip), "ttl": ttl} for grip, ttl in held]
    return Command("lease_renew", {"held": as_json(batch), "now": now}, _owners, repeatable=True)


def release(grip: Grip, *, now: int | None = None) -> Command[bool]:
    """Give a lock back; it stays taken for the rest of its minimum. False: lost before.

    Asked again after a lost reply, it was done: nobody has drawn a token since.
    """
    return Command("lease_release", {**_shown(grip), "now": now}, found, repeatable=True)


def undo(scope: str, name: str, *, owner: str, now: int | None = None) -> Command[bool]:
    """Free a lock whose acquisition was never answered, so that nobody works under it.

    Its minimum is not kept: nothing ran. False: ``owner`` does not have it (yet, where the question
    is still on its way).
    """
    parameters: Parameters = {"scope": scope, "name": name, "owner": owner, "now": now}
    return Command("lease_undo", parameters, found, repeatable=True)


def give_up(scope: str, name: str, *, owner: str) -> Command[bool]:
    """Wait no longer for a lock. False: it did not wait."""
    parameters: Parameters = {"scope": scope, "name": name, "owner": owner}
    return Command("lease_give_up", parameters, found, repeatable=True)


def fence(grip: Grip, *, idle_limit: Span, now: int | None = None) -> Command[bool]:
    """Keep the lock from changing hands to the end of the caller's transaction.

    Renewals go on meanwhile where the store has locks on rows. ``idle_limit`` bounds how long the
    store lets that transaction sit idle. False: the lease is over; roll back.
    """
    parameters: Parameters = {**_shown(grip), "idle_limit": idle_limit, "now": now}
    return Command("lease_fence", parameters, found)


def break_(
    scope: str, name: str, *, token: Token, by: str, reason: str, now: int | None = None
) -> Command[Standing | None]:
    """Take a lock away from the holder that has ``token``, and free it under a higher one.

    The new token is announced at the lock's resources. None: it has another token by now, it is
    free, or a fenced transaction of its holder is open.
    """
    parameters: Parameters = {
        "scope": scope,
        "name": name,
        "token": token,
        "by": by,
        "reason": reason,
        "now": now,
    }
    return Command("lease_break", parameters, _standing)


def listed(
    *,
    scope: str = "",
    name: str = "",
    free: bool = False,
    limit: int,
    now: int | None = None,
) -> Command[tuple[Listed, ...]]:
    """Read locks, by scope and name where given: those that are taken, or with ``free`` all."""
    parameters: Parameters = {
        "scope": scope,
        "name": name,
        "free": int(free),
        "limit": limit,
        "now": now,
    }
    return Command("lease_list", parameters, _listed, writes=False, repeatable=True)


def purge(*, unused: Span, limit: int, now: int | None = None) -> Command[int]:
    """Forget locks that have been free, and not asked for, for a while. Tokens go on rising."""
    parameters: Parameters = {"unused": unused, "limit": limit, "now": now}
    return Command("lease_purge", parameters, count, repeatable=True)


def _shown(grip: Grip) -> Parameters:
    # Not asdict, which copies deeply: locks are taken and given back in tight loops.
    return {"scope": grip.scope, "name": grip.name, "token": grip.token, "owner": grip.owner}


def _standing(rows: Sequence[Row]) -> Standing | None:
    return Standing(*rows[0]) if rows else None


def _listed(rows: Sequence[Row]) -> tuple[Listed, ...]:
    return tuple(Listed(Standing(*standing), waiting) for *standing, waiting in rows)


def _owners(rows: Sequence[Row]) -> frozenset[str]:
    return frozenset(row[0] for row in rows)
