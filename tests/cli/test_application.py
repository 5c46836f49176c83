"""What ``MODULE:APP`` leads to, where the user's own module or what was written is not right."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from onejob.cli.root import root


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the current directory, with nothing left of the modules imported from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("ONEJOB_URL", "ONEJOB_SCHEMA"):
        monkeypatch.setenv(name, "")  # what a command sets here, does not outlive the test
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) in {*map(str, tmp_path.rglob("*.py"))}:
            del sys.modules[name]


def worker(spec: str, **environment: str) -> Result:
    return CliRunner().invoke(root, ["worker", spec], env=environment)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "import os\n\nurl = os.environ['NO_SUCH_DATABASE_URL']\n",
            "raised KeyError: 'NO_SUCH_DATABASE_URL' while it was imported (broken_app.py:3)",
        ),
        (
            "half = 1 / 0\n",
            "raised ZeroDivisionError: division by zero while it was imported (broken_app.py:1)",
        ),
        (
            "import json\n\n\ndef load(\n",
            "raised SyntaxError: '(' was never closed while it was imported (broken_app.py:4)",
        ),
        (
            "from json import no_such_name\n",
            "raised ImportError: cannot import name 'no_such_name' from 'json'",
        ),
        ("\nimport json\njson.loads('{')\n", "while it was imported (broken_app.py:3)"),
        ("\nassert False\n", "raised AssertionError while it was imported (broken_app.py:2)"),
        (
            "from onejob import App\napp = App('memory://')\napp.job(nothing=1)\n",
            "while it was imported (broken_app.py:3)",
        ),
        (
            "import no_such_module_of_mine\n",
            "needs the module 'no_such_module_of_mine', which is missing (broken_app.py:1)",
        ),
    ],
)
def test_what_the_users_module_raises_is_told_with_its_line(
    folder: Path, text: str, told: str
) -> None:
    (folder / "broken_app.py").write_text(text)

    result = worker("broken_app:app")

    assert result.exit_code == 2
    assert result.stderr.startswith("onejob: broken_app ")
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_line_is_that_of_the_module_in_which_it_was_raised(folder: Path) -> None:
    package = folder / "broken_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "settings.py").write_text("LIMIT = int('many')\n")
    (package / "jobs.py").write_text("from broken_package import settings\n")

    result = worker("broken_package.jobs:app")

    assert result.exit_code == 2
    assert "(broken_package/settings.py:1)" in result.stderr


def test_debugging_shows_the_traceback_of_the_users_module(folder: Path) -> None:
    (folder / "broken_debugged.py").write_text("1 / 0\n")

    result = worker("broken_debugged:app", ONEJOB_DEBUG="1")

    assert result.exception is not None
    assert isinstance(result.exception.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("spec", "instead"),
    [
        ("./shop.py:app", "Write the module's name: shop:app."),
        ("shop.py:app", "Write the module's name: shop:app."),
        ("shop/jobs.py:app", "Write the module's name: shop.jobs:app."),
        ("shop/jobs:app", "Write the module's name: shop.jobs:app."),
        (".shop:app", "Write the module's name: shop:app."),
        ("../shop.py:app", "Go to its folder and write the module's name: shop:app."),
        ("/srv/shop.py:app", "Go to its folder and write the module's name: shop:app."),
    ],
)
def test_the_name_of_a_file_is_refused_with_the_modules(spec: str, instead: str) -> None:
    result = worker(spec)

    assert result.exit_code == 2
    assert instead in result.stderr


def test_looking_at_an_app_whose_module_starts_a_scheduler_fires_nothing(
    folder: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONEJOB_DISABLED", raising=False)
    (folder / "starting_app.py").write_text(
        "import os\n"
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
        "from onejob import App\n"
        f"app = App({sqlite_url!r}, single_machine=True)\n"
        "app.store.init()\n"
        "guard = app.guard(BackgroundScheduler())\n"
        "app.start()\n"
        "said = os.environ.get('ONEJOB_DISABLED')\n"
    )

    result = CliRunner().invoke(root, ["replicas"], env={"ONEJOB_APP": "starting_app:app"})

    assert result.exit_code == 0, result.output
    assert "ONEJOB_DISABLED" not in result.output, "the user has set nothing"
    found = sys.modules["starting_app"]
    assert (found.said, found.guard.disabled, found.app.status().running) == ("1", True, False)
    assert "No replicas" in result.stderr
    assert "ONEJOB_DISABLED" not in os.environ


def test_a_worker_imports_its_app_as_one_that_fires(
    folder: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONEJOB_DISABLED", raising=False)
    (folder / "firing_app.py").write_text(
        "import os\n"
        "from onejob import App\n"
        f"app = App({sqlite_url!r}, single_machine=True)\n"
        "said = os.environ.get('ONEJOB_DISABLED')\n"
    )

    assert worker("firing_app:app").exit_code == 3  # it has no tables

    assert sys.modules["firing_app"].said is None


def test_a_worker_is_given_url_and_schema_before_or_after_its_name(
    folder: Path, sqlite_url: str
) -> None:
    (folder / "placed_app.py").write_text(
        "from onejob import App\napp = App(single_machine=True)\n"
    )
    place = ("--url", sqlite_url, "--schema", "shop")

    before = CliRunner().invoke(root, [*place, "worker", "placed_app:app"])
    del sys.modules["placed_app"]
    after = CliRunner().invoke(root, ["worker", "placed_app:app", *place])

    assert (before.exit_code, after.exit_code) == (3, 3)
    assert before.stderr == after.stderr
    assert before.stderr.endswith(f"Run: onejob init --url {sqlite_url} --schema shop\n")


def test_a_schema_that_the_code_names_is_not_changed_from_outside(
    folder: Path, sqlite_url: str
) -> None:
    text = (
        f"from onejob import App\napp = App({sqlite_url!r}, schema='shop', single_machine=True)\n"
    )
    (folder / "own_schema_app.py").write_text(text)
    place = ("--url", sqlite_url, "--schema", "other")

    result = CliRunner().invoke(root, ["worker", "own_schema_app:app", *place])

    assert result.exit_code == 2
    assert "names a schema of its own, 'shop'" in result.stderr
    assert result.stderr.endswith("Leave --schema out.\n")


def test_doctor_does_not_count_the_import_of_a_module_as_the_stores_delay(
    folder: Path, sqlite_url: str
) -> None:
    (folder / "slow_app.py").write_text(
        "import time\n"
        "from onejob import App\n"
        f"app = App({sqlite_url!r}, single_machine=True)\n"
        "app.store.init()\n"
        "time.sleep(1.1)\n"
    )

    result = CliRunner().invoke(root, ["doctor", "--json"], env={"ONEJOB_APP": "slow_app:app"})

    [connection] = [c for c in json.loads(result.stdout)["checks"] if c["name"] == "connection"]
    assert connection["detail"].endswith("ms")  # also "less than 1ms"
