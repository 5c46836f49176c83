"""What became of each period, key and guarded tick, from its claim and events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onejob.cli.claim_story import of_claim
from onejob.cli.claim_ticks import of_claims
from onejob.cli.ticks import Tick
from onejob.commands.claims import PERIOD, TICK, ClaimView
from onejob.commands.views import EventView
from onejob.core.run import Token
from onejob.core.time import SECOND

NOW = 1_774_746_000_000_000  # 2026-03-29T01:00:00Z
KEY = "celery:digest@2026-03-29T01:00:00Z"


def claim(state: Any = "done", *, kind: str = TICK, key: str = KEY, until: int = 2) -> ClaimView:
    return ClaimView(
        kind,
        "celery:digest",
        key,
        state,
        Token(3),
        "host:1/3f",
        1,
        NOW,
        NOW + until * SECOND,
        "exit 7" if state == "failed" else None,
        NOW + 10 * SECOND,
    )


def event(what: str, by: str, *, key: str = KEY, at: int = NOW, **detail: Any) -> EventView:
    return EventView(
        1, at, f"tick.{what}", "celery:digest", key, 0, 3, by, "celery:digest", json.dumps(detail)
    )


def test_a_guarded_tick_names_who_fired_it_and_who_lost() -> None:
    """A06"""
    lost = [event("lost", by, holder="host:1/3f") for by in ("host:2/aa", "host:3/bb", "host:2/cc")]
    other = event("lost", "host:9/aa", key="celery:digest@2026-03-30T01:00:00Z")

    [tick] = of_claims([claim()], [*lost, other])

    assert tick == Tick(
        at=NOW,
        key=KEY,
        outcome="fired",
        claimed_by="host:1",
        lost_by=("host:2", "host:3"),
        ran_on="host:1",
        started=NOW,
        ended=NOW + 2 * SECOND,
    )


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        (claim("claimed", until=20), "claimed"),
        (claim("claimed"), "missed"),
        (claim("claimed", kind=PERIOD), "abandoned"),
        (claim("firing", until=20), "firing"),
        (claim("firing"), "unknown"),
        (claim("failed"), "failed"),
        (claim("free"), "given back"),
        (claim("done", kind=PERIOD), "done"),
    ],
)
def test_how_a_claim_stands(row: ClaimView, outcome: str) -> None:
    [tick] = of_claims([row], [])

    assert tick.outcome == outcome
    assert bool(tick.note) == (outcome in ("missed", "abandoned", "unknown", "failed"))


def test_what_was_never_begun_was_not_started() -> None:
    [tick] = of_claims([claim("claimed")], [])

    assert (tick.claimed_by, tick.ran_on, tick.started, tick.ended) == ("host:1", "", 0, 0)


def test_who_gave_it_back_and_who_died_over_it_is_noted() -> None:
    told = [
        event("released", "host:2/aa", error="exit 1"),
        event("abandoned", "host:3/bb", taken_by="host:1/3f"),
    ]

    [tick] = of_claims([claim()], told)

    assert tick.note == "given back by host:2: exit 1; taken over from host:3"


@pytest.mark.parametrize(
    ("at", "note", "sentence"),
    [
        (NOW, "the tick before had not ended at host:3", "host:3 had not said how its tick ended"),
        (NOW + 1, "taken over from host:3", "it was still at work, or has died"),
    ],
)
def test_whoever_outlasts_its_interval_is_not_called_dead(
    at: int, note: str, sentence: str
) -> None:
    row = claim(key="celery:digest@every")
    told = event("abandoned", "host:3/bb", key=row.key, at=at, taken_by="host:1/3f")

    [tick] = of_claims([row], [told])
    story = of_claim(row, [told])

    assert tick.note == note
    assert any(sentence in one.sentence for one in story.events)


def test_a_key_of_a_users_own_names_no_instant() -> None:
    [tick] = of_claims([claim(kind=PERIOD, key="2026-11-29")], [])

    assert (tick.at, tick.key) == (0, "2026-11-29")


def test_an_interval_shows_its_last_tick_and_who_lost_that_one() -> None:
    """One row stands for all ticks of an interval: losers of earlier ones lost those."""
    key = "celery:digest@every"
    lost = [
        event("lost", "host:2/aa", key=key, at=NOW - 60 * SECOND),
        event("lost", "host:3/bb", key=key, at=NOW + 1),
    ]

    [tick] = of_claims([claim(key=key)], lost)

    assert (tick.at, tick.lost_by) == (NOW, ("host:3",))
