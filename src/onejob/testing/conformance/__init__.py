"""The conformance suite: what every store must do, as tests that take the store as an argument.

A test is a function that takes ``run`` (carry out a command, return its answer) and nothing else,
so it covers every store and both colours. Tests that take ``sessions`` need two transactions open
at once, for one connection cannot show that a guard holds; those that take ``row_sessions`` need
locks on single rows besides. A store's test file collects what it can answer for::

    from onejob.testing import conformance

    globals().update(conformance.tests("run", "sessions"))

and provides fixtures of those names. Each test starts from an empty store, gives ``now`` itself
and never waits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from onejob.testing.conformance import (
    claim,
    definitions,
    effects,
    enqueue,
    fence,
    ledger,
    purge,
    retry,
    rows,
    settle,
    sweep,
    tick,
    views,
)
from onejob.testing.conformance.bridge import Bridge
from onejob.testing.conformance.sessions import Busy, Session, Sessions

__all__ = ["SUBJECTS", "Bridge", "Busy", "Session", "Sessions", "tests"]

SUBJECTS = (
    enqueue,
    claim,
    settle,
    retry,
    fence,
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
