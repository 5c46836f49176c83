"""Taskiq, guarded, in real processes and in this one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from guard.fleet import assert_each_once, assert_spaced, fleet, kill_one_at_work
from onejob import App


@pytest.mark.slow
def test_three_guarded_taskiqs_fire_each_tick_once(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A01, A15, A23: one is killed at work, and another started."""
    begin = str(int(time.time()) + 2)
    with fleet("taskiq_program", app, tmp_path, url=sqlite_url, BEGIN=begin) as three:
        three.wait_for_effects(2)
        kill_one_at_work(three)
        three.wait_for_effects(4, "secondly")
        three.wait_for_effects(3, "often")

    assert_each_once(three, "taskiq:secondly", "secondly", skips=False)
    assert_spaced(three.effects("often"), least=0.6, most=4.0)
