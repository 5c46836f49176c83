"""Overlaps: what waits behind a run, what is cancelled for it, and what is late."""

from __future__ import annotations

import json

import pytest

from onejob.commands import overlap, replicas, runs, schedules, views
from onejob.core.run import (
    Again,
    Claim,
    LeaveUnknown,
    Outcome,
    Park,
    ReplicaId,
    RunId,
    Settlement,
    Token,
)
from onejob.core.time import HOUR, SECOND
from onejob.testing.conformance.given import (
    DONE,
    KEEP,
    NOW,
    Run,
    claim,
    defined,
    joined,
    made,
    settle,
    state,
    step,
    stored,
)
from onejob.testing.conformance.sessions import Sessions


def ticked(run: Run, rule: schedules.OverlapRule, *ats: int, now: int = 0) -> list[RunId]:
    """Tick these fire times under a rule; return the runs that answered."""
    steps = [step(stored(run), *ats, overlap=rule)]
    answers = run(schedules.tick(steps, replica="a", now=now or max(ats)))
    return [RunId(answer.run_id) for answer in answers]


def first(run: Run) -> RunId:
    """Let the schedule fire once, and its run be claimed."""
    defined(run)
    [id] = ticked(run, "allow", NOW)
    assert [one.id for one in claim(run, joined(run))] == [id]
    return id


def holder(run: Run, id: RunId) -> Claim:
    """Return the claim under which a run is running."""
    view = run(views.run_get(id))
    assert view is not None
    return Claim(id, Token(view.token), ReplicaId(view.replica))


def test_a_queued_run_waits_behind_the_one_in_its_way(run: Run) -> None:
    in_the_way = first(run)

    [queued] = run(
        schedules.tick([step(stored(run), NOW + 1, overlap="queue")], replica="b", now=NOW + 1)
    )

    assert queued.answer == "queued"
    [job] = run(views.jobs())
    assert (job.running, job.waiting, job.scheduled) == (1, 1, 0)
    assert state(run, RunId(queued.run_id)) == "waiting"
    assert claim(run, joined(run), now=NOW + HOUR) == ()
    [event] = [e for e in run(views.events(schedule="nightly")) if e.kind == "tick.queued"]
    assert (event.run_id, event.replica) == (queued.run_id, "b")
    assert json.loads(event.detail) == {"fire_time": NOW + 1, "by": in_the_way}


@pytest.mark.parametrize("way_out", [DONE, Park(), LeaveUnknown("?")], ids=repr)
def test_what_ends_a_run_releases_the_one_behind_it(run: Run, way_out: Settlement) -> None:
    """Parked and unknown ones wait for somebody: they are in nobody's way."""
    in_the_way = first(run)
    [second, third] = [ticked(run, "queue", NOW + n)[0] for n in (1, 2)]

    assert settle(run, holder(run, in_the_way), way_out, now=NOW + HOUR)

    assert (state(run, second), state(run, third)) == ("scheduled", "waiting")
    [claimed] = claim(run, joined(run), now=NOW + HOUR)
    assert (claimed.id, claimed.due, claimed.wanted) == (second, NOW + HOUR, NOW + 1)
    assert settle(run, claimed.claim, DONE, now=NOW + HOUR)
    assert state(run, third) == "scheduled"


def test_a_run_that_is_to_be_tried_again_is_still_in_the_way(run: Run) -> None:
    in_the_way = first(run)
    [behind] = ticked(run, "queue", NOW + 1)

    assert settle(run, holder(run, in_the_way), Again(0, Outcome.FAILED))

    assert state(run, behind) == "waiting"
    assert run(overlap.release(now=NOW)) == 0


def test_only_the_last_of_several_in_the_way_releases_the_one_behind_them(run: Run) -> None:
    defined(run)
    ids = ticked(run, "allow", NOW, NOW + 1, NOW + 2)
    claim(run, joined(run), limit=2, now=NOW + 2)
    [behind] = ticked(run, "queue", NOW + 3)

    standing = []
    for id in ids[:2]:
        assert settle(run, holder(run, id), DONE)
        standing.append(state(run, behind))
    assert run(runs.cancel(ids[2], keep=KEEP, now=NOW))

    assert standing == ["waiting", "waiting"]
    assert state(run, behind) == "scheduled"


