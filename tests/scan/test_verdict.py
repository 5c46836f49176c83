"""The verdict, decided from facts alone."""

from __future__ import annotations

import pytest

from onejob.core.time import Instant
from onejob.scan import schedules
from onejob.scan.facts import Guard, Launch, Trigger
from onejob.scan.finding import Verdict
from onejob.scan.verdict import TIMES, decide, product, strongest

TRIGGER = Trigger("apscheduler", "shop/jobs.py", 3, "python")


def launch(replicas: int | None, workers: int | None, **more: object) -> Launch:
    return Launch(
        "process",
        "k8s.yaml",
        9,
        "kubernetes",
        replicas=replicas,
        workers=workers,
        **more,  # type: ignore[arg-type]  # by name
    )


@pytest.mark.parametrize(
    ("started", "verdict"),
    [
        (launch(1, 1, rollout="rolling"), Verdict.OVERLAP_ON_DEPLOY),
        (launch(1, 1, rollout="recreate"), Verdict.SINGLE),
        (launch(3, 1, rollout="recreate"), Verdict.UNGUARDED),
        (launch(1, 4, rollout="recreate"), Verdict.UNGUARDED),
        (launch(1, 1, autoscaled=True), Verdict.UNGUARDED),
        (launch(1, 1, embeds=True), Verdict.UNGUARDED),
        (launch(None, 1), Verdict.UNGUARDED),
    ],
)
def test_what_starts_the_process_decides_where_nothing_guards(
    started: Launch, verdict: Verdict
) -> None:
    assert decide(TRIGGER, (), (started,)).verdict is verdict


@pytest.mark.parametrize(
    ("started", "runs"),
    [
        (launch(3, 4), f"12 = 3 replicas {TIMES} 4 workers"),
        (launch(1, 4), f"4 = 1 replica {TIMES} 4 workers"),
        (launch(None, 4), f"n = replicas {TIMES} 4 workers"),
        (launch(2, None), f"n = 2 replicas {TIMES} workers"),
        (launch(2, 1, autoscaled=True), f"n = 2 or more replicas {TIMES} 1"),
    ],
)
def test_the_runs_are_a_sum_that_a_reader_can_check(started: Launch, runs: str) -> None:
    assert product(started, "process") == runs


def test_the_strongest_guard_speaks_and_what_switches_off_speaks_first() -> None:
    weak = Guard("weak", Verdict.WEAK_GUARD, 1)
    slot = Guard("slot", Verdict.GUARDED, 2)
    off = Guard("off", Verdict.DISABLED, 3)

    assert strongest((weak, slot)) is slot
    assert strongest((slot, off)) is off
    assert strongest(()) is None


def test_the_reason_names_the_evidence_with_its_place() -> None:
    guard = Guard("cache.add", Verdict.WEAK_GUARD, 7, "lapses", "shop/tasks.py")

    assert decide(TRIGGER, (guard,), ()).reason == "cache.add (shop/tasks.py:7) lapses"


def test_the_worst_of_several_launches_counts() -> None:
    decision = decide(TRIGGER, (), (launch(1, 1, rollout="recreate"), launch(2, 2)))

    assert decision.verdict is Verdict.UNGUARDED
    assert decision.runs_per_tick.startswith("4 = ")


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("0 3 * * *", "every day at 03:00"),
        ("every 5m", "every 5 minutes"),
        ("every 1d", "every day"),
        ("@reboot", ""),
        ("H 3 * * *", ""),
        ("from settings.PERIOD", ""),
    ],
)
def test_a_schedule_is_told_in_words_where_it_can_be(schedule: str, words: str) -> None:
    assert schedules.explained(schedule) == words


def test_the_next_fire_times_come_from_the_expression_alone() -> None:
    day = 24 * 3_600_000_000

    assert schedules.next_fires("0 0 * * *", Instant(0), 2) == (day, 2 * day)
    assert schedules.next_fires("0 0 31 2 *", Instant(0)) == ()
    assert schedules.next_fires("every 5m", Instant(0)) == ()
    assert schedules.never("0 0 31 2 *")
