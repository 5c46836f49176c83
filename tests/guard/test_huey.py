"""Huey, guarded, in real processes and in this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from guard.fleet import assert_each_once, fleet, kill_one_at_work
from onejob import App


@pytest.mark.slow
def test_three_guarded_hueys_fire_each_tick_once(app: App, sqlite_url: str, tmp_path: Path) -> None:
    """A01, A15: one is killed at work, and another started."""
    with fleet("huey_program", app, tmp_path, url=sqlite_url) as three:
        three.wait_for_effects(1)
        kill_one_at_work(three)
        three.wait_for_effects(4)

    assert_each_once(three, "huey:shop/", "minutely", every=60)
