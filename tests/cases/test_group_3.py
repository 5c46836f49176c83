"""Group 3: locks and leases, as far as runs and effects have them."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from cases.conftest import Begin, Place
from cases.test_group_2 import enqueued, working
from cases.timeline import Simulated
from onejob import AsyncRun, InProgress, StoreUnavailable
from onejob.commands import runs
from onejob.commands.command import Command
from onejob.core.keys import fire_key, provider_key
from onejob.core.run import ReplicaId
from onejob.core.time import Instant
from onejob.core.watermark import full_probes
from onejob.testing.conformance.given import joined, made


def test_a_terminated_worker_lets_go_only_after_its_job_has_ended(
    place: Place, begin: Begin
) -> None:
    """C07, F12: five seconds of work within the grace period are finished, not handed over."""
    timeline, begun = begin(), []

    async def work(run: AsyncRun) -> None:
        begun.append((run.attempt, timeline.now()))
        await asyncio.sleep(5)

    options = {"lease": "3s", "poll": "1s", "grace": "10s"}
    app, job = working(place, work, **options)
    first = timeline.replica(app)
    timeline.go(4)
    id = enqueued(timeline, job)
    timeline.go(2)
    timeline.replica(working(place, work, **options)[0])

    first.stop()
    timeline.go(20)

    run = app.runs.get(id)
    assert run is not None
    assert [attempt for attempt, _ in begun] == [1]
    assert (first.left, run.outcome, run.interrupted) == (False, "succeeded", 0)


def test_a_job_longer_than_the_grace_period_is_given_back_within_it(
    place: Place, begin: Begin
) -> None:
    """F12, F13: nothing of the stopped worker's is left, and it says that work was left."""
    timeline = begin()

    async def work(run: AsyncRun) -> None:
        await asyncio.sleep(60)

    app, job = working(place, work, lease="3s", poll="1s", grace="10s")
    worker = timeline.replica(app)
    timeline.go(4)
    id = enqueued(timeline, job)
    timeline.go(2)
    mine = ReplicaId(str(worker.replica.membership.id))

    worker.stop()
    timeline.go(11)

    run = app.runs.get(id)
    assert run is not None
    assert (worker.left, run.state, run.interrupted, run.attempt) == (True, "scheduled", 1, 0)
    assert timeline.ask(runs.held(mine)) == ()
    assert worker.told["replica.left"] == 1


def test_a_dead_workers_open_connection_keeps_nothing(
    postgres_place: Place, begin_postgres: Begin
) -> None:
    """C17: a pooler may hold the session of a killed client; the lease does not hang on it."""
    timeline, begun = begin_postgres(), []

    async def work(run: AsyncRun) -> None:
        begun.append(run.attempt)
        await asyncio.sleep(3_600 if run.attempt == 1 else 0)

    options = {"lease": "3s", "poll": "1s"}
    app, job = working(postgres_place, work, **options)
    first = timeline.replica(app)
    timeline.go(4)
    id = enqueued(timeline, job)
    timeline.go(2)

    first.kill()
    open_sessions = app.store.run(runs.standings([]))
    timeline.replica(working(postgres_place, work, **options)[0])
    timeline.go(15)

    run = app.runs.get(id)
    assert open_sessions == {}
    assert run is not None
    assert (begun, run.outcome) == ([1, 2], "succeeded")


def test_with_every_exclusion_gone_an_effect_still_happens_once(place: Place) -> None:
    """C14, E22, E23: twenty callers that nothing keeps apart; one gets through to the provider."""
    app, called = place.app(), []
    together = threading.Barrier(20)

    def charge() -> str:
        called.append(threading.get_ident())
        time.sleep(0.1)
        return "receipt"

    def ask(_: int) -> object:
        together.wait()
        try:
            return app.effect("invoice 7", "charge", charge)
        except InProgress as refused:
            return refused.code

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(ask, range(20)))

    assert len(called) == 1
    assert set(answers) <= {"receipt", "in_progress"}
    assert answers.count("receipt") >= 1
    assert app.effect("invoice 7", "charge", charge) == "receipt"
    assert len(called) == 1


def test_names_derived_for_others_stay_what_they_are() -> None:
    """C22: a change would make old and new replicas talk of different things during a deploy."""
    assert fire_key("nightly", Instant(1_774_746_000_000_000)) == "nightly@2026-03-29T01:00:00Z"
    assert provider_key("shop", "bill/7", "charge") == "oj-e90dc1810955a982dff264918edc5819"