def test_cancelling_the_run_in_the_way_releases_the_one_behind_it(run: Run) -> None:
    in_the_way = first(run)
    [second, third] = [ticked(run, "queue", NOW + n)[0] for n in (1, 2)]

    assert run(runs.cancel(in_the_way, keep=KEEP, now=NOW))

    assert (state(run, second), state(run, third)) == ("scheduled", "waiting")


def test_a_waiting_run_can_be_cancelled_and_the_next_one_takes_its_place(run: Run) -> None:
    in_the_way = first(run)
    [second, third] = [ticked(run, "queue", NOW + n)[0] for n in (1, 2)]

    assert run(runs.cancel(second, keep=KEEP, now=NOW))
    assert state(run, third) == "waiting"
    assert settle(run, holder(run, in_the_way), DONE)

    assert (state(run, second), state(run, third)) == ("ended", "scheduled")


def test_parking_the_run_in_the_way_releases_the_one_behind_it(run: Run) -> None:
    defined(run)
    [in_the_way] = ticked(run, "allow", NOW)
    [behind] = ticked(run, "queue", NOW + 1)

    assert run(runs.park_unknown(now=NOW + 1)) == 1

    assert (state(run, in_the_way), state(run, behind)) == ("parked", "scheduled")


def test_what_one_tick_queues_runs_one_after_another(run: Run) -> None:
    defined(run)

    ids = ticked(run, "queue", NOW, NOW + 1, NOW + 2)

    assert [state(run, id) for id in ids] == ["scheduled", "waiting", "waiting"]
    [claimed] = claim(run, joined(run), now=NOW + 2)
    assert claimed.id == ids[0]
    assert settle(run, claimed.claim, DONE)
    assert [state(run, id) for id in ids[1:]] == ["scheduled", "waiting"]


def test_other_schedules_are_not_released(run: Run) -> None:
    in_the_way = first(run)
    [behind] = ticked(run, "queue", NOW + 1)
    other = step(defined(run, "other"), NOW, NOW + 1, overlap="queue")
    answers = run(schedules.tick([other], replica="a", now=NOW + 1))

    assert settle(run, holder(run, in_the_way), DONE)

    assert state(run, behind) == "scheduled"
    assert [state(run, RunId(one.run_id)) for one in answers] == ["scheduled", "waiting"]


def test_an_overlap_that_cancels_asks_for_it_and_waits(run: Run) -> None:
    in_the_way = first(run)

    [newer] = ticked(run, "cancel", NOW + 1)

    assert run(overlap.asked(limit=10)) == (in_the_way,)
    assert (state(run, in_the_way), state(run, newer)) == ("running", "waiting")
    old = holder(run, in_the_way)
    assert run(overlap.cancel([in_the_way], keep=KEEP, now=NOW + 1)) == (in_the_way,)
    assert (state(run, in_the_way), state(run, newer)) == ("ended", "scheduled")
    assert not settle(run, old, DONE)
    [event] = [e for e in run(views.events(run_id=in_the_way)) if e.kind == "run.cancelled"]
    assert json.loads(event.detail) == {"state": "running", "why": "overlap"}


def test_a_fire_time_that_is_known_cancels_nothing(run: Run) -> None:
    first(run)

    again = step(stored(run), NOW, overlap="cancel")
    [known] = run(schedules.tick([again], replica="a", now=NOW + 1))

    assert (known.answer, known.run_id) == ("known", 0)
    assert run(overlap.asked(limit=10)) == ()


def test_a_look_counts_what_was_asked_what_is_free_and_what_is_late(run: Run) -> None:
    first(run)
    ticked(run, "cancel", NOW + 1)
    made(run, "late", expect=SECOND)

    view = run(replicas.look(now=NOW + SECOND))

    assert (view.cancels, view.freed, view.late) == (1, 0, 1)
    assert run(replicas.look(now=NOW)).late == 0


