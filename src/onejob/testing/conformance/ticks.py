"""What became of fire times: who claimed each, who lost it, and what else was told."""

from __future__ import annotations

from onejob.commands import runs, schedules, ticks, views
from onejob.commands.schedules import LostTick
from onejob.core.keys import fire_key
from onejob.core.run import Again, Outcome
from onejob.core.time import DAY, HOUR, Instant
from onejob.testing.conformance.given import (
    DONE,
    NOW,
    Run,
    claim,
    claim_alone,
    defined,
    joined,
    made,
    settle,
    step,
    stored,
)

KEY = fire_key("nightly", Instant(NOW))


def fired(run: Run, *, by: str = "replica-a") -> int:
    """Let the first fire time become a run; return its id."""
    [ticked] = run(schedules.tick([step(defined(run), NOW)], replica=by, now=NOW))
    return ticked.run_id


def test_a_fire_time_names_who_claimed_it_and_who_lost_it(run: Run) -> None:
    """A06: one winner, two losers, each once, in the order of their telling."""
    id = fired(run, by="replica-c")
    lost = LostTick("nightly", NOW, "mail", KEY)
    for loser in ("replica-b", "replica-a", "replica-b"):
        run(schedules.lost([lost], replica=loser, now=NOW + 1))

    [tick] = run(ticks.made([("mail", KEY)]))

    assert (tick.claimed_by, tick.claimed, tick.lost_by) == (
        "replica-c",
        NOW,
        ("replica-b", "replica-a"),
    )
    assert tick.run == run(views.run_get(id))


def test_of_a_fire_time_whose_run_has_ended_the_latest_end_is_shown(run: Run) -> None:
    id = fired(run)
    [first] = claim(run, joined(run))
    assert settle(run, first.claim, DONE)
    [ended] = run(ticks.made([("mail", KEY)]))
    assert run(runs.retry(first.id, now=NOW))
    [live] = run(ticks.made([("mail", KEY)]))
    [again] = claim(run, joined(run, "replica-b"))
    assert settle(run, again.claim, Again(0, Outcome.ABANDONED))
    [last] = claim_alone(run, joined(run, "replica-d"))
    assert settle(run, last.claim, DONE)
    [after] = run(ticks.made([("mail", KEY)]))

    assert (ended.run.id, ended.run.state, ended.run.replica) == (id, "ended", "replica-a")
    assert live.run.state == "scheduled"
    assert (after.run.token, after.run.replica) == (last.token, "replica-d")


def test_only_the_fire_times_that_were_asked_for_are_read(run: Run) -> None:
    fired(run)
    run(schedules.tick([step(stored(run), NOW + DAY)], replica="b", now=NOW + DAY))
    made(run, fire_key("nightly", Instant(NOW + 2 * DAY)), keyed=True)
    keys = [fire_key("nightly", Instant(NOW + days * DAY)) for days in range(3)]

    found = run(ticks.made(("mail", key) for key in [*keys, *keys]))

    assert [tick.run.key for tick in found] == keys[:2]
    assert [tick.lost_by for tick in found] == [(), ()]
    assert run(ticks.made(("other", key) for key in keys)) == run(ticks.made([])) == ()


def test_what_was_told_of_fire_times_is_read_newest_first_without_who_lost(run: Run) -> None:
    fired(run)
    run(schedules.lost([LostTick("nightly", NOW, "mail", KEY)], replica="b", now=NOW))
    skipped = step(stored(run), NOW + HOUR, overlap="skip", missed='{"count":1}', missed_count=1)
    run(schedules.tick([skipped], replica="b", now=NOW + HOUR))
    assert run(schedules.pause("nightly", now=NOW + 2 * HOUR))

    told = run(ticks.told("nightly", since=NOW, limit=10))

    assert {event.kind for event in told[:2]} == {"tick.missed", "tick.skipped"}
    assert [event.kind for event in told[2:]] == ["schedule.defined"]
    assert run(ticks.told("nightly", since=NOW + 1, limit=10)) == told[:2]
    assert run(ticks.told("nightly", since=NOW, limit=1)) == told[:1]
    assert run(ticks.told("other", since=0, limit=10)) == ()
