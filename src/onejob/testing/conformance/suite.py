"""What the suite consists of, and which tests a store can answer for."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from onejob.testing.conformance import (
    claim,
    definitions,
    effects,
    enqueue,
    fence,
    guards,
    ledger,
    purge,
    retry,
    rows,
    settle,
    sweep,
    tick,
    views,
)

SUBJECTS = (
    enqueue,
    claim,
    settle,
    retry,
    fence,
    guards,
    sweep,
    definitions,
    tick,
    ledger,
    effects,
    purge,
    views,
    rows,
)


def tests(*fixtures: str) -> dict[str, Callable[..., None]]:
    """Return the tests that need no fixtures but these, by name."""
    found: dict[str, Callable[..., None]] = {}
    for subject in SUBJECTS:
        for name, test in vars(subject).items():
            if name.startswith("test_") and set(inspect.signature(test).parameters) <= {*fixtures}:
                assert name not in found, f"two tests claim {name}"
                found[name] = test
    return found