def test_two_installations_on_one_database_are_independent(place: Place) -> None:
    """C21, C26: the same keys of the same jobs and effects, in two schemas."""
    other = Place(place.url, f"{place.schema}_b", place.apps)
    other.app().store.init()
    made = []
    for one in (place, other):
        app = one.app()

        @app.job()
        def resize() -> None: ...

        made.append(resize.using(key="7").enqueue().created)
        made.append(app.effect("invoice 7", "charge", lambda: True))

    assert made == [True] * 4
    assert [len(one.apps[0].runs.find()) for one in (place, other)] == [1, 1]


KILLED_CLAIM = """
import os, signal, sqlite3, sys
from onejob.commands import runs
from onejob.core.run import ReplicaId
from onejob.core.watermark import full_probes
from onejob.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
claim = runs.claim(full_probes(["default"]), jobs=["mail"], replica=ReplicaId("replica-a"), limit=5)
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
for step in store.statements(claim, "named")[: int(sys.argv[2])]:
    connection.execute(step.text, step.parameters).fetchall()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_claim_that_dies_at_any_statement_leaves_the_run_where_it_was(
    sqlite_place: Place,
) -> None:
    """B18: there is no place between scheduled and running for a run to be lost in."""
    app = sqlite_place.app()
    id = made(app.store.run)
    replica = joined(app.store.run, lease=10**15)
    claim = runs.claim(full_probes(["default"]), jobs=["mail"], replica=replica, limit=5)
    steps = len(app.store.statements(claim, "named"))

    for boundary in range(steps + 1):
        path = sqlite_place.url.removeprefix("sqlite:///")
        command = [sys.executable, "-c", KILLED_CLAIM, path, str(boundary)]
        assert subprocess.run(command, check=False).returncode == -9
        run = app.runs.get(id)
        assert run is not None
        assert (run.state, run.attempt, run.token) == ("scheduled", 0, 0)

    assert [one.id for one in app.store.run(claim)] == [id]


def test_a_claim_is_one_statement_on_postgresql(postgres_place: Place) -> None:
    """B18: what a server carries out whole cannot be left in the middle."""
    claim = runs.claim(full_probes(["default"]), jobs=["mail"], replica=ReplicaId("a"), limit=5)

    assert len(postgres_place.app().store.statements(claim, "pyformat")) == 1


def test_a_worker_outlives_a_file_that_is_locked_for_seconds(sqlite_place: Place) -> None:
    """C31: another process holds the only lock there is; nothing ends, and work goes on."""
    app = sqlite_place.app(lease="6s", poll="200ms")

    @app.job()
    def resize(image_id: int) -> int:
        return image_id

    app.start()
    before = app.runs.wait(resize.enqueue(1).run_id, timeout=10)
    replica = app.status().replica
    with closing(sqlite3.connect(app.store.where, isolation_level=None)) as backup:
        backup.execute("BEGIN EXCLUSIVE")
        time.sleep(3)
        backup.execute("ROLLBACK")
    after = app.runs.wait(resize.enqueue(2).run_id, timeout=10)

    assert (before.outcome, after.outcome) == ("succeeded", "succeeded")
    assert app.status().replica == replica
    assert app.stop() is False


def test_an_exhausted_pool_is_not_taken_for_a_lost_lease(place: Place, begin: Begin) -> None:
    """C18: what ended is written as soon as there is a connection again, and never forgotten."""
    timeline, refused = begin(), []

    def trouble(replica: Simulated, command: Command[object]) -> StoreUnavailable | None:
        if command.name == "run_settle" and len(refused) < 5:
            refused.append(timeline.now())
            return StoreUnavailable("the store", "sorry, too many clients already")
        return None

    app, job = working(place, lambda run: None, lease="3s", poll="1s")
    replica = timeline.replica(app, trouble=trouble)
    timeline.go(4)
    id = enqueued(timeline, job)
    timeline.go(20)

    run = app.runs.get(id)
    assert run is not None
    assert len(refused) == 5
    assert (run.outcome, run.attempt, run.deaths) == ("succeeded", 1, 0)
    assert replica.told["replica.lost"] == replica.told["run.lost"] == 0
