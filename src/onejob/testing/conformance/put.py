"""Schedules put as data: any replica that knows their job fires them."""

from __future__ import annotations

from dataclasses import replace

from onejob.commands import replicas, schedules, views
from onejob.commands.schedules import NewSchedule, PutSchedule
from onejob.core.time import DAY, HOUR
from onejob.testing.conformance.given import (
    NOW,
    Run,
    defined,
    joined,
    new_replica,
    resumed,
    step,
    stored,
)
from onejob.testing.conformance.sessions import Sessions

PUT = PutSchedule(
    name="tenant-1",
    job="mail",
    timing='{"at":1}',
    policy="{}",
    definition="p-1",
    next_fire=NOW,
    args='{"tenant":1}',
    queue="slow",
    priority=3,
    on_loss="fail",
    revision=0,
)


def put(run: Run, *names: str, **changes: object) -> list[schedules.Schedule]:
    """Put schedules that differ in their names; return them as the store has them."""
    batch = [replace(PUT, name=name, **changes) for name in names]  # type: ignore[arg-type]
    assert run(schedules.put(batch, now=NOW)) == {*names}
    return [stored(run, name) for name in names]


def test_what_is_put_comes_back_as_it_was_put(run: Run) -> None:
    [found] = put(run, "tenant-1")

    assert (found.name, found.job, found.definition) == ("tenant-1", "mail", "p-1")
    assert (found.args, found.queue, found.priority) == ('{"tenant":1}', "slow", 3)
    assert (found.on_loss, found.dynamic, found.revision) == ("fail", 1, 1)
    assert (found.last, found.next_fire, found.paused) == (0, NOW, 0)
    [event] = run(views.events(schedule="tenant-1"))
    assert (event.kind, event.detail) == ("schedule.defined", "p-1")


def test_data_is_replaced_exactly_at_the_revision_that_was_read(run: Run) -> None:
    put(run, "tenant-1")
    newer = replace(PUT, definition="p-2", revision=1, next_fire=NOW + DAY)

    answers = [run(schedules.put([newer], now=NOW)) for _ in range(2)]

    assert answers == [{"tenant-1"}, frozenset()]
    found = stored(run, "tenant-1")
    assert (found.definition, found.revision, found.next_fire) == ("p-2", 2, NOW + DAY)


def test_one_that_is_refused_does_not_hold_up_the_others(run: Run) -> None:
    put(run, "b")

    done = run(schedules.put([replace(PUT, name=name) for name in "abc"], now=NOW))

    assert done == {"a", "c"}


def test_code_and_data_do_not_replace_each_other(run: Run) -> None:
    declared = defined(run)
    [data] = put(run, "tenant-1")

    over_code = replace(PUT, name="nightly", revision=declared.revision)
    over_data = NewSchedule("tenant-1", "mail", "{}", "{}", "d", "", "[]", NOW)

    assert run(schedules.put([over_code], now=NOW)) == frozenset()
    assert not run(schedules.define(over_data, revision=data.revision, now=NOW))
    assert (stored(run), stored(run, "tenant-1")) == (declared, data)


def test_data_that_is_replaced_tells_what_it_missed_and_stays_paused(run: Run) -> None:
    """P7"""
    put(run, "tenant-1")
    assert run(schedules.pause("tenant-1", now=NOW))
    newer = replace(PUT, definition="p-2", revision=2, missed='{"count":1}', missed_count=1)

    assert run(schedules.put([newer], now=NOW))

    [view] = run(views.schedules(name="tenant-1", now=NOW))
    assert (view.missed, view.paused) == (1, 1)
    assert view.last == PUT.next_fire, "what was told as missed does not fire later"
    missed = [e for e in run(views.events(schedule="tenant-1")) if e.kind == "tick.missed"]
    assert [event.detail for event in missed] == ['{"count":1}']


def test_data_is_due_for_whoever_knows_its_job(run: Run) -> None:
    put(run, "a", "b")
    put(run, "c", job="bill")
    defined(run)

    def due(names: list[str], jobs: list[str]) -> list[str]:
        found = run(schedules.due(names, jobs, limit=10, now=NOW)).schedules
        return [schedule.name for schedule in found]

    assert due([], ["mail"]) == ["a", "b"]
    assert due([], ["bill", "mail"]) == ["a", "b", "c"]
    assert due(["nightly", "a"], []) == ["nightly"]
    assert due(["nightly"], ["bill"]) == ["c", "nightly"]
    assert due([], ["ship"]) == []


def test_the_earliest_are_due_first_and_a_reader_may_skip_some(run: Run) -> None:
    for n, name in enumerate("dcba"):
        put(run, name, next_fire=NOW + n)

    def names(skip: int) -> list[str]:
        found = run(schedules.due([], ["mail"], limit=2, skip=skip, now=NOW + 9)).schedules
        return [schedule.name for schedule in found]

    assert [names(0), names(1), names(3), names(4)] == [["c", "d"], ["b", "c"], ["a"], []]


def test_the_next_that_is_not_due_yet_is_told_with_what_is(run: Run) -> None:
    put(run, "due", next_fire=NOW)
    put(run, "later", next_fire=NOW + HOUR)
    put(run, "other", job="bill", next_fire=NOW + 1)
    defined(run, "mine", next_fire=NOW + 2)
    defined(run, "theirs", next_fire=NOW + 1)

    assert run(schedules.due([], ["mail"], limit=10, now=NOW)).ahead == NOW + HOUR
    assert run(schedules.due(["mine"], ["mail"], limit=10, now=NOW)).ahead == NOW + 2
    assert run(schedules.due(["mine"], [], limit=10, now=NOW + 2)).ahead == 0


