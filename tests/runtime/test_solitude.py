"""Runs that have outlived a replica are claimed alone."""

from __future__ import annotations

import pytest

from onejob.core.solitude import Next, Solitude

LEASE = 12_000_000
DUE = 100_000_000


@pytest.mark.parametrize(
    ("now", "held", "what"),
    [
        (DUE - 1, 0, Next.ANYTHING),
        (DUE, 0, Next.ALONE),
        (DUE, 5, Next.ANYTHING),
        (DUE + LEASE - 1, 5, Next.ANYTHING),
        (DUE + LEASE, 5, Next.NOTHING),
        (DUE + 2 * LEASE - 1, 1, Next.NOTHING),
        (DUE + 2 * LEASE, 1, Next.ALONE),
    ],
    ids=[
        "not due",
        "nothing else here",
        "busy",
        "busy for less than a lease",
        "busy for a lease: make room",
        "still busy",
        "busy for two leases: beside what runs",
    ],
)
def test_a_worker_makes_room_for_it_within_two_leases(now: int, held: int, what: Next) -> None:
    solitude = Solitude(LEASE)
    solitude.announce(DUE)

    assert solitude.next(now, held=held) is what


def test_nothing_starts_beside_it_for_one_lease() -> None:
    """B04."""
    solitude = Solitude(LEASE)
    solitude.started(DUE)

    assert solitude.next(DUE + LEASE - 1, held=1) is Next.NOTHING
    assert solitude.next(DUE + LEASE, held=1) is Next.ANYTHING


def test_its_end_opens_the_doors_again() -> None:
    solitude = Solitude(LEASE)
    solitude.started(DUE)
    solitude.ended()

    assert solitude.next(DUE + 1, held=3) is Next.ANYTHING


def test_one_that_was_lost_with_its_lease_does_not_close_the_doors() -> None:
    solitude = Solitude(LEASE)
    solitude.started(DUE)

    assert solitude.next(DUE + 1, held=0) is Next.ANYTHING


@pytest.mark.parametrize(("told", "due"), [((5, 3), 3), ((3, 5), 3), ((5, 0), 0), ((0, 5), 5)])
def test_the_earliest_announcement_counts_and_none_clears_it(
    told: tuple[int, int], due: int
) -> None:
    solitude = Solitude(LEASE)
    for at in told:
        solitude.announce(at)

    assert solitude.due == due
