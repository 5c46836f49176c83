"""The examples for ``onejob once``: a crontab's script, and a CronJob as its pods run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from examples.hosts import BIN, ROOT
from onejob import App

pytestmark = pytest.mark.slow


def run(command: list[str], directory: Path, **environment: str) -> tuple[int, str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=40,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture
def url(sqlite_url: str) -> str:
    app = App(sqlite_url)
    app.store.init()  # type: ignore[attr-defined]  # every store in a database has it
    app.close()
    return sqlite_url


def test_a_crontab_that_is_the_same_on_every_machine_runs_its_script_once(
    url: str, tmp_path: Path
) -> None:
    """A22"""
    backups = tmp_path / "backups"
    backups.mkdir()
    script = str(ROOT / "examples/once.sh")

    ended = [run([script], tmp_path, ONEJOB_URL=url, BACKUPS=str(backups)) for _ in range(2)]

    assert ended == [(0, "")] * 2
    [backup] = backups.iterdir()
    assert backup.read_text() == f"backup of {backup.name} under token 1\n"


def test_the_pods_of_one_scheduled_time_do_its_work_once(url: str, tmp_path: Path) -> None:
    """A19, A20: a second pod after the first, and a Job that is made by hand."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/nightly.py").write_text("print('done', file=open('effects', 'a'))")
    manifest = yaml.safe_load((ROOT / "examples/kubernetes_cronjob.yaml").read_text())
    [container] = manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    [job_name] = [one for one in container["env"] if one["name"] == "JOB_NAME"]
    assert job_name["valueFrom"]["fieldRef"]["fieldPath"].endswith("job-name']")

    def pod(job: str) -> tuple[int, str]:
        """Run the container's command as the kubelet expands it."""
        command = [part.replace("$(JOB_NAME)", job) for part in container["command"]]
        arguments = [sys.executable if part == "python" else part for part in container["args"]]
        return run([*command, *arguments], tmp_path, ONEJOB_URL=url, JOB_NAME=job)

    assert [pod("nightly-29413560"), pod("nightly-29413560")] == [(0, "")] * 2
    assert (tmp_path / "effects").read_text() == "done\n"
    assert pod("by-hand") == (0, "")
    assert (tmp_path / "effects").read_text() == "done\n" * 2
