"""django-celery-beat: entries that are rows, read by three beats, in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from guard.fleet import assert_each_once, assert_spaced, fleet, kill_one_at_work
from onejob import App

pytest.importorskip(
    "django_celery_beat", reason="it takes no Django as new as the one for Python 3.12 and newer"
)

PROGRAM = "django_celery_beat_program"


@pytest.mark.soak
def test_three_unguarded_beats_on_one_database_send_each_tick_three_times(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A15: the shared rows say what there is to do, and not who does it."""
    with fleet(
        PROGRAM, app, tmp_path, url=sqlite_url, made=True, ENTRIES="minutely", unguarded="1"
    ) as three:
        three.wait_for_three_at_once("minutely")


@pytest.mark.slow
def test_three_guarded_beats_on_one_database_send_each_tick_once(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    """A15: one is killed while it sends, and another started."""
    with fleet(PROGRAM, app, tmp_path, url=sqlite_url, made=True, ENTRIES="minutely") as three:
        three.wait_for_effects(1)
        kill_one_at_work(three)
        three.wait_for_effects(5)

    assert_each_once(three, "celery:minutely", "minutely", every=60)


@pytest.mark.slow
def test_three_guarded_beats_on_one_database_keep_to_one_interval(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    with fleet(PROGRAM, app, tmp_path, url=sqlite_url, made=True, ENTRIES="often") as three:
        three.wait_for_effects(1)
        kill_one_at_work(three)
        three.wait_for_effects(4)

    assert_spaced(three.effects("often"), least=0.6, most=6.0)


@pytest.mark.slow
def test_a_clocked_entry_is_sent_once_by_three_guarded_beats(
    app: App, sqlite_url: str, tmp_path: Path
) -> None:
    with fleet(PROGRAM, app, tmp_path, url=sqlite_url, made=True, ENTRIES="once") as three:
        three.wait_for_effects(1)
        [row] = three.rows("celery:once")
        three.wait(lambda: three.state(row.key) == "done", "note that it was sent")

    assert len(three.effects("once")) == 1
