"""Replicas and the sweep: one lease per process, and what happens to the runs of dead ones."""

from __future__ import annotations

import pytest

from onejob.commands import replicas, runs, schedules, views
from onejob.core.run import Again, Outcome, ReplicaId
from onejob.core.time import HOUR, SECOND
from onejob.testing.conformance.given import (
    DONE,
    LEASE,
    NOW,
    Run,
    claim,
    defined,
    joined,
    made,
    new_replica,
    running,
    settle,
    state,
)
from onejob.testing.conformance.sessions import Sessions, gets_nothing


def test_a_lease_counts_from_the_stores_now(run: Run) -> None:
    replica = joined(run)

    until = [run(replicas.look(now=NOW)).next_lapse]
    assert run(replicas.renew(replica, lease=LEASE, now=NOW + 4 * SECOND))
    until += [run(replicas.look(now=NOW)).next_lapse]

    assert until == [NOW + LEASE, NOW + 4 * SECOND + LEASE]


def test_joining_twice_under_one_id_is_joining_once(run: Run) -> None:
    """A join whose reply was lost may simply be asked again."""
    joined(run)
    joined(run, now=NOW + SECOND)

    [view] = run(views.replicas(now=NOW))
    assert (view.started, view.lease_until) == (NOW, NOW + SECOND + LEASE)


def test_a_lapsed_replica_is_judged_once(run: Run) -> None:
    replica, late = joined(run), NOW + LEASE + 1

    assert run(replicas.judge(now=late)) == (replica,)
    assert run(replicas.judge(now=late)) == ()


def test_nobody_is_judged_before_the_lease_is_over(run: Run) -> None:
    """P6: at the very last microsecond it still holds."""
    joined(run, "idle")
    busy = joined(run, "busy")
    assert run(replicas.renew(busy, lease=LEASE, now=NOW + SECOND))

    assert run(replicas.judge(now=NOW + LEASE)) == ()
    assert run(replicas.judge(now=NOW + LEASE + 1)) == ("idle",)


@pytest.mark.parametrize("end", ["judged", "left"])
def test_a_dead_replica_stays_dead(run: Run, end: str) -> None:
    """F10: it can't renew, join, claim or say that it is idle; it comes back under a new id."""
    replica, late = joined(run), NOW + LEASE + 1
    made(run)
    if end == "judged":
        assert run(replicas.judge(now=late))
    else:
        assert run(replicas.leave(replica, now=late))

    assert not run(replicas.renew(replica, lease=LEASE, now=late))
    assert not run(replicas.idle(replica, idle=True))
    assert not run(replicas.join(new_replica(replica), now=late))
    assert claim(run, replica, now=late) == ()
    [view] = run(views.replicas(now=late))
    assert (view.dead_at, view.idle) == (late, 0)


def test_leaving_twice_is_leaving_once(run: Run) -> None:
    replica = joined(run)
    assert run(replicas.leave(replica, now=NOW))

    assert not run(replicas.leave(replica, now=NOW + HOUR))
    [view] = run(views.replicas(now=NOW))
    assert view.dead_at == NOW


def test_a_replica_that_nobody_knows_can_do_nothing(run: Run) -> None:
    nobody = ReplicaId("nobody")

    assert not run(replicas.renew(nobody, lease=LEASE, now=NOW))
    assert not run(replicas.idle(nobody, idle=True))
    assert not run(replicas.leave(nobody, now=NOW))


def test_runs_of_dead_replicas_are_lost_and_those_of_live_ones_are_not(run: Run) -> None:
    """B07: never running for ever."""
    theirs = running(run, "dead", on_loss="fail")
    ours = running(run, "live", key="k2")
    assert run(replicas.renew(ours.replica, lease=LEASE, now=NOW + LEASE))
    before = run(replicas.lost(limit=10))
    assert run(replicas.judge(now=NOW + LEASE + 1)) == ("dead",)

    [lost] = run(replicas.lost(limit=10))

    assert before == ()
    assert (lost.claim, lost.job, lost.key) == (theirs.claim, "mail", "k")
    assert (lost.attempt, lost.deaths, lost.on_loss) == (1, 0, "fail")


def test_a_later_pass_finds_what_an_earlier_one_did_not_give_back(run: Run) -> None:
    """B07, F10: found by the replica being dead, not by having been judged in this pass."""
    first, second = running(run, "a"), running(run, "b", key="k2")
    assert len(run(replicas.judge(now=NOW + LEASE + 1))) == 2
    assert settle(run, first.claim, Again(0, Outcome.ABANDONED))

    assert run(replicas.judge(now=NOW + LEASE + 2)) == ()
    assert [lost.claim for lost in run(replicas.lost(limit=10))] == [second.claim]


def test_lost_runs_come_in_id_order_up_to_a_limit(run: Run) -> None:
    """F15"""
    ids = [made(run, f"k{n}") for n in range(5)]
    replica = joined(run)
    claim(run, replica)
    assert run(replicas.leave(replica, now=NOW))

    assert [lost.claim.id for lost in run(replicas.lost(limit=3))] == ids[:3]


def test_a_sweeper_that_comes_late_gives_back_nothing(run: Run) -> None:
    """B17, B21: the run ended between the sweeper's read and its write."""
    claimed = running(run)
    assert run(replicas.leave(claimed.replica, now=NOW))
    [lost] = run(replicas.lost(limit=10))
    assert settle(run, claimed.claim, DONE)

    assert not settle(run, lost.claim, Again(0, Outcome.ABANDONED))
    assert state(run, claimed.id) == "ended"


