"""APScheduler 3, guarded and not, in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from guard.fleet import assert_each_once, assert_spaced, fleet, kill_one_at_work, most_in_a_second
from onejob import App


@pytest.mark.slow
def test_three_unguarded_apschedulers_fire_each_tick_three_times(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A01, A02: what people meet; the guard is shown against it."""
    with fleet("apscheduler_program", app, tmp_path, url=sqlite_url, unguarded="1") as three:
        effects = three.wait_for_effects(12)

    assert most_in_a_second(effects, "secondly") == 3


@pytest.mark.slow
def test_three_guarded_apschedulers_fire_each_tick_once(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A01, A02, A23: one is killed at work and another started; what it left is unknown. An
    interval is kept to, though each process counts from its own start."""
    with fleet("apscheduler_program", app, tmp_path, url=sqlite_url) as three:
        three.wait_for_effects(2)
        kill_one_at_work(three)
        three.wait_for_effects(9)

    assert_each_once(three, "apscheduler:effect.effect('secondly'", "secondly")
    assert_spaced(three.effects("often"), least=0.9, most=3.0)
