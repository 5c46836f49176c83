"""The story of a run or a fire time: sentences from values."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from onejob.cli import story
from onejob.cli.story import Evidence
from onejob.commands.views import EffectView, EventView, ReplicaView, RunView
from onejob.core.time import SECOND

AT = 1_774_746_000_000_000  # 2026-03-29T01:00:00Z

RUN = RunView(
    id=5, job="nightly", key="nightly@2026-03-29T01:00:00Z", state="ended", outcome="succeeded",
    attempt=3, deaths=2, interrupted=0, token=44, replica="c", queue="default", priority=0, due=AT,
    started=AT + 8 * SECOND, ended=AT + 10 * SECOND, error=None, result=None, progress=None,
    schedule="nightly", fire_time=AT,
)  # fmt: skip

REPLICA = ReplicaView("a", "shop", "web-1", 4711, "", "[]", "{}", 0, 0, 0, AT, 0, AT)


@pytest.fixture(autouse=True)
def in_utc(quiet_environment: None) -> None:
    """Sentences hold local time."""


def event(kind: str, **detail: object) -> EventView:
    return EventView(
        1, AT + 2 * SECOND, kind, "nightly", RUN.key, 5, 41, "a", "nightly", json.dumps(detail)
    )


def told(evidence: Evidence) -> list[str]:
    return [one.sentence for one in story.of_run(evidence).events]


def test_a_run_that_lost_two_replicas_is_told_from_beginning_to_end() -> None:
    abandoned = event("attempt.abandoned", attempt=1, to="scheduled", delay=300_000)
    evidence = Evidence(RUN, events=(abandoned,), replicas={"a": REPLICA}, now=AT)

    assert told(evidence) == [
        "Expected 2026-03-29 01:00:00Z by schedule nightly.",
        "Attempt 1 on replica a (web-1, pid 4711), token 41, was abandoned: its replica died or "
        "lost its lease. Scheduled again after 300ms.",
        "Attempt 3 on replica c, token 44, succeeded, 2s after its start.",
    ]
    assert story.of_run(evidence).answer == (
        "nightly of 2026-03-29 01:00:00Z (run 5) succeeded after 3 attempts, 2 of them lost with a "
        "replica."
    )


def test_a_run_that_was_asked_for_is_called_by_its_id_and_key() -> None:
    """Not by when it is due: that moves with every attempt."""
    asked = replace(RUN, schedule="", fire_time=0, key="n1", state="unknown", outcome=None)

    assert story.of_run(Evidence(asked, now=AT)).answer.startswith(
        "nightly run 5 (key n1) is unknown, 3 attempts so far"
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("attempt.failed", "failed: ValueError: no"),
        ("attempt.timed out", "timed out: ValueError: no"),
        ("attempt.interrupted", "was interrupted: its replica was asked to stop"),
        ("attempt.parked", "has no code for this job"),
        ("attempt.unknown", "an effect's outcome being unknown"),
        ("run.retried", "Somebody asked to retry it"),
    ],
)
def test_each_thing_that_can_happen_has_its_sentence(kind: str, words: str) -> None:
    evidence = Evidence(RUN, events=(event(kind, attempt=1, error="ValueError: no"),), now=AT)

    assert words in told(evidence)[1]


@pytest.mark.parametrize(
    ("state", "due", "words"),
    [
        ("scheduled", AT - SECOND, "not claimed yet"),
        ("scheduled", AT + SECOND, "Waits until"),
        ("running", AT, "has been running for"),
        ("parked", AT, "no live replica knows job nightly"),
        ("unknown", AT, "onejob effects unknown"),
    ],
)
def test_a_live_run_says_what_it_waits_for(state: str, due: int, words: str) -> None:
    live = replace(RUN, state=state, outcome=None, ended=0, due=due)

    assert words in told(Evidence(live, now=AT))[-1]


def test_effects_are_counted_and_the_doubtful_ones_named() -> None:
    done = EffectView("nightly/k", "digest:1", "done", 41, "a/41", 1, AT, None)
    repeated = replace(done, key="digest:2", attempt=2)
    unknown = replace(done, key="digest:3", state="unknown", error="timeout")

    sentences = told(Evidence(RUN, effects=(done, repeated, unknown), now=AT))

    assert "Effects: 2 done, 1 unknown." in sentences
    assert any(s.endswith("unknown: digest:2.") for s in sentences)
    assert "Effect digest:3 is unknown: timeout." in sentences


def test_a_skipped_fire_time_names_the_run_in_its_way() -> None:
    skipped = event("tick.skipped", fire_time=AT, by=5)

    tick = story.of_tick("nightly", "nightly", AT, (skipped,))

    assert tick is not None
    assert "was skipped: run 5 before it had not ended" in tick.answer
    assert tick.key == RUN.key


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("late", "max_lateness"),
        ("catch_up", "a newer fire time"),
        ("cap", "catch_up_cap"),
        ("gap", "the clocks skipped it"),
        ("paused", "was paused then"),
    ],
)
def test_a_missed_fire_time_says_why(reason: str, words: str) -> None:
    """P7: a missed fire time is listed and explained."""
    newest = [{"at": "2026-03-29T01:00:00Z", "reason": reason}]
    missed = event("tick.missed", count=1, newest=newest)

    tick = story.of_tick("nightly", "nightly", AT, (missed,))

    assert tick is not None
    assert words in tick.answer
    assert story.missed_at(missed) == AT


def test_a_fire_time_that_nobody_recorded_has_no_story() -> None:
    assert story.of_tick("nightly", "nightly", AT + SECOND, (event("tick.skipped"),)) is None


def test_what_is_stored_is_told_without_its_control_characters() -> None:
    failed = event("attempt.failed", attempt=1, error="no \x1b[31mway\u202e")

    assert "no [31mway" in told(Evidence(RUN, events=(failed,), now=AT))[1]
