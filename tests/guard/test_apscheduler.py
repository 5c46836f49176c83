"""APScheduler 3, guarded and not, in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from guard.fleet import assert_each_once, fleet, kill_one_at_work, most_in_a_second
from onejob import App


@pytest.mark.slow
def test_three_unguarded_apschedulers_fire_each_tick_three_times(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A01, A02: what people meet; the guard is shown against it."""
    with fleet("apscheduler_program", app, tmp_path, url=sqlite_url, unguarded="1") as three:
        effects = three.wait_for_effects(9)

    assert most_in_a_second(effects) == 3


@pytest.mark.slow
def test_three_guarded_apschedulers_fire_each_tick_once(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A01, A02, A15: one is killed at work and another started; what it left is unknown."""
    with fleet("apscheduler_program", app, tmp_path, url=sqlite_url) as three:
        three.wait_for_effects(2)
        kill_one_at_work(three)
        three.wait_for_effects(5)

    assert_each_once(three)
