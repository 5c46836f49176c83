"""The GitHub Action and the pre-commit hook do what their files say: their own lines are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
EXPRESSION = re.compile(r"\$\{\{\s*(?:inputs\.([\w-]+)|github\.(\w+))\s*\}\}")
BARE = "import schedule\nschedule.every(5).minutes.do(work)\n"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the action's steps are for bash")


def run(repository: Path, programs: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action's steps as GitHub does, each under bash -e, until one fails.

    A stub stands for the runner's ``python``, so that nothing is downloaded.
    """
    unknown = inputs.keys() - ACTION["inputs"].keys()
    assert not unknown
    given = {name: about["default"] for name, about in ACTION["inputs"].items()} | inputs
    github = {"action_path": str(ROOT)}
    done = subprocess.CompletedProcess[str]([], 0, "", "")
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"], "an input put into a script could be one"
        environment = {
            name: EXPRESSION.sub(lambda m: given[m[1]] if m[1] else github[m[2]], value)
            for name, value in step["env"].items()
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=repository,
            env={
                **os.environ,
                "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            break
    return done


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Give a directory for PATH: our ``onejob``, and a ``python`` that writes what it is told."""
    found = tmp_path / "bin"
    found.mkdir()
    program(found / "onejob", f'exec {shlex.quote(sys.executable)} -m onejob "$@"')
    program(found / "python", f'echo "$@" >> {shlex.quote(str(tmp_path / "told"))}')
    return found


def program(place: Path, line: str) -> None:
    """Write a program of one line."""
    place.write_text(f"#!/bin/sh\n{line}\n")
    place.chmod(0o755)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one trigger that nothing guards."""
    found = tmp_path / "shop with spaces"
    found.mkdir()
    (found / "jobs.py").write_text(BARE)
    return found


def test_the_action_fails_at_a_trigger_that_nothing_guards(
    repository: Path, programs: Path
) -> None:
    done = run(repository, programs)

    assert done.returncode == 1, done.stderr
    assert "jobs.py:2" in done.stdout
    assert f"onejob[scan] @ file://{ROOT}" in (programs.parent / "told").read_text()


def test_the_action_passes_where_it_is_told_never_to_fail(repository: Path, programs: Path) -> None:
    assert run(repository, programs, **{"fail-on": "none"}).returncode == 0


def test_the_action_writes_its_findings_for_code_scanning(repository: Path, programs: Path) -> None:
    done = run(repository, programs, sarif="found.sarif")

    written = yaml.safe_load((repository / "found.sarif").read_text())
    assert done.returncode == 1
    assert [each["ruleId"] for each in written["runs"][0]["results"]] == ["OJ101"]


def test_an_input_of_the_action_is_never_a_script(repository: Path, programs: Path) -> None:
    run(repository, programs, path="$(touch sprung); touch sprung", sarif="a;touch sprung")

    assert not (repository / "sprung").exists()


def test_the_hook_runs_where_the_commit_is_made(repository: Path, programs: Path) -> None:
    assert (HOOK["pass_filenames"], HOOK["always_run"]) == (False, True)
    command = ["sh", "-c", HOOK["entry"]]

    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=repository, env=environment, capture_output=True, check=False
    )
    (repository / "jobs.py").write_text("")
    clean = subprocess.run(
        command, cwd=repository, env=environment, capture_output=True, check=False
    )

    assert (done.returncode, clean.returncode) == (1, 0)


def test_the_hook_installs_what_the_scanner_needs() -> None:
    """pre-commit installs the project without extras, so the hook lists those of ``scan``."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert set(HOOK["additional_dependencies"]) == set(project["optional-dependencies"]["scan"])
