"""What the doctor makes of what it reads: decisions over values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from onejob.cli import checks
from onejob.commands.claims import ClaimView
from onejob.commands.views import JobView, ReplicaView, ScheduleView
from onejob.core.run import Token
from onejob.core.time import MINUTE, SECOND, Span
from onejob.effects import EffectInfo

NOW = 1_774_746_000_000_000

LIVE = ReplicaView(
    "r1", "shop", "host-1", 1, "2.0", '["resize"]', "{}", NOW, NOW + 12 * SECOND, 0, 0, 0, NOW
)
QUIET = JobView("resize", 0, 0, 0, 0, 0, None)
IN_TIME = ScheduleView(
    "nightly", "nightly", '{"every":1}', "{}", 0, NOW + SECOND, 0, "", 0, "{}", 1, 0, 0, 0, NOW
)


def test_a_clock_within_its_own_uncertainty_is_in_step() -> None:
    check = checks.clock(Span(800), Span(1_000))

    assert check.ok
    assert check.detail == "in step"


def test_a_clock_that_is_minutes_ahead_fails_with_what_to_do() -> None:
    check = checks.clock(Span(3 * MINUTE), Span(1_000))

    assert not check.ok
    assert "3m ahead" in check.detail
    assert "NTP" in check.detail


def test_versions_of_live_replicas_are_counted() -> None:
    """A18: a rolling update, or an old process left over, is visible."""
    check = checks.replicas((LIVE, replace(LIVE, id="r2", version="1.9")), (QUIET,))

    assert check.ok
    assert check.detail == "2 live: 1 with 1.9, 1 with 2.0"


def test_a_replica_whose_lease_lapsed_fails_the_check() -> None:
    check = checks.replicas((LIVE, replace(LIVE, id="r2", lease_until=NOW - SECOND)), (QUIET,))

    assert not check.ok
    assert "1 of 2" in check.detail
    assert "r2" in check.detail


def test_no_live_replica_fails_only_where_runs_wait() -> None:
    dead = replace(LIVE, dead_at=NOW)

    assert checks.replicas((dead,), (QUIET,)).ok
    assert not checks.replicas((dead,), (replace(QUIET, scheduled=3),)).ok


def test_parked_runs_name_their_job() -> None:
    check = checks.parked((replace(QUIET, parked=2),))

    assert not check.ok
    assert "resize (2)" in check.detail


def test_runs_that_wait_for_what_is_unknown_fail_the_check() -> None:
    check = checks.unknown((QUIET, replace(QUIET, job="bill", unknown=2)))

    assert checks.unknown((QUIET,)).ok
    assert not check.ok
    assert "bill (2)" in check.detail
    assert "onejob runs --state unknown" in check.detail


def test_unknown_effects_are_counted_and_the_oldest_has_its_age() -> None:
    """P5, P7: what nobody settles gets no clearer with time."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    old = EffectInfo(
        "bill/7", "charge", "unknown", 1, now, "a", None, None, None, timedelta(days=3, hours=4)
    )
    new = replace(old, key="mail", age=timedelta(seconds=2))

    check = checks.effects([old, new], most=1_000)

    assert checks.effects([], most=1_000).ok
    assert not check.ok
    assert check.detail.startswith("2 unknown, the oldest for 3d4h: charge in bill/7, mail in bill")
    assert checks.effects([old, new], most=2).detail.startswith("2 or more unknown")


def test_guarded_ticks_that_are_unknown_or_missed_are_named_apart() -> None:
    row = ClaimView("schedule", "a", "a@noon", "firing", Token(1), "x", 1, NOW, NOW, None, NOW)

    check = checks.ticks((row, replace(row, state="claimed", key="a@night")))

    assert check.ok
    assert check.detail.startswith("1 unknown, not fired again: a@noon; 1 missed: a@night.")
    assert checks.ticks(()).detail == "none unknown or missed"


def test_a_schedule_is_late_broken_or_orphaned_and_says_which() -> None:
    late = replace(IN_TIME, name="late", next_fire=NOW - 5 * MINUTE)
    broken = replace(IN_TIME, name="broken", broken="no such zone")
    orphan = replace(IN_TIME, name="orphan", declared=0)

    check = checks.schedules((IN_TIME, late, broken, orphan))

    assert not check.ok
    assert "late should have fired" in check.detail
    assert "5m ago" in check.detail
    assert "broken is broken (no such zone)" in check.detail
    assert "no live replica declares orphan" in check.detail
    assert check.detail.endswith("if it has gone from your code: onejob schedules delete orphan")


def test_a_schedule_that_is_data_is_not_looked_for_in_the_code() -> None:
    check = checks.schedules(
        (replace(IN_TIME, name="report-42", job="report", dynamic=1, declared=0),)
    )

    assert not check.ok
    assert check.detail == (
        "no live replica has the job of report-42. Start a replica that has its job, report, or, "
        "if it is wanted no more: onejob schedules delete report-42"
    )


def test_a_paused_schedule_is_neither_late_nor_orphaned() -> None:
    paused = replace(IN_TIME, paused=1, declared=0, next_fire=NOW - 5 * MINUTE)

    check = checks.schedules((IN_TIME, paused))

    assert check.ok
    assert check.detail == "1 in time, 1 paused"
