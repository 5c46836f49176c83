"""The conformance suite on Redis: locks, fences and claims, both colours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onejob.stores.redis import RedisStore
from onejob.testing import conformance
from onejob.testing.conformance import claims, fences, kept_claims, leases, quick_locks, spacing
from onejob.testing.conformance.given import Run

#: They ask for what this store does not have, or cannot be told by it.
ELSEWHERE = {
    "test_kind_scope_and_key_each_tell_claims_apart": "asks for an effect as well",
    "test_the_key_of_a_run_is_never_taken_over": "needs a schedule of ours",
    "test_a_name_that_is_new_gets_its_row_first_and_nobody_yet": "it is taken at once here",
    "test_what_is_told_of_claims_is_forgotten_in_time": "events here are bounded by their number",
}
SUBJECTS = {
    module.__name__ for module in (claims, kept_claims, spacing, leases, quick_locks, fences)
}

globals().update(
    {
        name: test
        for name, test in conformance.tests("run").items()
        if test.__module__ in SUBJECTS and name not in ELSEWHERE
    }
)


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, redis_store: RedisStore) -> Iterator[Run]:
    with conformance.coloured(redis_store, request.param) as run:
        yield run
