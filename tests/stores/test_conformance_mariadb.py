"""The conformance suite on MariaDB: locks, fences and claims, both colours, with two sessions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onejob.stores.mariadb import MariadbStore
from onejob.testing import conformance
from onejob.testing.conformance import claims, fences, kept_claims, leases, quick_locks, spacing
from onejob.testing.conformance.given import Run

#: They ask for what this store does not have.
ELSEWHERE = {
    "test_kind_scope_and_key_each_tell_claims_apart": "asks for an effect as well",
    "test_the_key_of_a_run_is_never_taken_over": "needs a schedule of ours",
}
SUBJECTS = {
    module.__name__ for module in (claims, kept_claims, spacing, leases, quick_locks, fences)
}

globals().update(
    {
        name: test
        for name, test in conformance.tests("run", "sessions", "row_sessions").items()
        if test.__module__ in SUBJECTS and name not in ELSEWHERE
    }
)


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, mariadb_store: MariadbStore) -> Iterator[Run]:
    with conformance.coloured(mariadb_store, request.param) as run:
        yield run


@pytest.fixture
def sessions(mariadb_sessions: conformance.Sessions) -> conformance.Sessions:
    return mariadb_sessions


@pytest.fixture
def row_sessions(mariadb_sessions: conformance.Sessions) -> conformance.Sessions:
    return mariadb_sessions
