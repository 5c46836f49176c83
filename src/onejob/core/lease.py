"""Leases: an exclusive right with an expiry, and how long its holder may trust it.

A holder's own view ends before the store lets anybody else in (promise P6): its deadline counts
from *before* the request was sent, on a clock that also runs during suspend, less a margin.
A judge of other leases must be as careful the other way round: it may declare a replica dead only
when its own view of time has been sound since its previous look.
"""

from __future__ import annotations

from dataclasses import dataclass

from onejob.core.time import SECOND, Span

#: No lease may be shorter: renewals, sweeps and margins need room in it.
LEAST_LEASE = Span(1 * SECOND)

#: A replica whose loop has not beaten for this long is stuck for good, not busy; it stops
#: renewing so that its runs can go elsewhere. Handlers may block the loop for less.
STALL_LEASES = 5
STALL_LEAST = Span(60 * SECOND)


def margin(lease: Span) -> Span:
    """Return what a holder gives away of ``lease`` for drifting clocks and late wake-ups."""
    return Span(max(lease // 12, 50_000))


def renew_every(lease: Span) -> Span:
    """Return the pause between renewals: a third, so that one may be lost without harm."""
    return Span(lease // 3)


def sweep_every(lease: Span) -> Span:
    """Return the longest pause between two looks at the others' leases."""
    return Span(lease // 4)


def deadline(*, asked_at: int, lease: Span) -> int:
    """Return until when a holder may believe in a lease that it asked for at ``asked_at``.

    Both on the local clock that runs during suspend. ``asked_at`` is taken before the request is
    sent: the reply may have taken most of the lease.
    """
    return asked_at + lease - margin(lease)


def last_call(lease: Span, *, grace: Span) -> Span:
    """Return how long before its deadline a program that runs under ``lease`` is asked to end.

    It is to be gone at the deadline, so what it needs to end is taken off the lease; no more than
    a sixth, or a renewal or two that failed would end it already.
    """
    return Span(min(grace, lease // 6))


def stall_limit(lease: Span) -> Span:
    """Return how long a replica's loop may stay silent before its keeper stops renewing."""
    return Span(max(STALL_LEASES * lease, STALL_LEAST))


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the other replicas: the store's clock, and ours, at the same moment."""

    store: int
    local: int


def sound(previous: Look | None, current: Look, *, lease: Span) -> bool:
    """Tell whether time passed soundly between two looks.

    The store's clock and ours advanced alike, and the looks were no more than a lease apart.
    """
    if previous is None:
        return False
    store, local = current.store - previous.store, current.local - previous.local
    return 0 <= local <= lease and abs(store - local) <= margin(lease)


def may_judge(*, looking_since: int, renewing_since: int, now: int, lease: Span) -> bool:
    """Tell whether a replica may declare others dead.

    Only after it has itself looked soundly and renewed punctually for one whole lease: after an
    outage, our own suspend, or a long write on SQLite, healthy replicas could not renew either,
    and must be given one lease to do so.
    """
    return now - max(looking_since, renewing_since) >= lease