def test_of_two_sweepers_one_gives_back(run: Run) -> None:
    claimed = running(run)
    assert run(replicas.leave(claimed.replica, now=NOW))
    [lost] = run(replicas.lost(limit=10))

    answers = [settle(run, lost.claim, Again(0, Outcome.ABANDONED)) for _ in range(2)]

    assert answers == [True, False]
    view = run(views.run_get(claimed.id))
    assert view is not None
    assert view.deaths == 1


def test_the_long_dead_are_forgotten_only_when_no_live_run_names_them(run: Run) -> None:
    """F10"""
    claimed = running(run, "busy")
    for id in ("busy", "free"):
        joined(run, id)
        assert run(replicas.leave(ReplicaId(id), now=NOW))
    joined(run, "live")

    too_soon = run(replicas.forget(before=NOW, limit=10))
    first = run(replicas.forget(before=NOW + 1, limit=10))
    assert settle(run, claimed.claim, Again(0, Outcome.ABANDONED))
    second = run(replicas.forget(before=NOW + 1, limit=10))

    assert (too_soon, first, second) == (0, 1, 1)
    assert [view.id for view in run(views.replicas(now=NOW))] == ["live"]


def test_the_dead_are_forgotten_in_bounded_batches(run: Run) -> None:
    for n in range(5):
        assert run(replicas.leave(joined(run, f"r{n}"), now=NOW))

    assert [run(replicas.forget(before=NOW + 1, limit=2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_look_at_an_empty_store_sees_nothing(run: Run) -> None:
    view = run(replicas.look(jobs=["mail"], schedules=["nightly"], now=NOW))

    assert view == replicas.View(NOW, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def test_a_look_counts_what_there_is_to_sweep(run: Run) -> None:
    running(run, "gone", key="lost")
    assert run(replicas.leave(ReplicaId("gone"), now=NOW))
    joined(run, "lapsed", lease=SECOND)
    joined(run, "live")
    suspect = running(run, "other", key="suspect")
    assert settle(run, suspect.claim, Again(HOUR, Outcome.ABANDONED))
    made(run, "unknown", job="bill", at=NOW + 2 * SECOND)
    defined(run, "nightly", next_fire=NOW + 3 * HOUR)
    defined(run, "hourly", next_fire=NOW + HOUR)
    defined(run, "not mine", next_fire=NOW)

    view = run(replicas.look(jobs=["mail"], schedules=["nightly", "hourly"], now=NOW + 2 * SECOND))

    assert (view.now, view.lapsed, view.next_lapse) == (NOW + 2 * SECOND, 1, NOW + LEASE)
    assert (view.lost, view.alone, view.next_fire) == (1, NOW + HOUR, NOW + HOUR)
    assert (view.unknown, view.parked) == (1, 0)


def test_a_look_leaves_out_schedules_that_do_not_fire(run: Run) -> None:
    for n, name in enumerate(("paused", "broken", "never", "fires")):
        defined(run, name, next_fire=0 if name == "never" else NOW + n)
    assert run(schedules.pause("paused", now=NOW))
    assert run(schedules.mark_broken("broken", revision=1, why="?", now=NOW))
    names = ["paused", "broken", "never", "fires"]

    assert run(replicas.look(schedules=names, now=NOW)).next_fire == NOW + 3
    due = run(schedules.due(names, limit=10, now=NOW + HOUR)).schedules
    assert [schedule.name for schedule in due] == ["fires"]


def test_a_look_finds_when_the_first_run_of_these_queues_is_due(run: Run) -> None:
    made(run, "late", at=NOW + HOUR, priority=0)
    made(run, "early", at=NOW + SECOND, priority=9)
    made(run, "other", at=NOW, queue="slow")
    running(run, "busy", key="taken")

    def next_due(*queues: str) -> int:
        return run(replicas.look(queues=queues, now=NOW)).next_due

    assert next_due("default") == NOW + SECOND
    assert next_due("default", "slow") == NOW
    assert next_due("empty") == next_due() == 0


def test_a_look_counts_runs_that_outlived_a_replica_and_that_nobody_knows(run: Run) -> None:
    """F14"""
    suspect = running(run)
    assert settle(run, suspect.claim, Again(0, Outcome.ABANDONED))
    assert run(replicas.leave(suspect.replica, now=NOW))

    assert run(replicas.look(now=NOW)).unknown == 1


def test_a_look_counts_the_jobs_asked_about_that_have_parked_runs(run: Run) -> None:
    """F14"""
    joined(run, jobs=["mail"])
    for n in range(3):
        made(run, f"b{n}", job="bill")
        made(run, f"s{n}", job="ship")
    assert run(runs.park_unknown(now=NOW)) == 6

    assert run(replicas.look(jobs=["bill", "mail"], now=NOW)).parked == 1
    assert run(replicas.look(jobs=["bill", "ship"], now=NOW)).parked == 2
    assert run(replicas.look(now=NOW)).unknown == 0


def test_a_replica_is_judged_by_one_of_two_sessions(run: Run, sessions: Sessions) -> None:
    """F15: the second waits, or skips the row, and finds nothing left once the first is through."""
    replica, late = joined(run), NOW + LEASE + 1
    first, second = sessions.open(), sessions.open()
    assert first.run(replicas.judge(now=late)) == (replica,)

    assert gets_nothing(lambda: second.run(replicas.judge(now=late)))
    second.rollback()
    first.commit()

    assert second.run(replicas.judge(now=late)) == ()
