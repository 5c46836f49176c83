"""The conformance suite on the memory model, sync and async."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from onejob.stores.memory import MemoryStore
from onejob.testing import conformance
from onejob.testing.conformance.given import Run

globals().update(conformance.tests("run"))


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    store = MemoryStore(lambda: time.time_ns() // 1_000)
    store.tables.token = store.tables.run_id = 2**53
    with conformance.coloured(store, request.param) as run:
        yield run
