"""Group 6: the queue at scale and in life."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

import psycopg

from cases.conftest import Begin, Place
from cases.test_group_2 import enqueued, working
from onejob import AsyncRun, Retry
from onejob.commands import runs, views
from onejob.commands.runs import NewRun
from onejob.core.run import End, Outcome
from onejob.core.time import DAY
from onejob.core.watermark import Probe, full_probes
from onejob.testing.conformance.given import joined


def test_claims_stay_cheap_under_somebodys_open_snapshot(postgres_place: Place) -> None:
    """F01: what a held snapshot keeps from being cleaned away is not read again by each claim."""
    store = postgres_place.app().store
    replica = joined(store.run, lease=10**15)
    with psycopg.connect(postgres_place.url) as onlooker:
        onlooker.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        onlooker.execute("SELECT count(*) FROM pg_class")
        for batch in range(6):
            new = [NewRun("mail", f"{batch}-{n}", "{}") for n in range(1_000)]
            store.run(runs.enqueue(new))
        mark = (-1, -1)
        for _ in range(5):
            probe = Probe("default", 0, *mark)
            held = store.run(runs.claim([probe], jobs=["mail"], replica=replica, limit=1_000))
            done = [(run.claim, End(Outcome.SUCCEEDED)) for run in held]
            store.run(runs.settle(done, keep=DAY))
            mark = (held[-1].due, held[-1].id)

        fast = _pages(postgres_place, runs.claim(
            [Probe("default", 0, *mark)], jobs=["mail"], replica=replica, limit=10
        ))  # fmt: skip
        full = _pages(postgres_place, runs.claim(
            full_probes(["default"]), jobs=["mail"], replica=replica, limit=10
        ))  # fmt: skip

    assert fast < 300
    assert fast < full


def _pages(place: Place, command: object) -> int:
    """Carry a command out, roll it back, and return how many pages it looked at."""
    [statement] = place.app().store.statements(command, "pyformat")
    with psycopg.connect(place.url) as connection:
        text = b"EXPLAIN (ANALYZE, BUFFERS) " + statement.text.encode()
        rows = connection.execute(text, statement.parameters).fetchall()
        connection.rollback()
    [first] = [str(row[0]) for row in rows if "Buffers:" in str(row[0])][:1]
    return sum(int(n) for n in re.findall(r"(?:hit|read)=(\d+)", first))


def test_a_pod_that_comes_back_under_its_old_name_holds_nothing(place: Place, begin: Begin) -> None:
    """F10: same host, same pid, fresh heartbeats; it is another replica, and the run moves on."""
    timeline, begun = begin(), []

    async def work(run: AsyncRun) -> None:
        begun.append(run.replica)
        await asyncio.sleep(3_600 if run.attempt == 1 else 0)

    app, job = working(place, work, lease="3s", poll="1s")
    first = timeline.replica(app)
    timeline.go(4)
    id = enqueued(timeline, job)
    timeline.go(2)

    first.kill()
    timeline.replica(working(place, work, lease="3s", poll="1s")[0])
    timeline.go(12)

    run = app.runs.get(id)
    assert run is not None
    assert (run.outcome, run.deaths) == ("succeeded", 1)
    assert len(set(begun)) == 2


def test_a_run_of_an_unknown_job_waits_for_whoever_knows_it(place: Place, begin: Begin) -> None:
    """F14: the old worker parks it, visibly, and spends no attempt; the new one runs it."""
    timeline, done = begin(), []
    old = place.app(lease="3s", poll="1s", version=1)

    @old.job()
    async def mail() -> None: ...

    timeline.replica(old)
    timeline.go(4)
    new, job = working(place, lambda run: done.append(run.attempt), lease="3s", poll="1s")
    id = enqueued(timeline, job)

    timeline.go(8)
    parked = new.runs.get(id)
    listed = {one.job: one.parked for one in timeline.ask(views.jobs())}
    timeline.replica(new)
    timeline.go(8)

    assert parked is not None
    assert (parked.state, parked.attempt) == ("parked", 0)
    assert listed["resize"] == 1
    assert done == [1]


def test_two_versions_share_one_queue_during_a_deploy(place: Place, begin: Begin) -> None:
    """F18: each run is done once, and what only the new version knows by the new version."""
    timeline, done = begin(), Counter[str]()
    apps = []
    for version in (1, 2):
        app = place.app(lease="6s", poll="1s", version=version)

        @app.job()
        async def resize(run: AsyncRun) -> None:
            done[f"resize {run.key}"] += 1
            await asyncio.sleep(0.1)

        if version == 2:

            @app.job()
            async def crop(run: AsyncRun) -> None:
                done[f"crop {run.key}"] += 1

        apps.append(app)
        timeline.replica(app)
    timeline.go(2)
    for n in range(50):
        for job in apps[1].jobs.values():
            enqueued(timeline, job, key=str(n))

    timeline.go("1m")

    assert len(done) == 100
    assert set(done.values()) == {1}
    assert timeline.told()["run.ended"] == 100


def test_one_bad_job_leaves_its_neighbours_alone(place: Place, begin: Begin) -> None:
    """F19, B04: among a hundred runs one raises and one kills its worker; 98 are done."""
    timeline, done = begin(), []

    async def work(run: AsyncRun) -> None:
        if run.key == "raises":
            raise ValueError("bad image")
        if run.key == "kills":
            holder = [r for r in timeline.replicas if str(r.replica.membership.id) == run.replica]
            holder[0].kill()
        await asyncio.sleep(0.01)
        done.append(run.key)

    options = {"lease": "3s", "poll": "1s", "concurrency": 5, "retry": Retry(attempts=1)}
    for _ in range(4):
        app, job = working(place, work, **options)
        timeline.replica(app)
    timeline.go(4)
    for n in range(100):
        enqueued(timeline, job, key={40: "raises", 60: "kills"}.get(n, str(n)))

    timeline.go("1m")

    ended = app.runs.find(job="resize", state="ended", limit=200)
    assert Counter(run.outcome for run in ended) == {"succeeded": 98, "failed": 1, "abandoned": 1}
    assert len(set(done)) == 98
