"""Every guard has a test that fails when the guard is removed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutants.mutant import Mutant
from tests.mutants.mutants import MUTANTS

import onejob

_PACKAGE = Path(onejob.__file__).parent
_ROOT = Path(__file__).parents[2]

#: pytest's exit code for "tests ran and some failed"; 5 would mean that none was selected.
_TESTS_FAILED = 1

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


def _environment(**more: str) -> dict[str, str]:
    """Return an environment for a test run of its own: it must not tidy this run's databases up."""
    ours = ("ONEJOB_TEST_SESSION", "PYTEST_XDIST", "PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | more


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.guard.replace(" ", "_"))
def test_a_package_without_this_guard_fails_its_tests(
    mutant: Mutant, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if mutant.needs == "postgresql":
        request.getfixturevalue("postgres_url")
    copy = tmp_path / "onejob"
    # With what is compiled already; a file that is being written has a name of its own.
    shutil.copytree(_PACKAGE, copy, ignore=shutil.ignore_patterns("*.pyc.*"))
    file = copy / mutant.file
    text = file.read_text("utf-8")
    assert mutant.old in text, "the guard stands no longer where the table says"
    file.write_text(text.replace(mutant.old, mutant.new), "utf-8")

    run = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:xdist",
            ),
            *shlex.split(mutant.tests),
        ],
        cwd=_ROOT,
        env=_environment(PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert run.returncode == _TESTS_FAILED, f"survived: {run.stdout[-1500:]}{run.stderr[-500:]}"