def test_a_look_finds_the_next_fire_time_of_data_too(run: Run) -> None:
    put(run, "a", next_fire=NOW + HOUR)
    put(run, "b", job="bill", next_fire=NOW + 1)
    defined(run, "mine", next_fire=NOW + DAY)

    look = replicas.look(schedules=["mine", "a"], ticks=["mail"], now=NOW)

    assert run(look).next_fire == NOW + HOUR
    assert run(replicas.look(schedules=["mine", "a"], now=NOW)).next_fire == NOW + DAY


def test_data_ticks_as_what_is_declared_does(run: Run) -> None:
    [schedule] = put(run, "tenant-1")

    answers = [run(schedules.tick([step(schedule, NOW)], replica=r, now=NOW)) for r in "ab"]

    assert [len(answer) for answer in answers] == [1, 0]
    assert stored(run, "tenant-1").last == NOW


def test_data_is_declared_by_every_live_replica_that_fires_its_job(run: Run) -> None:
    put(run, "a")
    for id, ticks in (("x", ["mail"]), ("y", ["bill"]), ("z", ["mail", "bill"])):
        assert run(replicas.join(replace(new_replica(id), ticks=ticks), now=NOW))
    gone = replace(new_replica("gone"), ticks=["mail"])
    assert run(replicas.join(gone, now=NOW))
    assert run(replicas.leave(gone.id, now=NOW))

    [view] = run(views.schedules(name="a", now=NOW))

    assert (view.declared, view.dynamic, view.args) == (2, 1, '{"tenant":1}')


def test_what_was_put_can_be_deleted_and_put_anew(run: Run) -> None:
    put(run, "a", "b")

    assert [run(schedules.delete("a", now=NOW)) for _ in range(2)] == [True, False]

    assert [view.name for view in run(views.schedules(now=NOW))] == ["b"]
    assert [e.kind for e in run(views.events(schedule="a"))][-1] == "schedule.deleted"
    assert run(schedules.put([replace(PUT, name="a", revision=1)], now=NOW)) == frozenset()
    put(run, "a")


def test_what_live_code_declares_is_not_deleted(run: Run) -> None:
    """A16: removal is explicit, and one that its replica would put back at once is none."""
    schedule = defined(run)
    replica = joined(run, declares={"nightly": schedule.definition})

    while_declared = run(schedules.delete("nightly", now=NOW))
    assert run(replicas.leave(replica, now=NOW))

    assert (while_declared, run(schedules.delete("nightly", now=NOW))) == (False, True)
    assert run(views.schedules(now=NOW)) == ()


def test_schedules_are_listed_a_page_at_a_time(run: Run) -> None:
    put(run, "a-1", "a-2", "b-1")
    put(run, "a-3", job="bill")

    def listed(**asked: object) -> list[str]:
        return [view.name for view in run(views.schedules(now=NOW, **asked))]  # type: ignore[arg-type]

    assert listed(limit=2) == ["a-1", "a-2"]
    assert listed(after="a-2", limit=2) == ["a-3", "b-1"]
    assert listed(prefix="a-") == ["a-1", "a-2", "a-3"]
    assert listed(prefix="a-", job="mail") == ["a-1", "a-2"]
    assert listed(name="b-1") == ["b-1"]
    assert listed(prefix="%") == []


def test_a_resumed_schedule_goes_on_where_it_was_told_to(run: Run) -> None:
    put(run, "a")
    assert run(schedules.pause("a", now=NOW))
    paused = stored(run, "a")
    resume = schedules.resume(
        "a",
        revision=paused.revision,
        last=NOW + HOUR,
        next_fire=NOW + DAY,
        missed='{"count":2}',
        missed_count=2,
        now=NOW + HOUR,
    )

    answers = [run(resume) for _ in range(2)]

    assert answers == [True, False]
    found = stored(run, "a")
    assert (found.paused, found.last, found.next_fire) == (0, NOW + HOUR, NOW + DAY)
    told = [event.kind for event in run(views.events(schedule="a"))]
    assert told[1:] == ["schedule.paused", "schedule.resumed", "tick.missed"]
    [view] = run(views.schedules(name="a", now=NOW))
    assert view.missed == 2


def test_only_the_revision_that_was_read_is_resumed(run: Run) -> None:
    put(run, "a")
    assert not resumed(run, "a")
    assert run(schedules.pause("a", now=NOW))

    stale = schedules.resume("a", revision=1, last=0, next_fire=NOW, now=NOW)

    assert not run(stale)
    assert stored(run, "a").paused == 1


def test_pausing_twice_is_once(run: Run) -> None:
    put(run, "a")

    assert [run(schedules.pause("a", now=NOW)) for _ in range(2)] == [True, True]

    assert stored(run, "a").revision == 2
    assert len(run(views.events(schedule="a"))) == 2


def test_of_two_sessions_that_put_the_same_name_one_is_refused(
    run: Run, sessions: Sessions
) -> None:
    put(run, "a")
    newer = [replace(PUT, name="a", definition=f"p-{n}", revision=1) for n in (2, 3)]
    first, second = sessions.open(), sessions.open()
    assert first.run(schedules.put([newer[0]], now=NOW))
    first.commit()

    assert second.run(schedules.put([newer[1]], now=NOW)) == frozenset()
    second.commit()

    assert stored(run, "a").definition == "p-2"
