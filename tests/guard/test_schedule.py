"""The schedule library, guarded, in real processes and in this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from guard.fleet import assert_each_once, assert_spaced, fleet, kill_one_at_work
from onejob import App


@pytest.mark.slow
def test_three_guarded_schedules_fire_each_tick_once(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A01, A15, A23: one is killed at work, and another started."""
    with fleet("schedule_program", app, tmp_path, url=sqlite_url) as three:
        three.wait_for_effects(2, "secondly")
        kill_one_at_work(three, "secondly")
        three.wait_for_effects(4, "secondly")
        three.wait_for_effects(3, "often")

    assert_each_once(three, "schedule:effect.effect('secondly'", "secondly", skips=False)
    assert_spaced(three.effects("often"), least=0.6, most=4.0)


@pytest.mark.slow
def test_a_tick_whose_winner_never_began_is_fired_by_another_within_a_lease(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A15: the process lives and is stuck, or has died; nobody can tell, and it does not matter."""
    with fleet("schedule_program", app, tmp_path, url=sqlite_url, STALL="1") as three:
        three.wait(lambda: bool(three.effects("stalled")), "tick that nobody begins")
        stalled = three.effects("stalled")[0]
        key = stalled.what.removeprefix("stalled ")
        three.wait(lambda: three.state(key) == "done", "takeover")

    [taken] = [row for row in three.rows() if row.key == key]
    assert taken.attempt == 2
    assert f":{stalled.pid}/" not in taken.owner
