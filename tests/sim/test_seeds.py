"""The production loops under a few hundred seeds of faults: no promise breaks (P1 to P7)."""

from __future__ import annotations

from collections import Counter

import pytest

from onejob.prove import report
from onejob.prove.simulate import simulate

#: Plays in one test, so that several workers can share them.
BLOCK = 10
BLOCKS = 20


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_promise_breaks_under_these_seeds(block: int) -> None:
    tried: Counter[tuple[str, str]] = Counter()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        played = simulate(seed)

        tried.update(map(report.pair, played.injected))
        assert played.failures == (), report.failure(seed, played.failures, played.injected)
    assert sum(tried.values()) > BLOCK, "faults were injected"
