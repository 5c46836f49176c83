"""Views: what people look at shows what is there."""

from __future__ import annotations

from onejob.commands import replicas, runs, schedules, views
from onejob.commands.views import JobView
from onejob.core.run import Again, End, LeaveUnknown, Outcome, Park, RunId, Settlement
from onejob.core.time import DAY, SECOND
from onejob.testing.conformance.given import (
    DONE,
    LEASE,
    NOW,
    Run,
    claim,
    defined,
    joined,
    made,
    resumed,
    running,
    settle,
    step,
)


def test_a_run_is_shown_as_it_stands(run: Run) -> None:
    """A06: who has it, since when, under which token."""
    claimed = running(run, key="k", queue="default", priority=3)

    view = run(views.run_get(claimed.id))

    assert view == views.RunView(
        id=claimed.id,
        job="mail",
        key="k",
        state="running",
        outcome=None,
        attempt=1,
        deaths=0,
        interrupted=0,
        token=claimed.token,
        replica="replica-a",
        queue="default",
        priority=3,
        due=NOW,
        started=NOW,
        ended=0,
        error=None,
        result=None,
        progress=None,
        schedule="",
        fire_time=0,
    )


def test_a_run_that_nobody_knows_is_none(run: Run) -> None:
    assert run(views.run_get(RunId(2**60))) is None
    assert run(views.call(RunId(2**60))) is None


def test_what_a_run_was_asked_to_do_can_be_read_while_it_lives_and_after(run: Run) -> None:
    claimed = running(run, key="k")
    live = run(views.call(claimed.id))

    settle(run, claimed.claim, End(Outcome.SUCCEEDED))

    assert live == views.CallView("mail", claimed.args, NOW)
    assert run(views.call(claimed.id)) == live


def test_runs_are_listed_newest_first_up_to_a_limit(run: Run) -> None:
    ids = [made(run, f"k{n}") for n in range(6)]
    for one in claim(run, joined(run), limit=3):
        assert settle(run, one.claim, DONE)

    assert [view.id for view in run(views.runs())] == ids[::-1]
    assert [view.id for view in run(views.runs(limit=4))] == ids[:1:-1]


def test_runs_are_found_by_job_key_schedule_state_and_outcome(run: Run) -> None:
    done = running(run, key="done")
    assert settle(run, done.claim, DONE)
    failed = running(run, key="failed")
    assert settle(run, failed.claim, End(Outcome.FAILED, "?"))
    parked = running(run, key="parked")
    assert settle(run, parked.claim, Park())
    bill = made(run, "bill", job="bill")
    [fired] = run(schedules.tick([step(defined(run), NOW)], replica="a", now=NOW))

    def ids(job: str = "", state: str = "", key: str = "", schedule: str = "") -> list[int]:
        found = run(views.runs(job=job, state=state, key=key, schedule=schedule))
        return [view.id for view in found]

    assert ids(job="bill") == [bill]
    assert ids(key="failed") == [failed.id]
    assert ids(schedule="nightly") == [fired.run_id]
    assert ids(state="parked") == [parked.id]
    assert ids(state="ended") == [failed.id, done.id]
    assert ids(state="failed") == [failed.id]
    assert ids(state="scheduled", job="bill") == [bill]
    assert ids(state="running") == []


def test_the_fleet_shows_live_ones_first_and_what_they_run(run: Run) -> None:
    """A18, A06: stale generations are visible, with version and start."""
    gone = joined(run, "gone", now=NOW + 3)
    assert run(replicas.leave(gone, now=NOW + 4))
    joined(run, "old", declares={"nightly": "n-1"}, now=NOW + 1)
    made(run)
    made(run)
    busy = joined(run, "busy", now=NOW + 2)
    claim(run, busy)
    assert run(replicas.idle(busy, idle=True))

    fleet = run(views.replicas(now=NOW + 5))

    assert [(view.id, view.running, view.idle, view.dead_at) for view in fleet] == [
        ("busy", 2, 1, 0),
        ("old", 0, 0, 0),
        ("gone", 0, 0, NOW + 4),
    ]
    first = fleet[0]
    assert (first.name, first.host, first.pid, first.version) == ("web", "host-1", 4_242, "")
    assert (first.started, first.lease_until, first.now) == (NOW + 2, NOW + 2 + LEASE, NOW + 5)


