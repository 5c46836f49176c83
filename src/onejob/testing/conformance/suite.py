"""What the suite consists of, and which tests a store can answer for."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from onejob.testing.conformance import (
    cancel,
    claim,
    claims,
    definitions,
    effects,
    effects_many,
    enqueue,
    fence,
    fences,
    guards,
    health,
    inbox,
    kept_claims,
    leases,
    ledger,
    overlap,
    purge,
    put,
    quick_locks,
    retry,
    rows,
    settle,
    spacing,
    sweep,
    tick,
    ticks,
    views,
    waiters,
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
    put,
    tick,
    ticks,
    overlap,
    cancel,
    ledger,
    effects,
    effects_many,
    inbox,
    claims,
    kept_claims,
    spacing,
    purge,
    views,
    health,
    rows,
    leases,
    waiters,
    quick_locks,
    fences,
)


def tests(*fixtures: str) -> dict[str, Callable[..., None]]:
    """Return the tests that need no fixtures but these, by name."""
    found: dict[str, Callable[..., None]] = {}
    for subject in SUBJECTS:
        for name, test in vars(subject).items():
            if name.startswith("test_") and _fixtures_of(test) <= {*fixtures}:
                assert name not in found, f"two tests claim {name}"
                found[name] = test
    return found


def _fixtures_of(test: Callable[..., None]) -> set[str]:
    """Return what a test asks of its store, without the values that it brings itself."""
    own: set[str] = set()
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            names = mark.args[0]
            own |= set(names.replace(",", " ").split() if isinstance(names, str) else names)
    return set(inspect.signature(test).parameters) - own
