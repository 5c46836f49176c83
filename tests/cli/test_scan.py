"""``onejob scan``: what it prints, where, and how it exits."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from onejob.cli.root import root

JOB = "import schedule\nschedule.every(5).minutes.do(work)\n"


def run(*arguments: str, at: Path) -> Result:
    with contextlib.chdir(at):
        return CliRunner().invoke(root, ["scan", *arguments])


def test_a_baseline_lets_known_ones_pass_and_names_the_new_one(tmp_path: Path) -> None:
    """A11: seventeen triggers, one guarded, and a repository that can start today."""
    jobs = "".join(f"s.add_job(job_number_{n}, 'cron', hour={n})\n" for n in range(17))
    (tmp_path / "jobs.py").write_text(
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
        "from onejob import App\n"
        "app, s = App('sqlite:///x.db'), BackgroundScheduler()\n"
        f"@app.once_per('day')\ndef job_number_0(): ...\n{jobs}"
    )

    first = run(".", "--fail-on", "unguarded", at=tmp_path)
    assert first.exit_code == 1
    assert "17 triggers, 16 unguarded" in first.stdout

    assert run("--write-baseline", "known.json", at=tmp_path).exit_code == 0
    assert run("--baseline", "known.json", at=tmp_path).exit_code == 0

    with (tmp_path / "jobs.py").open("a") as file:
        file.write("s.add_job(job_number_17, 'cron', hour=18)\n")
    again = run("--baseline", "known.json", "--format", "json", at=tmp_path)
    assert again.exit_code == 1
    assert [f["name"] for f in json.loads(again.stdout)["findings"]] == ["job_number_17"]


def test_every_form_is_printed_and_nothing_to_fail_on_exits_0(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOB)

    for form, start in (("json", "{"), ("sarif", "{"), ("markdown", "# "), ("html", "<!doctype")):
        done = run("--format", form, "--fail-on", "none", at=tmp_path)
        assert (done.exit_code, done.stdout[: len(start)], done.stderr) == (0, start, "")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("nowhere",), "nothing at nowhere"),
        (("--only", "OJ999"), "OJ101"),
        (("--fail-on", "bad"), "unguarded"),
        (("--baseline", "none.json"), "--write-baseline"),
        (("--explain", "OJ999"), "OJ101"),
    ],
)
def test_a_call_that_cannot_be_right_exits_2_and_says_what_is(
    tmp_path: Path, arguments: tuple[str, ...], word: str
) -> None:
    (tmp_path / "jobs.py").write_text(JOB)

    done = run(*arguments, at=tmp_path)

    assert (done.exit_code, done.stdout) == (2, "")
    assert word in done.stderr


def test_a_rule_is_explained_and_lines_are_shown_without_their_values(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOB.replace("work", "'s3cr3t'"))

    page = run("--explain", "OJ101", at=tmp_path)
    shown = run("--show-code", at=tmp_path)

    assert page.stdout.startswith("OJ101 in-process-schedule")
    assert "| schedule.every(5).minutes.do(…)" in shown.stdout
    assert "s3cr3t" not in shown.stdout


@pytest.mark.slow
def test_the_program_prints_json_on_stdout_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOB)

    program = str(Path(sys.executable).with_name("onejob"))
    done = subprocess.run(
        [program, "scan", "--json"], cwd=tmp_path, capture_output=True, timeout=30, check=False
    )

    assert (done.returncode, done.stderr) == (1, b"")
    assert json.loads(done.stdout)["summary"]["unguarded"] == 1
