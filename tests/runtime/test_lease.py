"""What a holder may believe of its lease, and when it may judge others (promise P6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onejob.core import lease as rules
from onejob.core.lease import Look
from onejob.core.time import SECOND, Span

LEASES = st.integers(rules.LEAST_LEASE, 3_600 * SECOND).map(Span)
INSTANTS = st.integers(0, 2**53)


@given(lease=LEASES, asked_at=INSTANTS, there=st.integers(0, 10**9), drift_ppm=st.integers(0, 500))
def test_a_holders_view_ends_before_the_store_lets_anybody_else_in(
    lease: Span, asked_at: int, there: int, drift_ppm: int
) -> None:
    # The store counts from when the request arrived, and its clock may run a little faster.
    lapses = asked_at + there + lease - lease * drift_ppm // 1_000_000

    assert rules.deadline(asked_at=asked_at, lease=lease) < lapses


@given(lease=LEASES)
def test_one_renewal_may_be_lost_without_harm(lease: Span) -> None:
    assert 2 * rules.renew_every(lease) < rules.deadline(asked_at=0, lease=lease)


@given(lease=LEASES, grace=st.integers(0, 10**10).map(Span))
def test_a_program_is_not_asked_to_end_for_one_lost_renewal(lease: Span, grace: Span) -> None:
    asked = rules.deadline(asked_at=0, lease=lease) - rules.last_call(lease, grace=grace)

    assert 2 * rules.renew_every(lease) < asked


@given(lease=LEASES)
def test_a_handler_may_block_the_loop_for_three_leases(lease: Span) -> None:
    """B14."""
    assert rules.stall_limit(lease) > 3 * lease


@given(lease=LEASES)
def test_a_look_is_repeated_within_the_span_that_counts_as_sound(lease: Span) -> None:
    assert rules.sweep_every(lease) < lease


@pytest.mark.parametrize(
    ("lease", "margin"), [(1 * SECOND, 83_333), (12 * SECOND, SECOND), (600_000, 50_000)]
)
def test_the_margin_is_a_twelfth_and_never_less_than_fifty_milliseconds(
    lease: int, margin: int
) -> None:
    assert rules.margin(Span(lease)) == margin


LEASE = Span(12 * SECOND)
BEFORE = Look(store=10**15, local=10**9)


@pytest.mark.parametrize(
    ("store", "local", "sound"),
    [
        (3 * SECOND, 3 * SECOND, True),
        (3 * SECOND + 1_000_000, 3 * SECOND, True),
        (3 * SECOND + 1_000_001, 3 * SECOND, False),
        (-60 * SECOND, 3 * SECOND, False),
        (3 * SECOND, -1, False),
        (12 * SECOND, 12 * SECOND, True),
        (12 * SECOND + 1, 12 * SECOND + 1, False),
        (3_600 * SECOND, 3 * SECOND, False),
    ],
    ids=[
        "alike",
        "a margin apart",
        "more than a margin apart",
        "the store's clock went back",
        "ours went back",
        "a lease between the looks",
        "more than a lease between them",
        "the store's clock jumped",
    ],
)
def test_looks_are_sound_when_both_clocks_advanced_alike(
    store: int, local: int, sound: bool
) -> None:
    look = Look(BEFORE.store + store, BEFORE.local + local)

    assert rules.sound(BEFORE, look, lease=LEASE) is sound


def test_a_first_look_is_never_sound() -> None:
    assert not rules.sound(None, BEFORE, lease=LEASE)


@pytest.mark.parametrize(
    ("looking_since", "renewing_since", "judges"),
    [(0, 0, True), (1, 0, False), (0, 1, False), (LEASE, LEASE, False)],
)
def test_a_judge_has_looked_and_renewed_for_a_whole_lease(
    looking_since: int, renewing_since: int, judges: bool
) -> None:
    assert (
        rules.may_judge(
            looking_since=looking_since, renewing_since=renewing_since, now=LEASE, lease=LEASE
        )
        is judges
    )
