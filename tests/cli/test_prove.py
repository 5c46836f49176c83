"""``onejob prove`` at the terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

NAIVE = "echo one >>effects; sleep 0.1; echo two >>effects\n"
SAFE = "exec 9>lock; flock 9; for k in one two; do grep -qx $k effects || echo $k >>effects; done\n"


def prove(folder: Path, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the command on a shell script."""
    (folder / "job.sh").write_text("touch effects\n" + script)
    given = options or ("--effects-file", "effects", "--budget", "4s")
    return subprocess.run(
        [sys.executable, "-m", "onejob", "prove", *given, "--", "sh", "job.sh"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_naive_script_exits_1_and_shows_the_history(tmp_path: Path) -> None:
    done = prove(tmp_path, NAIVE)

    assert done.returncode == 1, done.stderr
    assert "copy 1 is killed" in done.stdout
    assert "violated: one took effect more than once (kill)." in done.stdout
    assert "unique key" in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["job.sh"]


def test_a_safe_script_exits_0_and_nothing_is_called_proved(tmp_path: Path) -> None:
    done = prove(tmp_path, SAFE)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "held: nothing was lost or doubled in " in done.stdout
    assert "proved" not in done.stdout


def test_a_saved_report_is_played_again(tmp_path: Path) -> None:
    saved = tmp_path.parent / "report.json"
    options = ("--json", "--effects-file", "effects", "--budget", "4s")

    first = json.loads(prove(tmp_path, NAIVE, *options, "--save", str(saved)).stdout)
    again = json.loads(prove(tmp_path, NAIVE, *options, "--replay", str(saved)).stdout)

    assert (first["verdict"], again["verdict"]) == ("violated", "violated")
    assert again["plan"] == first["plan"] == json.loads(saved.read_text())["plan"]
    assert again["tried"]["plays"] == 1
    assert {"at", "copy", "what"} == set(first["history"][0])
    assert first["broken"]["doubled"] == ["one"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--budget", "4s"), "what counts as an effect"),
        (("--effects-file", "/tmp/effects"), "a path in this folder"),
        (("--effects-sql", "SELECT 1"), "needs --url"),
        (
            ("--effects-sql", "SELECT 1", "--url", "postgresql://db.example.com/shop"),
            "not on this machine",
        ),
        (("--effects-file", "effects", "--budget", "soon"), "not a duration"),
        (("--effects-file", "effects", "--replay", "job.sh"), "--save"),
    ],
)
def test_what_cannot_be_tried_exits_2(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    done = prove(tmp_path, NAIVE, *options)

    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr


def test_a_program_that_is_not_there_exits_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "onejob", "prove", "--effects-file", "e", "--", "./none"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "can't be started" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_it_ends_every_copy(tmp_path: Path, number: signal.Signals) -> None:
    """They have sessions of their own, which no Ctrl-C reaches."""
    home, pids = tmp_path / "home", tmp_path / "pids"
    home.mkdir()
    safe = "touch effects; grep -qx a effects || echo a >>effects"
    (home / "job.sh").write_text(f"echo $$ >>{pids}\n{safe}\nsleep 3\n")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "onejob",
            "prove",
            "--effects-file",
            "effects",
            "--",
            "sh",
            "job.sh",
        ],
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A shell's background job, and all that it starts, is deaf to Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    end = time.monotonic() + 60
    while len(pids.read_text().split() if pids.exists() else []) < 4:  # two are the yardstick
        assert time.monotonic() < end, "no play began"
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)

    assert process.wait(30) == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert [pid for pid in pids.read_text().split() if Path(f"/proc/{pid}").exists()] == []


SHOP = """
import time
from onejob import App, Run

app = App()


@app.job()
def naive(run: Run, names: list[str]) -> None:
    for name in names:
        with open("effects", "a") as file:
            file.write(name + "\\n")
        time.sleep(0.05)


@app.job()
def once(run: Run) -> None:
    for name in ("ada", "bob"):
        with run.transaction() as tx:
            tx.execute("CREATE TABLE IF NOT EXISTS mail (name TEXT)")
            if run.first(name, within=tx):
                tx.execute("INSERT INTO mail VALUES (?)", [name])
"""


def prove_job(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command on a job of an App."""
    (folder / "shop.py").write_text(SHOP)
    return subprocess.run(
        [sys.executable, "-m", "onejob", "prove", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "120", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_job_that_repeats_its_effects_is_found(tmp_path: Path) -> None:
    done = prove_job(
        tmp_path, "--effects-file", "effects", "shop:app", "naive", "--args", '{"names": ["ada"]}'
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "ada took effect more than once" in done.stdout
    assert sorted(os.listdir(tmp_path)) == ["shop.py"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_effects_in_the_run_s_own_transaction_hold(tmp_path: Path) -> None:
    effects = ("--effects-sql", "SELECT name FROM mail", "--url", "sqlite:///onejob-prove.db")

    done = prove_job(tmp_path, *effects, "--budget", "5s", "shop:app", "once")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "held: nothing was lost or doubled in " in done.stdout


def test_a_job_that_is_not_there_exits_2(tmp_path: Path) -> None:
    done = prove_job(tmp_path, "--effects-file", "effects", "shop:app", "nightly")

    assert done.returncode == 2
    assert "It has: naive, once." in done.stderr
