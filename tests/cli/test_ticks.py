"""What became of each fire time, from what was read: expected ones, runs and events."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from onejob.cli.ticks import Evidence, Tick, of_schedule, place
from onejob.commands.ticks import TickView
from onejob.commands.views import EventView, ReplicaView, RunView, ScheduleView
from onejob.core.time import HOUR, MINUTE, SECOND, Instant, text

#: The schedule fires every hour; DAWN is the first fire time of a test, the others count from it.
DAWN = 1_774_746_000_000_000  # 2026-03-29T01:00:00Z


def at(hour: int) -> int:
    return DAWN + hour * HOUR


def schedule(*, next_fire: int, now: int, **more: Any) -> ScheduleView:
    stands = ScheduleView(
        "hourly", "mail", "{}", "{}", 0, next_fire, 0, "", 0, "{}", 2, 0, 0, 0, now
    )
    return replace(stands, **more)


def run(hour: int, **more: Any) -> RunView:
    ended = RunView(
        id=100 + hour,
        job="mail",
        key=f"hourly@{text(Instant(at(hour)))}",
        state="ended",
        outcome="succeeded",
        attempt=1,
        deaths=0,
        interrupted=0,
        token=7,
        replica="a",
        queue="default",
        priority=0,
        due=at(hour),
        started=at(hour) + SECOND,
        ended=at(hour) + 3 * SECOND,
        error=None,
        result=None,
        progress=None,
        schedule="hourly",
        fire_time=at(hour),
    )
    return replace(ended, **more)


def made(hour: int, *, lost: tuple[str, ...] = (), late: int = 0, **more: Any) -> TickView:
    return TickView("a", at(hour) + late, lost, run(hour, **more))


def event(kind: str, when: int, *, run_id: int = 0, **detail: Any) -> EventView:
    said = json.dumps(detail) if detail else "d1"
    return EventView(1, when, kind, "mail", "", run_id, 0, "b", "hourly", said)


def missed(when: int, *hours: int, reason: str = "catch_up", more: int = 0) -> EventView:
    newest = [{"at": text(Instant(at(hour))), "reason": reason} for hour in hours]
    return event("tick.missed", when, count=len(hours) + more, at_least=False, newest=newest)


def rows(
    *known: TickView | EventView,
    hours: range,
    next_hour: int | None = None,
    since: int = 0,
    most: int = 100,
    **stands: Any,
) -> list[tuple[int, str]]:
    """Return the hour and outcome of each row, the newest first."""
    found = ticks(*known, hours=hours, next_hour=next_hour, since=since, most=most, **stands)
    return [((tick.at - DAWN) // HOUR, tick.outcome) for tick in found]


def ticks(
    *known: TickView | EventView,
    hours: range,
    next_hour: int | None = None,
    since: int = 0,
    most: int = 100,
    **stands: Any,
) -> tuple[Tick, ...]:
    next_fire = at(hours.stop if next_hour is None else next_hour)
    evidence = Evidence(
        schedule(next_fire=next_fire, now=at(hours.stop) - MINUTE, **stands),
        tuple(Instant(at(hour)) for hour in hours),
        tuple(one for one in known if isinstance(one, TickView)),
        tuple(one for one in known if isinstance(one, EventView)),
        {
            id: ReplicaView(id, "shop", "host", number, "", "[]", "{}", 0, 0, 0, 0, 0, 0)
            for number, id in enumerate("abc", start=1)
        },
    )
    return of_schedule(evidence, since=since, most=most)


def test_a_run_says_who_claimed_it_who_lost_it_and_how_it_went() -> None:
    """A06: one winner, two losers, by host and pid."""
    [tick] = ticks(made(0, lost=("b", "c")), hours=range(1))

    assert tick == Tick(
        at=DAWN,
        key="hourly@2026-03-29T01:00:00Z",
        outcome="succeeded",
        claimed_by="host:1",
        lost_by=("host:2", "host:3"),
        ran_on="host:1",
        started=DAWN + SECOND,
        ended=DAWN + 3 * SECOND,
        note="",
        run=100,
    )


@pytest.mark.parametrize(
    ("tick", "told", "note"),
    [
        (made(0, replica="b"), None, "ran on host:2"),
        (made(0, late=2 * HOUR), None, "claimed 2h after it"),
        (made(0, late=59 * SECOND), None, ""),
        (made(0, attempt=3, deaths=1), None, "3 attempts; 1 lost with a replica"),
        (made(0, outcome="failed", error="ValueError: no"), None, "ValueError: no"),
        (made(0, error="the attempt before"), None, ""),
        (
            made(0),
            event("tick.queued", DAWN, run_id=100, fire_time=DAWN, by=99),
            "waited behind run 99",
        ),
        (made(0), event("run.late", DAWN, run_id=100, expected=DAWN), "late"),
        (made(0), event("run.late", DAWN, run_id=999, expected=DAWN), ""),
        (made(0), event("tick.known", DAWN, fire_time=DAWN), "fired again, and was known"),
    ],
)
def test_what_is_out_of_the_ordinary_is_noted(
    tick: TickView, told: EventView | None, note: str
) -> None:
    known = (tick,) if told is None else (tick, told)

    assert [one.note for one in ticks(*known, hours=range(1))] == [note]


def test_each_expected_fire_time_has_one_row_the_newest_first() -> None:
    skipped = event("tick.skipped", at(1), run_id=100, fire_time=at(1), by=100)

    found = rows(made(0), skipped, missed(at(3), 2), made(3), hours=range(4))

    assert found == [(3, "succeeded"), (2, "missed"), (1, "skipped"), (0, "succeeded")]


def test_a_live_run_shows_its_state() -> None:
    live = made(0, state="running", outcome=None, ended=0)

    assert rows(live, hours=range(1)) == [(0, "running")]


@pytest.mark.parametrize(
    ("stands", "outcome", "note"),
    [
        ({}, "due", "nobody has claimed it yet"),
        ({"paused": 1}, "paused", "it is missed when the schedule is resumed"),
        ({"declared": 0}, "orphaned", "no live replica declares it"),
        ({"declared": 0, "dynamic": 1}, "orphaned", "no live replica knows job mail"),
        ({"broken": "KeyError: tz", "paused": 1}, "broken", "KeyError: tz"),
    ],
)
def test_what_nobody_has_ticked_says_what_holds_it_up(
    stands: dict[str, Any], outcome: str, note: str
) -> None:
    found = ticks(made(0), hours=range(3), next_hour=1, **stands)

    assert [tick.outcome for tick in found] == [outcome, outcome, "succeeded"]
    assert {tick.note for tick in found[:2]} == {note}


def test_before_its_definition_nothing_was_expected() -> None:
    """A changed expression starts anew: what it would have fired before says nothing."""
    changed = event("schedule.defined", at(2) + MINUTE)

    assert rows(changed, made(3), hours=range(4)) == [(3, "succeeded")]


def test_what_has_a_record_is_shown_though_the_definition_is_younger() -> None:
    """Changed arguments keep the fire times: those before were expected, and happened."""
    changed = event("schedule.defined", at(2) + MINUTE)
    redefined = missed(at(2) + MINUTE, 2, reason="redefined")

    found = rows(made(1), redefined, changed, made(3), hours=range(4))

    assert found == [(3, "succeeded"), (2, "missed"), (1, "succeeded")]


def test_a_hole_after_the_definition_is_not_hidden() -> None:
    defined = event("schedule.defined", DAWN - MINUTE)

    assert rows(defined, made(0), made(2), hours=range(3)) == [
        (2, "succeeded"),
        (1, "no record"),
        (0, "succeeded"),
    ]


def test_what_was_purged_at_the_far_end_is_not_called_a_hole() -> None:
    """Events and runs are kept for 30 days: before them nothing is known, and nothing said."""
    assert rows(made(4), hours=range(5)) == [(4, "succeeded")]
    assert rows(hours=range(5)) == []


def test_a_fire_time_that_the_clocks_skipped_has_a_row_though_no_timing_names_it() -> None:
    gap = missed(at(1), 1, reason="gap")

    [late, early] = ticks(gap, made(0), hours=range(1))

    assert (late.at, late.outcome, early.outcome) == (at(1), "missed", "succeeded")
    assert "clocks skipped it" in late.note


def test_those_that_are_counted_and_not_listed_are_missed_too() -> None:
    """After a long outage all are counted, and the newest twenty listed."""
    outage = missed(at(9), 7, 8, more=3)

    found = rows(made(3), outage, made(9), hours=range(10))

    assert found == [
        (9, "succeeded"),
        *[(hour, "missed") for hour in (8, 7, 6, 5, 4)],
        (3, "succeeded"),
    ]


def test_the_count_of_those_missed_ends_at_one_that_was_run() -> None:
    outage = missed(at(5), 4, more=50)

    [_, listed, counted, ran] = ticks(made(2), outage, made(5), hours=range(6))[:4]

    assert (listed.outcome, counted.outcome, ran.outcome) == ("missed", "missed", "succeeded")
    assert "one of 51 at once, of which the newest 1 have a reason" in counted.note


def test_as_many_as_were_asked_for_from_then_on() -> None:
    known = [made(hour) for hour in range(6)]

    assert rows(*known, hours=range(6), most=2) == [(5, "succeeded"), (4, "succeeded")]
    assert rows(*known, hours=range(6), since=at(4)) == [(5, "succeeded"), (4, "succeeded")]


def test_one_that_nobody_knows_any_more_is_named_by_its_id() -> None:
    assert place("gone", {}) == "gone"
    assert place("evil\x1b[31m", {}) == "evil[31m"