def test_a_run_that_queued_while_the_other_ended_is_released_by_a_sweep(
    run: Run, row_sessions: Sessions
) -> None:
    """Neither saw the other: the tick found the run in its way, and that run's end found nobody."""
    in_the_way = first(run)
    claim = holder(run, in_the_way)
    ending = row_sessions.open()
    assert ending.run(runs.settle([(claim, DONE)], keep=KEEP, now=NOW))

    [behind] = ticked(run, "queue", NOW + 1)
    ending.commit()
    stuck = (state(run, in_the_way), state(run, behind))
    view = run(replicas.look(now=NOW + 1))

    assert (stuck, view.freed) == (("ended", "waiting"), 1)
    assert run(overlap.release(now=NOW + 1)) == 1
    assert state(run, behind) == "scheduled"


def test_a_run_that_has_not_ended_in_time_is_told_once(run: Run) -> None:
    """P7"""
    id = made(run, "k", expect=HOUR)
    early = run(overlap.late(limit=10, now=NOW + HOUR - 1))

    told = [run(overlap.late(limit=10, now=NOW + HOUR + n)) for n in range(2)]

    assert early == ()
    assert told == [(overlap.Late(id, "mail", "k", "", "scheduled", NOW + HOUR),), ()]
    assert run(views.late_runs()) == told[0]
    [event] = [e for e in run(views.events(run_id=id)) if e.kind == "run.late"]
    assert (event.at, event.job) == (NOW + HOUR, "mail")
    assert json.loads(event.detail) == {"expected": NOW + HOUR, "state": "scheduled"}
    assert run(replicas.look(now=NOW + 2 * HOUR)).late == 0


def test_a_run_that_ends_late_is_told_by_its_end(run: Run) -> None:
    """P7: also where no look came in between."""
    id = made(run, "k", expect=SECOND)
    in_time = made(run, "in time", expect=HOUR)
    held = claim(run, joined(run))
    for one in held:
        assert settle(run, one.claim, DONE, now=NOW + 2 * SECOND)

    late = [e.run_id for e in run(views.events()) if e.kind == "run.late"]

    assert late == [id]
    assert in_time not in late


def test_a_late_run_shows_in_its_schedule(run: Run) -> None:
    defined(run)
    run(schedules.tick([step(stored(run), NOW, expect=SECOND)], replica="a", now=NOW))
    assert len(run(overlap.late(limit=10, now=NOW + HOUR))) == 1

    [view] = run(views.schedules(name="nightly", now=NOW + HOUR))

    assert view.late == 1


def test_a_jittered_run_is_due_later_and_keeps_its_fire_time(run: Run) -> None:
    """D21, A24"""
    defined(run)

    run(schedules.tick([step(stored(run), NOW, shift=30 * SECOND)], replica="a", now=NOW))

    assert claim(run, joined(run), now=NOW + 29 * SECOND) == ()
    [claimed] = claim(run, joined(run), now=NOW + 30 * SECOND)
    assert (claimed.fire_time, claimed.wanted, claimed.due) == (NOW, NOW, NOW + 30 * SECOND)


def test_who_lost_a_fire_time_is_told_once_for_each(run: Run) -> None:
    """A06: who ran it, and who went to run it and found it gone."""
    moved = step(defined(run), NOW)
    [won] = run(schedules.tick([moved], replica="winner", now=NOW))
    lost = [schedules.LostTick("nightly", NOW, "mail", moved.fires[0].key)]

    counted = [run(schedules.lost(lost, replica=id, now=NOW)) for id in ("b", "c", "b", "winner")]

    assert counted == [1, 1, 0, 0]
    told = [e for e in run(views.events(run_id=won.run_id)) if e.kind == "tick.lost"]
    assert [(event.replica, event.schedule) for event in told] == [
        ("b", "nightly"),
        ("c", "nightly"),
    ]
    assert json.loads(told[0].detail) == {"fire_time": NOW, "by": "winner"}
