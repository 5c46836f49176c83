"""The conformance suite on the memory model, sync and async; and what only this store refuses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onejob.commands import replicas, runs, schedules, views
from onejob.commands.runs import NewRun
from onejob.core.time import SECOND
from onejob.errors import UnsupportedByStore
from onejob.stores.memory import MemoryStore
from onejob.stores.protocol import Lane, Store
from onejob.testing import conformance
from onejob.testing.conformance.given import NOW, Run, defined, joined, made, step

globals().update(conformance.tests("run"))


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore(lambda: NOW)
    store.tables.token = store.tables.run_id = 2**53
    return store


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, store: MemoryStore) -> Iterator[Run]:
    with conformance.coloured(store, request.param) as run:
        yield run


def test_a_transaction_for_the_users_data_is_refused_with_advice(store: MemoryStore) -> None:
    with pytest.raises(UnsupportedByStore, match="sqlite:///"):
        store.transaction(longest=SECOND)
    with pytest.raises(UnsupportedByStore, match="sqlite:///"):
        store.statements(views.clock(), "named")


def test_the_given_clock_stands_in_for_an_absent_now(store: MemoryStore) -> None:
    [one] = store.run(runs.enqueue([NewRun("mail", "k", "{}")]))

    view = store.run(views.run_get(one.id))
    assert view is not None
    assert view.due == NOW


def test_a_lane_is_hinted_only_when_runs_are_made_while_a_replica_is_idle(
    store: MemoryStore,
) -> None:
    as_store: Store = store
    lane: Lane = as_store.lane(patience=SECOND)
    replica = joined(lane.run)
    made(lane.run, "before it listens")
    assert lane.listen()

    made(lane.run, "while nobody is idle")
    while_busy = lane.hinted()
    lane.run(replicas.idle(replica, idle=True))
    made(lane.run, "k", keyed=True)
    once, again = lane.hinted(), lane.hinted()
    lane.run(runs.enqueue([NewRun("mail", "k", "{}", keyed=True)], now=NOW))
    for_a_known_key = lane.hinted()
    lane.run(schedules.tick([step(defined(lane.run), NOW)], replica=replica, now=NOW))
    for_a_tick = lane.hinted()
    lane.close()

    assert (while_busy, once, again) == (False, True, False)
    assert (for_a_known_key, for_a_tick) == (False, True)
    assert lane.fileno() is None
