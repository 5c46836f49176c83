"""A Django project's own tests, run as projects run them, on a database of each kind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from examples.conftest import database  # noqa: F401 - a fixture
from examples.hosts import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PROJECT = Path(__file__).parent / "project"


def sqlite(file: Path, *, in_tests: Path | None = None) -> dict[str, Any]:
    tests = {} if in_tests is None else {"NAME": str(in_tests)}
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file), "TEST": tests}


def postgresql(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
    }


def manage(
    databases: dict[str, Any],
    *arguments: str,
    onejob: dict[str, Any],
) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "TEST_DATABASES": json.dumps(databases),
            "TEST_ONEJOB": json.dumps(onejob),
        },
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(params=["sqlite in memory", "sqlite file", "postgresql"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    match request.param:
        case "sqlite in memory":
            yield {"default": sqlite(tmp_path / "shelf.db")}
        case "sqlite file":
            yield {
                "default": sqlite(tmp_path / "shelf.db"),
                "jobs": sqlite(tmp_path / "jobs.db", in_tests=tmp_path / "test.db"),
            }
        case _:
            yield {"default": postgresql(request.getfixturevalue("database"))}


def test_the_projects_own_tests_pass_in_a_transaction_that_is_rolled_back(
    databases: dict[str, Any],
) -> None:
    onejob = {"DATABASE": "jobs", "SCHEMA": "once"} if "jobs" in databases else {}
    said = manage(databases, "test", "--pattern", "checks.py", "--noinput", onejob=onejob)

    found = re.search(r"Ran (\d+) tests", said)
    assert found is not None, said
    assert int(found[1]) >= 30, said
