"""Celery beat, guarded and not, in real processes and in this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from guard.fleet import assert_each_once, assert_spaced, fleet, kill_one_at_work, most_in_a_second
from onejob import App


@pytest.mark.slow
def test_three_unguarded_beats_send_each_tick_three_times(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A15, A16: two beats for availability, or one in each worker."""
    with fleet("celery_beat_program", app, tmp_path, url=sqlite_url, unguarded="1") as three:
        effects = three.wait_for_effects(9)

    assert most_in_a_second(effects, "minutely") == 3


@pytest.mark.slow
def test_three_guarded_beats_send_each_tick_once(app: App, sqlite_url: str, tmp_path: Path) -> None:
    """A15, A16: one is killed while it sends, and another started."""
    with fleet("celery_beat_program", app, tmp_path, url=sqlite_url) as three:
        three.wait_for_effects(1)
        kill_one_at_work(three)
        three.wait_for_effects(6)

    assert_each_once(three, "celery:minutely", "minutely", every=60)


@pytest.mark.slow
def test_three_guarded_beats_keep_to_one_interval(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A23: each process counts from its own start, and yet there is one tick in an interval."""
    with fleet("celery_beat_program", app, tmp_path, url=sqlite_url, often="1") as three:
        three.wait_for_effects(1)
        kill_one_at_work(three)
        three.wait_for_effects(4)

    assert_spaced(three.effects("often"), least=0.9, most=3.0)
