"""Group 2: redelivery and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from cases.conftest import MONDAY, Begin, Place
from cases.timeline import Simulated, Timeline
from onejob import App, AsyncRun, Job, Retry
from onejob.commands.command import Command
from onejob.errors import LeaseLost, OutcomeUnknown, StoreUnavailable


def working(place: Place, work: Callable[[AsyncRun], object], **options: object) -> tuple[App, Job]:
    """Return an App with one job, ``resize``, that does ``work``; and the job."""
    job_options = {
        k: options.pop(k) for k in ("retry", "timeout", "on_replica_loss") if k in options
    }
    app = place.app(**options)

    @app.job(**job_options)
    async def resize(run: AsyncRun) -> None:
        answer = work(run)
        if asyncio.iscoroutine(answer):
            await answer

    return app, resize


def enqueued(timeline: Timeline, job: Job, **using: object) -> int:
    """Ask for a run as some producer does at the timeline's present time."""
    return job.using(at=timeline.now(), **using).enqueue().run_id


def test_a_run_due_in_ten_hours_is_not_claimed_before(place: Place, begin: Begin) -> None:
    """B01: nothing is leased early, so nothing can be handed out again and again."""
    timeline, effects = begin(), []
    options = {"lease": "1h", "poll": "10m"}
    fleet = [
        timeline.replica(working(place, lambda run: effects.append(timeline.now()), **options)[0])
        for _ in range(4)
    ]
    _, job = working(place, lambda run: None)
    run = job.using(at=MONDAY, delay="10h").enqueue()

    timeline.go("9h59m")
    waiting = place.app().runs.get(run.run_id)
    timeline.go("5m")

    assert waiting is not None
    assert (waiting.state, waiting.attempt) == ("scheduled", 0)
    [at] = effects
    assert timedelta(0) <= at - (MONDAY + timedelta(hours=10)) <= timedelta(seconds=1)
    assert sum(replica.told["run.ended"] for replica in fleet) == 1


def test_a_run_that_takes_many_leases_is_not_handed_out_again(place: Place, begin: Begin) -> None:
    """A13, B02: the lease is renewed while the work goes on."""
    timeline, begun = begin(), []

    async def work(run: AsyncRun) -> None:
        begun.append(run.attempt)
        await asyncio.sleep(7)
        run.check()

    for _ in range(2):
        app, job = working(place, work, lease="2s", poll="2s")
        timeline.replica(app)
    timeline.go(3)
    id = enqueued(timeline, job)

    timeline.go(20)

    run = app.runs.get(id)
    assert run is not None
    assert (begun, run.outcome, run.attempt, run.deaths) == ([1], "succeeded", 1, 0)


def test_without_renewals_others_take_over_and_one_attempt_alone_commits(
    place: Place, begin: Begin
) -> None:
    """B03, C09: the first holder works on for five leases, and its write is refused."""
    timeline, begun, committed = begin(), [], []

    async def work(run: AsyncRun) -> None:
        begun.append(run.attempt)
        if run.attempt == 1:
            holder = next(r for r in timeline.replicas if r.replica.membership.id == run.replica)
            holder.keeper.freeze()
            await asyncio.sleep(5 * 3)
        run.check()
        committed.append(run.attempt)

    for _ in range(4):
        app, job = working(place, work, lease="3s", poll="1s")
        timeline.replica(app)
    timeline.go(4)
    id = enqueued(timeline, job)

    timeline.go(40)

    run = app.runs.get(id)
    assert run is not None
    assert begun == [1, 2]
    assert committed == [2]
    assert (run.outcome, run.attempt, run.deaths) == ("succeeded", 2, 1)


@pytest.mark.parametrize("policy", ["retry", "fail", "unknown"])
def test_a_killed_workers_run_never_stays_running(place: Place, begin: Begin, policy: str) -> None:
    """B07, B16, F11: within a lease and a sweep, by the job's own policy, whatever its timeout."""
    timeline, begun = begin(), []

    async def work(run: AsyncRun) -> None:
        begun.append(timeline.now())
        if len(begun) == 1:
            await asyncio.sleep(3_600)

    fleet, job = [], None
    for _ in range(2):
        app, job = working(place, work, lease="5s", poll="1s", timeout="2h", on_replica_loss=policy)
        fleet.append(timeline.replica(app))
    timeline.go(6)
    id = enqueued(timeline, job)
    timeline.go(3)
    run = app.runs.get(id)
    assert run is not None
    holder = next(r for r in fleet if str(r.replica.membership.id) == run.replica)

    holder.kill()
    killed = timeline.now()
    timeline.go(10)

    run = app.runs.get(id)
    assert run is not None
    expected = {"retry": ("ended", "succeeded"), "fail": ("ended", "abandoned")}
    assert (run.state, run.outcome) == expected.get(policy, ("unknown", None))
    if policy == "retry":
        assert begun[1] - killed < timedelta(seconds=8)


