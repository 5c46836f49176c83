"""Definitions of schedules: the first wins its name, a later one replaces what was read."""

from __future__ import annotations

from dataclasses import replace

from onejob.commands import replicas, schedules, views
from onejob.commands.schedules import NewSchedule, Schedule
from onejob.core.time import DAY, HOUR
from onejob.testing.conformance.given import (
    NOW,
    Run,
    defined,
    joined,
    resumed,
    step,
    stored,
)

NEW = NewSchedule("nightly", "mail", '{"cron":"0 3 * * *"}', '{"x":1}', "nightly-2", "2", "", 42)


def test_a_definition_comes_back_as_it_was_stored(run: Run) -> None:
    new = replace(NEW, superseded='["nightly-1"]', next_fire=NOW + DAY)
    assert run(schedules.define(new, revision=0, now=NOW))

    assert stored(run) == Schedule(
        name="nightly",
        job="mail",
        timing='{"cron":"0 3 * * *"}',
        policy='{"x":1}',
        definition="nightly-2",
        version="2",
        superseded='["nightly-1"]',
        last=0,
        next_fire=NOW + DAY,
        paused=0,
        broken="",
        revision=1,
    )


def test_the_first_definition_wins_its_name(run: Run) -> None:
    first = defined(run)

    assert not run(schedules.define(NEW, revision=0, now=NOW))
    assert stored(run) == first


def test_a_definition_replaces_exactly_the_revision_that_was_read(run: Run) -> None:
    """A16: of two processes that read the same definition, one replaces it."""
    read = defined(run)

    answers = [run(schedules.define(NEW, revision=read.revision, now=NOW)) for _ in range(2)]

    assert answers == [True, False]
    assert stored(run).definition == "nightly-2"
    assert stored(run).revision == read.revision + 1


def test_a_definition_cannot_replace_what_is_not_there(run: Run) -> None:
    """A16: one that was removed comes back only as a new one."""
    assert not run(schedules.define(NEW, revision=3, now=NOW))
    assert run(schedules.read(["nightly"], now=NOW)).schedules == ()


def test_a_new_definition_keeps_what_has_fired_and_the_pause_and_mends_what_was_broken(
    run: Run,
) -> None:
    read = defined(run)
    assert run(schedules.tick([step(read, NOW)], replica="a", now=NOW))
    assert run(schedules.mark_broken("nightly", revision=2, why="no such zone", now=NOW))
    assert run(schedules.pause("nightly", now=NOW))

    assert run(schedules.define(NEW, revision=stored(run).revision, now=NOW))

    after = stored(run)
    assert (after.last, after.paused, after.broken, after.next_fire) == (NOW, 1, "", 42)


def test_a_fire_time_that_a_new_definition_leaves_behind_is_answered(run: Run) -> None:
    """P7: told as missed, it must not fire later, where the store's clock was set back."""
    read = defined(run)
    new = replace(NEW, missed='{"count":1}', missed_count=1)

    assert run(schedules.define(new, revision=read.revision, now=NOW))

    assert (stored(run).last, stored(run).next_fire) == (read.next_fire, NEW.next_fire)
    assert run(schedules.define(NEW, revision=2, now=NOW))
    assert stored(run).last == read.next_fire


def test_reading_tells_the_stores_clock_even_when_nothing_is_there(run: Run) -> None:
    read = run(schedules.read(["nightly"], now=NOW + HOUR))

    assert (read.now, read.schedules) == (NOW + HOUR, ())


def test_schedules_are_read_by_name_in_name_order(run: Run) -> None:
    for name in ("c", "a", "b"):
        defined(run, name)

    read = run(schedules.read(["c", "a", "nobody"], now=NOW))

    assert [schedule.name for schedule in read.schedules] == ["a", "c"]


def test_live_replicas_say_which_definitions_they_declare(run: Run) -> None:
    """A16, A18"""
    joined(run, "a", declares={"nightly": "n-1", "hourly": "h-1"})
    joined(run, "b", declares={"nightly": "n-2"})
    gone = joined(run, "c", declares={"nightly": "n-3"})
    assert run(replicas.leave(gone, now=NOW))

    declared = run(schedules.live_definitions(["nightly"]))

    assert declared == {("nightly", "n-1"), ("nightly", "n-2")}


def test_a_definition_and_a_pause_leave_events(run: Run) -> None:
    """P7"""
    defined(run)
    assert run(schedules.pause("nightly", now=NOW + 1))
    assert resumed(run, "nightly", now=NOW + 2)

    events = run(views.events(schedule="nightly"))

    assert [(event.at, event.kind) for event in events] == [
        (NOW, "schedule.defined"),
        (NOW + 1, "schedule.paused"),
        (NOW + 2, "schedule.resumed"),
    ]
    assert {event.job for event in events} == {"mail"}


def test_a_definition_leaves_the_other_schedules_alone(run: Run) -> None:
    other = defined(run, "other")
    told = run(views.events(schedule="other"))

    assert run(schedules.define(NEW, revision=0, now=NOW))

    assert stored(run, "other") == other
    assert run(views.events(schedule="other")) == told


def test_a_refused_definition_leaves_no_event(run: Run) -> None:
    defined(run)
    assert not run(schedules.define(NEW, revision=7, now=NOW))

    assert len(run(views.events(schedule="nightly"))) == 1


def test_a_schedule_that_nobody_defined_cannot_be_paused_or_broken(run: Run) -> None:
    assert not run(schedules.pause("nightly", now=NOW))
    assert not run(schedules.mark_broken("nightly", revision=1, why="?", now=NOW))


def test_only_the_revision_that_was_read_is_marked_broken(run: Run) -> None:
    read = defined(run)
    assert run(schedules.pause("nightly", now=NOW))

    assert not run(schedules.mark_broken("nightly", revision=read.revision, why="?", now=NOW))
    assert run(
        schedules.mark_broken("nightly", revision=read.revision + 1, why="no such zone", now=NOW)
    )
    assert stored(run).broken == "no such zone"
