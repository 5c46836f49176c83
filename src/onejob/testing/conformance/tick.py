"""Tick: due fire times become runs, once, whoever else is ticking."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from onejob.commands import runs, schedules, views
from onejob.commands.schedules import Step, Ticked
from onejob.core.keys import fire_key
from onejob.core.run import Kind, LeaveUnknown, Park, RunId, Settlement
from onejob.core.time import DAY, HOUR, Instant
from onejob.testing.conformance.given import (
    DONE,
    KEEP,
    NOW,
    Run,
    claim,
    defined,
    fire,
    joined,
    resumed,
    settle,
    step,
    stored,
)
from onejob.testing.conformance.sessions import Sessions, gets_nothing


def test_a_due_fire_time_becomes_a_run(run: Run) -> None:
    """A22: the start is recorded before the work."""
    schedule = defined(run)
    late = NOW + 3_000_000

    [ticked] = run(schedules.tick([step(schedule, NOW)], replica="a", now=late))

    assert (ticked.name, ticked.fire_time, ticked.answer) == ("nightly", NOW, "fired")
    [claimed] = claim(run, joined(run), now=late)
    assert (claimed.id, claimed.key) == (ticked.run_id, fire_key("nightly", Instant(NOW)))
    assert (claimed.kind, claimed.schedule, claimed.fire_time) == ("schedule", "nightly", NOW)
    assert (claimed.due, claimed.wanted) == (late, NOW)


def test_a_tick_moves_the_schedule_on(run: Run) -> None:
    schedule = defined(run)

    run(schedules.tick([step(schedule, NOW)], replica="a", now=NOW))

    after = stored(run)
    assert (after.last, after.next_fire) == (NOW, NOW + DAY)
    assert after.revision == schedule.revision + 1


def test_of_two_ticks_that_read_the_same_exactly_one_gets_through(run: Run) -> None:
    """A15, A01"""
    schedule = defined(run)

    answers = [run(schedules.tick([step(schedule, NOW)], replica=name, now=NOW)) for name in "abcd"]

    assert [len(answer) for answer in answers] == [1, 0, 0, 0]
    assert len(run(views.runs(schedule="nightly"))) == 1


def test_a_tick_of_an_older_reading_changes_nothing(run: Run) -> None:
    """A18, A16: a stale generation is harmless."""
    old = defined(run)
    run(schedules.tick([step(old, NOW)], replica="a", now=NOW))
    before = stored(run)

    late = run(schedules.tick([step(old, NOW + HOUR)], replica="old", now=NOW + HOUR))

    assert late == ()
    assert stored(run) == before


def test_a_fire_time_that_is_ticked_again_is_known(run: Run) -> None:
    """A09, A17: identity is the fire time, whatever woke the scheduler, and however often."""
    defined(run)

    answers = [
        answer
        for n in range(100)
        for answer in run(schedules.tick([step(stored(run), NOW)], replica="a", now=NOW + n))
    ]

    assert [answer.answer for answer in answers] == ["fired"] + ["known"] * 99
    assert len(run(views.runs(schedule="nightly"))) == 1


def test_a_fire_time_stays_known_after_its_run_has_ended(run: Run) -> None:
    """A14, A19: exclusion is per fire time and outlives the run."""
    run(schedules.tick([step(defined(run), NOW)], replica="a", now=NOW))
    [claimed] = claim(run, joined(run))
    assert settle(run, claimed.claim, DONE)

    [again] = run(schedules.tick([step(stored(run), NOW)], replica="a", now=NOW + HOUR))

    assert (again.run_id, again.answer) == (0, "known")


def test_a_run_by_hand_and_a_fire_time_share_no_key(run: Run) -> None:
    schedule, key = defined(run), fire_key("nightly", Instant(NOW))
    assert run(runs.enqueue([runs.NewRun("mail", key, "{}", keyed=True)], now=NOW))

    [ticked] = run(schedules.tick([step(schedule, NOW)], replica="a", now=NOW))

    assert ticked.answer == "fired"
    assert run(runs.by_key(Kind.SCHEDULE, "mail", key)) == runs.Known(RunId(ticked.run_id), "")


def test_a_step_with_a_fire_time_later_than_now_changes_nothing(run: Run) -> None:
    """D07: whatever a fast clock believes, or a clock set back since it was decided."""
    schedule = defined(run)
    ahead = step(schedule, NOW - HOUR, NOW, NOW + 1, last=NOW + 1)

    ticked = run(schedules.tick([ahead], replica="fast", now=NOW))

    assert ticked == ()
    assert stored(run) == schedule
    assert run(views.runs(schedule="nightly")) == ()


def test_what_was_due_under_a_replaced_definition_is_told_as_missed(run: Run) -> None:
    """P7: a deploy after an outage starts anew, and says what it dropped."""
    schedule = defined(run)
    again = schedules.NewSchedule(
        name=schedule.name,
        job=schedule.job,
        timing=schedule.timing,
        policy=schedule.policy,
        definition="another",
        version="",
        superseded="[]",
        next_fire=NOW + DAY,
        missed='{"count":1}',
    )

    assert run(schedules.define(again, revision=schedule.revision, now=NOW))

    missed = [e for e in run(views.events(schedule=schedule.name)) if e.kind == "tick.missed"]
    assert [event.detail for event in missed] == ['{"count":1}']


def test_last_never_goes_back(run: Run) -> None:
    run(schedules.tick([step(defined(run), NOW)], replica="a", now=NOW))

    run(schedules.tick([step(stored(run), last=NOW - DAY)], replica="a", now=NOW))

    assert stored(run).last == NOW


def test_several_schedules_tick_together_and_answer_in_order(run: Run) -> None:
    steps = [step(defined(run, name), NOW - HOUR, NOW) for name in ("c", "a", "b")]

    ticked = run(schedules.tick(steps, replica="x", now=NOW))

    assert [(one.name, one.fire_time) for one in ticked] == [
        (name, at) for name in "abc" for at in (NOW - HOUR, NOW)
    ]
    assert len({one.run_id for one in ticked}) == 6


def test_one_stale_step_does_not_hold_up_the_others(run: Run) -> None:
    stale, fresh = defined(run, "a"), defined(run, "b")
    run(schedules.tick([step(stale, NOW)], replica="x", now=NOW))

    ticked = run(schedules.tick([step(stale, NOW + 1), step(fresh, NOW)], replica="y", now=NOW + 1))

    assert [one.name for one in ticked] == ["b"]


def test_paused_and_broken_schedules_do_not_tick(run: Run) -> None:
    """Nor do they move on, or tell of fire times that they missed."""
    defined(run, "a")
    defined(run, "b")
    assert run(schedules.pause("a", now=NOW))
    assert run(schedules.mark_broken("b", revision=1, why="?", now=NOW))
    before, told = [stored(run, name) for name in ("a", "b")], run(views.events())
    steps = [step(schedule, NOW, missed="{}") for schedule in before]

    assert run(schedules.tick(steps, replica="x", now=NOW)) == ()
    assert [stored(run, name) for name in ("a", "b")] == before
    assert run(views.events()) == told
    assert run(views.runs()) == ()


def test_a_resumed_schedule_ticks_again(run: Run) -> None:
    defined(run)
    assert run(schedules.pause("nightly", now=NOW))
    assert run(schedules.due(["nightly"], limit=10, now=NOW)).schedules == ()
    assert resumed(run, "nightly", now=NOW)

    [due] = run(schedules.due(["nightly"], limit=10, now=NOW)).schedules
    assert len(run(schedules.tick([step(due, NOW)], replica="x", now=NOW))) == 1


def test_due_is_judged_by_the_stores_clock(run: Run) -> None:
    """D07, D09"""
    defined(run, "due", next_fire=NOW)
    defined(run, "later", next_fire=NOW + 1)
    defined(run, "never", next_fire=0)
    names = ["due", "later", "never"]

    due = run(schedules.due(names, limit=10, now=NOW))
    next_moment = run(schedules.due(names, limit=10, now=NOW + 1))

    assert due.now == NOW
    assert [schedule.name for schedule in due.schedules] == ["due"]
    assert [schedule.name for schedule in next_moment.schedules] == ["due", "later"]


def test_due_takes_the_first_names_up_to_the_limit_and_only_those_asked_for(run: Run) -> None:
    for name in ("d", "b", "a", "c"):
        defined(run, name)

    due = run(schedules.due(["d", "c", "b"], limit=2, now=NOW))

    assert [schedule.name for schedule in due.schedules] == ["b", "c"]


def test_an_overlap_is_skipped_and_recorded(run: Run) -> None:
    """A20, P7"""
    [first] = run(schedules.tick([step(defined(run), NOW)], replica="a", now=NOW))
    late = NOW + DAY

    [second] = run(schedules.tick([step(stored(run), late, overlap="skip")], replica="b", now=late))

    assert second == Ticked("nightly", late, first.run_id, "skipped")
    assert len(run(views.runs(schedule="nightly"))) == 1
    [event] = [e for e in run(views.events(schedule="nightly")) if e.kind == "tick.skipped"]
    assert (event.at, event.run_id, event.replica) == (late, first.run_id, "b")
    assert json.loads(event.detail) == {"fire_time": late, "by": first.run_id}


def test_a_running_run_is_in_the_way_and_an_ended_one_is_not(run: Run) -> None:
    """A20"""
    run(schedules.tick([step(defined(run), NOW)], replica="a", now=NOW))
    [claimed] = claim(run, joined(run))

    [during] = run(
        schedules.tick([step(stored(run), NOW + 1, overlap="skip")], replica="a", now=NOW + 1)
    )
    assert settle(run, claimed.claim, DONE)
    [after] = run(
        schedules.tick([step(stored(run), NOW + 2, overlap="skip")], replica="a", now=NOW + 2)
    )

    assert (during.answer, after.answer) == ("skipped", "fired")


@pytest.mark.parametrize("way_out", [Park(), LeaveUnknown("?")], ids=repr)
def test_a_run_that_waits_for_somebody_is_not_in_the_way(run: Run, way_out: Settlement) -> None:
    """F14: or one unknown effect would stop its schedule for good."""
    run(schedules.tick([step(defined(run), NOW)], replica="a", now=NOW))
    [claimed] = claim(run, joined(run))
    assert settle(run, claimed.claim, way_out)

    again = step(stored(run), NOW + 1, overlap="skip")
    [ticked] = run(schedules.tick([again], replica="a", now=NOW + 1))

    assert ticked.answer == "fired"


def test_runs_of_other_schedules_and_by_hand_are_not_in_the_way(run: Run) -> None:
    run(schedules.tick([step(defined(run, "other"), NOW)], replica="a", now=NOW))
    assert run(runs.enqueue([runs.NewRun("mail", "by hand", "{}")], now=NOW))

    [ticked] = run(schedules.tick([step(defined(run), NOW, overlap="skip")], replica="a", now=NOW))

    assert ticked.answer == "fired"


def test_missed_fire_times_leave_an_event(run: Run) -> None:
    """P7, D02"""
    missed = json.dumps({"count": 3, "from": NOW - DAY})
    ticked = step(defined(run), NOW, missed=missed, missed_count=3)

    run(schedules.tick([ticked], replica="a", now=NOW))

    [event] = [e for e in run(views.events(schedule="nightly")) if e.kind == "tick.missed"]
    assert (event.job, event.replica, event.detail) == ("mail", "a", missed)
    [view] = run(views.schedules(now=NOW))
    assert view.missed == 3


def test_a_refused_tick_leaves_no_event(run: Run) -> None:
    schedule = defined(run)
    run(schedules.tick([step(schedule, NOW)], replica="a", now=NOW))

    run(schedules.tick([step(schedule, NOW, missed="{}")], replica="b", now=NOW))

    assert [e.kind for e in run(views.events(schedule="nightly"))] == ["schedule.defined"]


def test_a_schedule_may_say_that_it_never_fires_again(run: Run) -> None:
    run(schedules.tick([step(defined(run), NOW, next_fire=0)], replica="a", now=NOW))

    assert run(schedules.due(["nightly"], limit=10, now=NOW + 1_000 * DAY)).schedules == ()


def test_a_run_gets_what_its_fire_says(run: Run) -> None:
    schedule = defined(run)
    special = fire(
        "nightly", NOW, job="bill", args='{"at":1}', queue="slow", priority=7, on_loss="fail"
    )
    moved = Step("nightly", schedule.revision, NOW, NOW + DAY, (special,))

    run(schedules.tick([moved], replica="a", now=NOW))

    [claimed] = claim(run, joined(run), jobs=["bill"], queues=["slow"])
    assert (claimed.args, claimed.priority) == ('{"at":1}', 7)


def test_a_schedule_that_nobody_defined_does_not_tick(run: Run) -> None:
    ghost = replace(defined(run), name="ghost")

    assert run(schedules.tick([step(ghost, NOW)], replica="a", now=NOW)) == ()


def test_no_ticks_make_no_runs(run: Run) -> None:
    assert run(schedules.tick([], replica="a", now=NOW)) == ()


def test_the_key_of_a_fire_time_is_kept_until_its_run_has_been_over_for_long(run: Run) -> None:
    """P1: retention starts when the run ends."""
    run(schedules.tick([step(defined(run), NOW)], replica="a", now=NOW))
    replica = joined(run)
    [claimed] = claim(run, replica)
    end = NOW + 100 * DAY
    assert settle(run, claimed.claim, DONE, now=end)

    run(runs.purge(limit=10, now=end + KEEP))
    [known] = run(schedules.tick([step(stored(run), NOW)], replica="a", now=end + KEEP))

    assert known.answer == "known"


def test_of_two_sessions_that_tick_at_once_one_gets_through(run: Run, sessions: Sessions) -> None:
    """A15"""
    tick = [step(defined(run), NOW)]
    first, second = sessions.open(), sessions.open()
    assert len(first.run(schedules.tick(tick, replica="a", now=NOW))) == 1

    assert gets_nothing(lambda: second.run(schedules.tick(tick, replica="b", now=NOW)))
    second.rollback()
    first.commit()

    assert second.run(schedules.tick(tick, replica="b", now=NOW)) == ()
    second.commit()
    assert len(run(views.runs(schedule="nightly"))) == 1


def test_a_tick_that_is_rolled_back_is_done_by_another(run: Run, sessions: Sessions) -> None:
    """A15: a scheduler that dies in the middle loses no fire time."""
    tick = [step(defined(run), NOW)]
    first = sessions.open()
    assert len(first.run(schedules.tick(tick, replica="a", now=NOW))) == 1
    first.rollback()

    [ticked] = run(schedules.tick(tick, replica="b", now=NOW))

    assert ticked.answer == "fired"