def test_a_run_that_kills_its_worker_ends_after_the_third(place: Place, begin: Begin) -> None:
    """B04, B05: attempts are counted as they begin, on the run itself; a fourth worker lives."""
    timeline, begun = begin(), []

    async def work(run: AsyncRun) -> None:
        begun.append((run.id, run.attempt))
        holder = next(r for r in timeline.replicas if str(r.replica.membership.id) == run.replica)
        holder.kill()
        await asyncio.sleep(3_600)

    for _ in range(4):
        app, job = working(place, work, lease="3s", poll="1s")
        timeline.replica(app)
    timeline.go(4)
    id = enqueued(timeline, job)

    timeline.go("1m")

    run = app.runs.get(id)
    assert run is not None
    assert begun == [(id, 1), (id, 2), (id, 3)]
    assert (run.outcome, run.deaths) == ("abandoned", 3)
    assert "worker lost 3 times" in str(run.error)
    assert [replica.main.dead for replica in timeline.replicas].count(False) == 1


def test_every_way_back_is_counted_and_only_a_clean_stop_is_free(
    place: Place, begin: Begin
) -> None:
    """B06: an error, a death, a person's retry: each spends an attempt; a clean stop does not."""
    timeline, counted = begin(), []

    async def work(run: AsyncRun) -> None:
        counted.append(run.attempt)
        if len(counted) == 1:
            raise ConnectionError("socket dropped")
        if len(counted) in (2, 3):
            await asyncio.sleep(3_600)
        raise ValueError("no such image")

    def replica() -> tuple[Simulated, App, Job]:
        app, job = working(
            place,
            work,
            lease="3s",
            poll="1s",
            grace="1s",
            retry=Retry(attempts=9, base="1s", cap="1s", give_up_on=ValueError),
        )
        return timeline.replica(app), app, job

    first, app, job = replica()
    timeline.go(4)
    id = enqueued(timeline, job)
    timeline.go(10)
    first.kill()
    second, _, _ = replica()
    timeline.go(10)
    second.stop()
    timeline.go(10)
    replica()
    timeline.go(10)
    ended = app.runs.get(id)
    assert app.runs.retry(id)
    timeline.go(10)

    assert counted == [1, 2, 3, 3, 4]
    run = app.runs.get(id)
    assert ended is not None
    assert run is not None
    assert (ended.attempt, ended.deaths, ended.interrupted) == (3, 1, 1)
    assert (run.id, run.attempt, run.outcome) == (ended.id, 4, "failed")


def test_prefetched_runs_are_not_started_under_a_dead_lease(place: Place, begin: Begin) -> None:
    """B11: the first one outlasts the lease; the nine that waited behind it begin elsewhere."""
    timeline, begun = begin(), []

    async def work(run: AsyncRun) -> None:
        begun.append((run.replica, run.key))
        if run.key == "long" and run.attempt == 1:
            await asyncio.sleep(20)

    app, job = working(place, work, lease="3s", poll="1s", concurrency=1)
    holder = timeline.replica(app)
    timeline.go(4)
    for n in range(30):
        enqueued(timeline, job, key=f"quick {n}")
    timeline.go(4)
    enqueued(timeline, job, key="long")
    for n in range(9):
        enqueued(timeline, job, key=f"behind {n}")
    timeline.go(1.5)
    assert len(app.runs.find(state="running")) == 10, "nothing was prefetched, nothing is shown"
    holder_id = begun[0][0]

    holder.keeper.freeze()
    timeline.replica(working(place, work, lease="3s", poll="1s", concurrency=1)[0])
    timeline.go(60)

    elsewhere = {key for replica, key in begun if replica != holder_id}
    assert {f"behind {n}" for n in range(9)} <= elsewhere
    assert len(begun) == 30 + 9 + 2


def test_a_frozen_workers_late_completion_is_refused(place: Place, begin: Begin) -> None:
    """B13, B20, C02: it wakes up, reports, and the run goes on under the second attempt."""
    timeline, begun = begin(), []

    async def work(run: AsyncRun) -> None:
        begun.append(run.attempt)
        await asyncio.sleep(5 if run.attempt == 1 else 30)

    app, job = working(place, work, lease="3s", poll="1s")
    first = timeline.replica(app)
    timeline.go(4)
    id = enqueued(timeline, job)
    timeline.go(1.5)
    mine = first.replica.membership.id

    first.freeze()
    timeline.replica(working(place, work, lease="3s", poll="1s")[0])
    timeline.go(15)
    first.thaw()
    timeline.go(5)

    run = app.runs.get(id)
    assert run is not None
    assert begun == [1, 2]
    assert (run.state, run.attempt) == ("running", 2)
    assert run.replica != mine
    assert first.told["replica.lost"] == 1
    timeline.go(30)
    run = app.runs.get(id)
    assert run is not None
    assert (run.outcome, run.attempt) == ("succeeded", 2)