def test_jobs_are_counted_by_state(run: Run) -> None:
    joined(run, "web", jobs=["mail", "idle"])
    ways_out: list[Settlement] = [Park(), LeaveUnknown("?"), Again(0, Outcome.FAILED)]
    for n, way_out in enumerate(ways_out):
        claimed = running(run, key=f"k{n}")
        assert settle(run, claimed.claim, way_out)
    [again] = claim(run, joined(run))
    assert settle(run, again.claim, DONE, now=NOW + SECOND)
    made(run, job="bill")

    assert run(views.jobs()) == (
        JobView("bill", 1, 0, 0, 0, 0, None),
        JobView("idle", 0, 0, 0, 0, 0, None),
        JobView("mail", 0, 0, 1, 1, NOW + SECOND, "succeeded"),
    )


def test_jobs_that_only_dead_replicas_knew_are_not_listed(run: Run) -> None:
    assert run(replicas.leave(joined(run, jobs=["old"]), now=NOW))

    assert run(views.jobs()) == ()


def test_schedules_show_who_declares_them_and_what_they_missed(run: Run) -> None:
    schedule = defined(run)
    joined(run, "a", declares={"nightly": schedule.definition})
    joined(run, "b", declares={"nightly": "another"})
    gone = joined(run, "c", declares={"nightly": schedule.definition})
    assert run(replicas.leave(gone, now=NOW))
    missed = step(schedule, NOW, missed='{"count":3}', missed_count=3)
    run(schedules.tick([missed], replica="a", now=NOW))

    [view] = run(views.schedules(now=NOW + SECOND))

    assert view == views.ScheduleView(
        name="nightly",
        job="mail",
        timing=schedule.timing,
        policy=schedule.policy,
        last=NOW,
        next_fire=NOW + DAY,
        paused=0,
        broken="",
        dynamic=0,
        args="{}",
        declared=1,
        missed=3,
        lateness=0,
        late=0,
        now=NOW + SECOND,
    )


def test_events_are_read_in_order_between_two_instants(run: Run) -> None:
    defined(run)
    for n in (1, 3):
        assert run(schedules.pause("nightly", now=NOW + n))
        assert resumed(run, now=NOW + n + 1)

    told = run(views.events(schedule="nightly", since=NOW + 1, until=NOW + 3))

    assert [event.at for event in told] == [NOW + 1, NOW + 2, NOW + 3]
    assert len(run(views.events(limit=2))) == 2
    assert run(views.events(schedule="other")) == ()


def test_events_of_one_run_leave_out_those_of_others(run: Run) -> None:
    first, second = running(run, key="a"), running(run, key="b")
    for claimed in (first, second):
        assert settle(run, claimed.claim, Again(0, Outcome.FAILED))

    assert [event.key for event in run(views.events(run_id=second.id))] == ["b"]


def test_a_run_that_was_purged_is_in_no_view(run: Run) -> None:
    claimed = running(run, key="k", keyed=True)
    assert run(runs.settle([(claimed.claim, DONE)], keep=0, now=NOW))
    assert run(runs.purge(limit=10, now=NOW + 1)) == 1

    assert run(views.runs()) == ()
    assert run(views.run_get(claimed.id)) is None


def test_the_stores_clock_rises_and_has_a_realistic_size(run: Run) -> None:
    """E19: microseconds, not milliseconds or seconds."""
    first, second = run(views.clock()), run(views.clock())

    assert 1_700_000_000_000_000 < first <= second < 10_000_000_000_000_000


def test_queues_count_their_runs_by_state_and_tell_the_oldest_due(run: Run) -> None:
    """The age of the oldest due run is what to alert on: it rises where nobody works."""
    made(run, "r", queue="mail")
    claim(run, joined(run, "replica-a"), queues=["mail"])
    made(run, "later", at=NOW + DAY)
    made(run, "first")
    made(run, "second", at=NOW + 5 * SECOND)

    counted = run(views.queues(now=NOW + 60 * SECOND))

    assert counted == (
        views.QueueView("default", 1, 2, 0, 0, 0, 0, 60 * SECOND),
        views.QueueView("mail", 0, 0, 0, 1, 0, 0, 0),
    )


def test_runs_are_filtered_by_queue_and_by_when_something_happened(run: Run) -> None:
    old = made(run, "old", at=NOW + 9 * DAY)
    made(run, "r", queue="mail", now=NOW + DAY)
    [claimed] = claim(run, joined(run, "replica-a"), queues=["mail"], now=NOW + DAY)
    new = made(run, "new", now=NOW + DAY)

    assert [view.id for view in run(views.runs(queue="mail"))] == [claimed.id]
    assert [view.id for view in run(views.runs(since=NOW + DAY))] == [new, claimed.id]
    assert [view.id for view in run(views.runs(since=NOW))] == [new, claimed.id, old]
    assert settle(run, claimed.claim, DONE, now=NOW + 2 * DAY)
    assert [view.id for view in run(views.runs(since=NOW + 2 * DAY))] == [claimed.id]
    assert run(views.runs(since=NOW + 3 * DAY)) == ()
