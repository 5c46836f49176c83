"""The conformance suite on SQLite, sync and async, with sessions of the users' kind beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onejob.stores.sqlite import SqliteStore
from onejob.testing import conformance
from onejob.testing.conformance.given import Run

globals().update(conformance.tests("run", "sessions"))


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, sqlite_store: SqliteStore) -> Iterator[Run]:
    with conformance.coloured(sqlite_store, request.param) as run:
        yield run


@pytest.fixture
def sessions(sqlite_sessions: conformance.Sessions) -> conformance.Sessions:
    return sqlite_sessions