def test_a_handler_that_blocks_the_loop_keeps_its_lease(place: Place, begin: Begin) -> None:
    """B14: renewals have a thread of their own; three leases of computing lose nothing."""
    timeline, begun = begin(), []

    async def work(run: AsyncRun) -> None:
        begun.append(run.attempt)
        await asyncio.sleep(1)
        run.check()

    app, job = working(place, work, lease="3s", poll="1s")
    busy = timeline.replica(app)
    timeline.go(4)
    timeline.replica(working(place, work, lease="3s", poll="30s")[0])
    timeline.go(1)
    id = enqueued(timeline, job)
    timeline.go(1.2)

    busy.main.freeze()
    timeline.go(9)
    busy.main.thaw()
    timeline.go(3)

    run = app.runs.get(id)
    assert run is not None
    assert (begun, run.outcome, run.attempt) == ([1], "succeeded", 1)
    assert busy.told["replica.lost"] == 0


def test_five_clean_stops_spend_none_of_two_attempts(place: Place, begin: Begin) -> None:
    """B15: deploys are counted apart from failures."""
    timeline, begun = begin(), []

    async def work(run: AsyncRun) -> None:
        begun.append(run.attempt)
        await asyncio.sleep(3_600 if len(begun) <= 5 else 0)

    options = {"lease": "3s", "poll": "1s", "grace": "1s", "retry": Retry(attempts=2)}
    id, app = 0, place.app()
    for _ in range(5):
        app, job = working(place, work, **options)
        replica = timeline.replica(app)
        id = id or enqueued(timeline, job)
        timeline.go(6)
        replica.stop()
        timeline.go(3)
        assert replica.left is True
    stopped = app.runs.get(id)
    timeline.replica(working(place, work, **options)[0])
    timeline.go(6)

    run = app.runs.get(id)
    assert stopped is not None
    assert run is not None
    assert (stopped.state, stopped.attempt, stopped.interrupted) == ("scheduled", 0, 5)
    assert (begun, run.outcome) == ([1] * 6, "succeeded")


def test_a_finish_whose_reply_is_lost_is_not_abandoned_later(place: Place, begin: Begin) -> None:
    """B17: written, unheard, asked again, swept over: it stays what it was."""
    timeline, lost = begin(), []

    def trouble(replica: Simulated, command: Command) -> OutcomeUnknown | None:
        if command.name == "run_settle" and len(lost) < 2:
            lost.append(timeline.ask(command))
            return OutcomeUnknown("run_settle", "the store", "connection reset")
        return None

    app, job = working(place, lambda run: None, lease="3s", poll="1s")
    first = timeline.replica(app, trouble=trouble)
    timeline.replica(working(place, lambda run: None, lease="3s", poll="1s")[0])
    timeline.go(4)
    id = enqueued(timeline, job)
    timeline.go(3)
    first.kill()
    timeline.go(20)

    [run] = app.runs.find(job="resize")
    assert (run.id, run.outcome, run.attempt, run.deaths) == (id, "succeeded", 1, 0)


def test_a_holder_stops_believing_before_another_may_begin(place: Place, begin: Begin) -> None:
    """C19, C06, P6: its renewals fail; by the time of the next attempt it knows for long."""
    timeline, believed, begun = begin(), [], []
    cut: list[bool] = []

    async def work(run: AsyncRun) -> None:
        begun.append((run.attempt, timeline.now()))
        if run.attempt > 1:
            return
        cut.append(True)
        while True:
            try:
                run.check()
            except LeaseLost:
                break
            believed.append(timeline.now())
            await asyncio.sleep(0.05)

    def trouble(replica: Simulated, command: Command) -> StoreUnavailable | None:
        return StoreUnavailable("the store", "network unreachable") if cut else None

    app, job = working(place, work, lease="3s", poll="1s")
    timeline.replica(app, trouble=trouble)
    timeline.go(4)
    timeline.replica(working(place, work, lease="3s", poll="30s")[0])
    timeline.go(1)
    enqueued(timeline, job)

    timeline.go(40)

    assert [attempt for attempt, _ in begun] == [1, 2]
    assert believed[-1] < begun[1][1]
