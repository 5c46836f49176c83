"""Where the next claim looks: at the marks, or at everything within a stated bound."""

from __future__ import annotations

from typing import Any

from onejob.core.run import ClaimedRun
from onejob.core.watermark import FULL_LEAST, FULL_MOST, Probe, Watermark, full_probes

QUEUES = ("default", "mail")
STORE_NOW = 1_774_746_000_000_000


def claimed(id: int, *, due: int = STORE_NOW, at: int = STORE_NOW, **changes: Any) -> ClaimedRun:
    fields: dict[str, Any] = dict.fromkeys(ClaimedRun._fields, 0)
    fields |= {"id": id, "due": due, "claimed": at, "queue": "default", "priority": 5, **changes}
    return ClaimedRun(**fields)


def working(*runs: ClaimedRun, wanted: int = 1, cost: int = 1_000) -> Watermark:
    """Return what a worker remembers after a full claim at 0 that brought these runs."""
    watermark = Watermark(QUEUES)
    watermark.claimed(runs, full=True, wanted=wanted, sent=-cost, now=0)
    return watermark


def test_the_first_claim_looks_at_every_priority_of_every_queue() -> None:
    probes = Watermark(QUEUES).probes(0)

    assert probes == full_probes(QUEUES)
    assert len(probes) == 20
    assert [probe.priority for probe in probes] == sorted(probe.priority for probe in probes)


def test_the_next_one_starts_behind_what_was_claimed() -> None:
    watermark = working(claimed(7), claimed(3, priority=0, queue="mail"), wanted=2)

    assert watermark.probes(1) == (
        Probe("mail", 0, STORE_NOW, 3),
        Probe("default", 5, STORE_NOW, 7),
    )


def test_a_mark_never_goes_back() -> None:
    watermark = working(claimed(7), claimed(3), wanted=2)

    assert watermark.probes(1) == (Probe("default", 5, STORE_NOW, 7),)


def test_a_full_claim_runs_at_least_every_half_second_while_claims_succeed() -> None:
    watermark = working(claimed(7))

    assert not watermark.full_due(FULL_LEAST - 1)
    assert watermark.full_due(FULL_LEAST)
    assert watermark.probes(FULL_LEAST) == full_probes(QUEUES)


def test_an_expensive_full_claim_takes_a_bounded_share_of_the_time() -> None:
    watermark = working(claimed(7), cost=100_000)

    assert not watermark.full_due(999_999)
    assert watermark.full_due(1_000_000)


def test_one_slow_full_claim_does_not_hide_what_lies_behind_for_longer_than_the_bound() -> None:
    """After an outage of a minute, not ten minutes of blindness."""
    assert working(claimed(7), cost=60_000_000).full_due(FULL_MOST)


def test_a_short_claim_is_followed_by_a_full_one_without_waiting() -> None:
    watermark = working(claimed(7), wanted=2, cost=1_000)

    assert not watermark.full_due(9_999)
    assert watermark.full_due(10_000)


def test_the_marks_are_dropped_when_the_stores_clock_has_gone_back() -> None:
    watermark = working(claimed(7))
    watermark.claimed(
        [claimed(9, due=STORE_NOW - 60_000_000, at=STORE_NOW - 60_000_000)],
        full=False,
        wanted=1,
        sent=1,
        now=2,
    )

    assert watermark.probes(3) == (Probe("default", 5, STORE_NOW - 60_000_000, 9),)


def test_forgetting_starts_from_the_beginning() -> None:
    watermark = working(claimed(7))
    watermark.forget()

    assert watermark.probes(1) == full_probes(QUEUES)
