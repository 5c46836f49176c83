"""APScheduler 3, guarded and not, in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from guard.fleet import assert_each_once, assert_spaced, fleet, kill_one_at_work
from onejob import App

SECONDLY = "apscheduler:effect.effect('secondly'"


@pytest.mark.slow
def test_three_unguarded_apschedulers_fire_each_tick_three_times(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A01, A02: what people meet; the guard is shown against it."""
    with fleet("apscheduler_program", app, tmp_path, url=sqlite_url, unguarded="1") as three:
        three.wait_for_three_at_once("secondly")


@pytest.mark.slow
def test_three_guarded_apschedulers_fire_each_tick_once(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A01, A02, A23: one is killed at work and another started; what it left is unknown. An
    interval is kept to, though each process counts from its own start."""
    with fleet("apscheduler_program", app, tmp_path, url=sqlite_url) as three:
        three.wait_for_effects(2)
        kill_one_at_work(three)
        three.wait_for_effects(4, "secondly")
        three.wait_for_effects(3, "often")

    assert_each_once(three, SECONDLY, "secondly")
    assert_spaced(three.effects("often"), least=0.6, most=4.0)


@pytest.mark.slow
def test_an_unknown_tick_is_fired_again_where_told_in_loops_on_postgresql(
    on_postgres: App, postgres_url: str, tmp_path: Path
) -> None:
    """A15: what the killed one left is taken over within a lease; nobody else fires twice."""
    more = {"url": postgres_url, "LOOP": "1", "ON_UNKNOWN": "fire", "LEASE": "2s"}
    with fleet("apscheduler_program", on_postgres, tmp_path, **more) as three:
        three.wait_for_effects(2)
        kill_one_at_work(three, "secondly")
        killed = three.rows(SECONDLY)[-1].key
        three.wait(lambda: three.state(killed) == "done", "end of what was left")
        three.wait_for_effects(7)

    rows = three.rows(SECONDLY)
    assert killed in [row.key for row in rows if row.attempt > 1]
    done = [row for row in rows if row.state == "done"]
    assert len(done) <= len(three.effects("secondly")) <= len(rows) + 1
