"""What is told of the fire time that a replaced definition leaves behind."""

from __future__ import annotations

import json

import pytest

from onejob.commands import missed
from onejob.commands.command import as_json
from onejob.commands.schedules import Schedule
from onejob.core.every import Every
from onejob.core.time import Instant, Span
from onejob.core.timing import Once, Timing, stored

NOW = 1_000


def schedule(timing: Timing, *, last: int, next_fire: int) -> Schedule:
    return Schedule(
        *("nightly", "nightly", as_json(stored(timing)), "{}", "v1", "", "[]"),
        last=last,
        next_fire=next_fire,
        paused=0,
        broken="",
        revision=1,
    )


@pytest.mark.parametrize(
    ("timing", "last", "next_fire", "told"),
    [
        (Every(Span(100), Instant(0)), 0, 900, True),
        (Every(Span(100), Instant(0)), 800, 900, True),
        (Every(Span(100), Instant(0)), 900, 1_000, True),
        (Every(Span(100), Instant(0)), 900, 1_100, False),
        (Every(Span(100), Instant(0)), 900, 0, False),
        # The store's clock was set back: what it names next has fired already.
        (Every(Span(100), Instant(0)), 950, 900, False),
        (Every(Span(100), Instant(0)), 900, 900, False),
        # One instant that was put anew is due, whatever came before it.
        (Once(Instant(900)), 950, 900, True),
    ],
)
def test_a_fire_time_is_missed_by_a_redefinition_only_if_it_had_not_fired(
    timing: Timing, last: int, next_fire: int, told: bool
) -> None:
    """P7: nothing is silent, and nothing that has fired is called missed."""
    detail = missed.of_redefinition(schedule(timing, last=last, next_fire=next_fire), NOW)

    assert bool(detail) is told
    assert not told or json.loads(detail)["newest"][0]["reason"] == "redefined"
