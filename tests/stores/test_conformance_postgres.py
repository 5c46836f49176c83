"""The conformance suite on PostgreSQL, sync and async, with row locks shown by two sessions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onejob.stores.postgres import PostgresStore
from onejob.testing import conformance
from onejob.testing.conformance.given import Run

globals().update(conformance.tests("run", "sessions", "row_sessions"))


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, postgres_store: PostgresStore) -> Iterator[Run]:
    with conformance.coloured(postgres_store, request.param) as run:
        yield run


@pytest.fixture
def sessions(postgres_sessions: conformance.Sessions) -> conformance.Sessions:
    return postgres_sessions


@pytest.fixture
def row_sessions(postgres_sessions: conformance.Sessions) -> conformance.Sessions:
    return postgres_sessions
