"""What a command line starts."""

from __future__ import annotations

import pytest

from onejob.scan.command import Started, started
from onejob.scan.finding import Verdict


def of_interest(command: str | list[str]) -> list[Started]:
    return [each for each in started(command) if each.kind]


@pytest.mark.parametrize(
    ("command", "program", "verdict"),
    [
        ("celery -A shop beat", "celery beat", Verdict.SINGLE),
        ("celery -A shop worker -B", "celery worker --beat", Verdict.MULTIPLIER),
        ("celery -A shop worker --beat -l info", "celery worker --beat", Verdict.MULTIPLIER),
        ("exec python -m celery -A shop beat", "celery beat", Verdict.SINGLE),
        ("sh -c 'migrate && exec celery -A shop beat'", "celery beat", Verdict.SINGLE),
        ("tini -- gosu app celery -A shop beat", "celery beat", Verdict.SINGLE),
        ("SHOP=1 poetry run celery --app=shop beat", "celery beat", Verdict.SINGLE),
        ("/app/manage.py rq scheduler", "rq scheduler", Verdict.SINGLE),
        ("python manage.py qcluster", "django-q cluster", Verdict.SINGLE),
        ("bundle exec clockwork clock.rb", "clockwork", Verdict.SINGLE),
        ("php artisan schedule:work", "laravel scheduler", Verdict.SINGLE),
        ("gunicorn -w 4 shop.wsgi", "gunicorn", Verdict.MULTIPLIER),
        ("gunicorn --workers=$((2 * CPUS)) shop.wsgi", "gunicorn", Verdict.MULTIPLIER),
        ("uvicorn shop.app:app --workers 5", "uvicorn", Verdict.MULTIPLIER),
        ("pm2-runtime start app.js -i max", "pm2", Verdict.MULTIPLIER),
        ("./entrypoint-scheduler.sh", "entrypoint-scheduler.sh", Verdict.SINGLE),
    ],
)
def test_a_command_is_looked_through_to_what_it_starts(
    command: str, program: str, verdict: Verdict
) -> None:
    (found,) = of_interest(command)

    assert (found.program, found.verdict) == (program, verdict)


@pytest.mark.parametrize(
    "command",
    [
        "echo celery -A shop beat",
        "pip install celery gunicorn",
        "celery -A shop inspect ping",
        "pkill -f 'celery beat'",
        "gunicorn -w 1 shop.wsgi",
        "test -f scheduler.pid || true",
        "# celery -A shop beat",
        "ps aux | grep celery",
    ],
)
def test_what_prepares_looks_or_stops_starts_nothing(command: str) -> None:
    assert of_interest(command) == []


@pytest.mark.parametrize(
    ("command", "workers", "variable"),
    [
        ("gunicorn -w4 shop", 4, ""),
        ("gunicorn --workers ${WORKERS} shop", None, "WORKERS"),
        ("gunicorn --workers ${WORKERS:-3} shop", 3, "WORKERS"),
        (["gunicorn", "-w", "2", "shop"], 2, ""),
        ("uvicorn shop:app --workers max", None, ""),
    ],
)
def test_workers_are_counted_or_traced_to_where_they_come_from(
    command: str, workers: int | None, variable: str
) -> None:
    (found,) = of_interest(command)

    assert (found.workers, found.workers_from) == (workers, variable)


def test_a_script_says_on_which_line_it_starts_what() -> None:
    script = "set -e\n\nmigrate && \\\n  load\nexec celery \\\n  --app shop \\\n  beat\n"

    (found,) = of_interest(script)

    assert found.offset == 4
    assert found.execs


def test_only_names_of_programs_modules_and_scripts_are_kept() -> None:
    (found,) = of_interest(
        "celery -A shop.jobs --broker redis://:secret@cache --password hunter2 beat"
    )

    assert set(found.words) == {"celery", "shop.jobs", "beat"}
