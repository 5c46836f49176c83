"""The scanner knows onejob itself, and says of each guard where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from onejob.scan import Finding, Verdict, scan
from onejob.scan.command import started
from onejob.scan.prefixed import guarded_by_us

FIXTURES = Path(__file__).parent / "fixtures/onejob"


def at(path: str, line: int) -> Finding:
    tree = FIXTURES / path.partition("/")[0]
    inside = path.partition("/")[2] or path
    return next(f for f in scan(tree).findings if (f.path, f.line) == (inside, line))


@pytest.mark.parametrize(
    ("path", "line", "place"),
    [
        ("guarded.tree/shop/clock.py", 7, "app.guard (shop/web.py:7) claims each tick"),
        ("guarded.tree/shop/jobs.py", 20, "app.guard (shop/web.py:7) claims each tick"),
        ("guarded.tree/shop/jobs.py", 10, "@app.cron (shop/jobs.py:10) makes one run"),
        ("celery.tree/shop/settings.py", 4, "app.guard (shop/once.py:5) claims each tick"),
        ("programs.tree/units/tidy.timer", 2, "onejob once (units/tidy.service:3) claims"),
        ("programs.tree/crontab", 7, "onejob once (scripts/backup.sh:6) claims the period"),
        ("programs.tree/crontab", 3, "onejob once (crontab:3) holds a lock"),
        ("bodies.py", 61, "@app.lock (bodies.py:22) is a lease"),
    ],
)
def test_a_reason_names_the_line_of_our_guard(path: str, line: int, place: str) -> None:
    assert at(path, line).reason.startswith(place)


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("onejob once x --per day -- run", Verdict.GUARDED),
        ("onejob once x --key 7 -- run --per day", Verdict.GUARDED),
        ("onejob once x -- run --per day", Verdict.NO_OVERLAP),
        ("onejob once x --key $$ -- run", Verdict.INERT_GUARD),
        ('onejob once x --key "$(date +%F)" -- run', Verdict.GUARDED),
        ('onejob once x --key "$(date +%s)" -- run', Verdict.INERT_GUARD),
        ("sudo -u shop uv run onejob --schema s once x --per 5m -- run", Verdict.GUARDED),
        ("onejob init && onejob once x --per day -- run", Verdict.GUARDED),
        ("onejob once x --per day -- run; onejob once y -- run", Verdict.NO_OVERLAP),
        ("onejob once x --per day -- run; run", None),
        ("run && onejob once x --per day -- run", None),
        ("echo onejob once x --per day -- run", None),
        ("onejob trigger shop:app x", None),
        ("onejob scan .", None),
    ],
)
def test_a_command_is_worth_what_onejob_before_it_keeps(
    command: str, verdict: Verdict | None
) -> None:
    guard = guarded_by_us(started(command), 1)

    assert (guard.gives if guard else None) is verdict
