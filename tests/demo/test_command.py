"""``onejob demo`` as a command: its JSON, its page, its exit codes, and that it leaves nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from demo.conftest import replicas_of
from onejob.cli.root import root
from onejob.demo.demo import REPLICAS_WITH_FAULTS

ACT_FIELDS = {
    "name", "replicas", "customers", "emails", "duplicates", "missing", "kills", "pauses",
    "seconds",
}  # fmt: skip

DEMO = [sys.executable, "-c", "from onejob.cli import main; main()", "demo"]


@pytest.mark.slow
def test_the_json_is_one_document_with_every_act(tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    temporary = tmp_path / "tmp"
    temporary.mkdir()

    done = subprocess.run(
        [*DEMO, "--json", "--seed", "11", "--customers", "60", "--html", str(page)],
        capture_output=True,
        text=True,
        timeout=55,
        env={**os.environ, "TMPDIR": str(temporary)},
    )

    document = json.loads(done.stdout)
    acts = {act["name"]: act for act in document["acts"]}
    assert done.returncode == 0
    assert list(acts) == ["naive", "naive-restart", "lock-only", "onejob"]
    assert all(set(act) >= ACT_FIELDS for act in acts.values())
    assert acts["naive"]["duplicates"] == 120
    assert acts["lock-only"]["duplicates"] > 0
    assert (acts["onejob"]["kills"], acts["onejob"]["pauses"]) == (1, 1)
    assert (acts["onejob"]["duplicates"], acts["onejob"]["missing"]) == (0, 0)
    assert "each of 60 customers got exactly one email" in document["verdict"]
    assert page.read_text().startswith("<!doctype html>")
    assert list(temporary.iterdir()) == []


def test_the_table_and_the_timeline_are_printed_without_colours_into_a_pipe(
    tmp_path: Path,
) -> None:
    file = tmp_path / "given.db"
    arguments = [
        "--no-faults",
        "--customers",
        "20",
        "--replicas",
        "2",
        "--url",
        f"sqlite:///{file}",
    ]

    done = subprocess.run([*DEMO, *arguments], capture_output=True, text=True, timeout=55)

    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert re.search(r"^naive +2 +40 +20 +0", done.stdout, re.MULTILINE)
    assert "█ sending" in done.stdout
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_replica_is_left_whatever_ends_the_demo(blow: signal.Signals, tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [*DEMO, "--customers", "5000", "--json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        # Whatever started this test run in the background may have it ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    end = time.monotonic() + 20
    while not replicas_of(demo.pid):
        assert time.monotonic() < end, "no replica was started"
        time.sleep(0.02)
    pids = [int(line.split()[0]) for line in replicas_of(demo.pid)]
    if blow is signal.SIGKILL:
        os.kill(pids[0], signal.SIGSTOP)
        while state(pids[0]) != "T":
            assert time.monotonic() < end, "the replica was not frozen"
            time.sleep(0.01)

    demo.send_signal(blow)
    code = demo.wait(20)

    try:
        while any(state(pid) not in ("", "Z") for pid in pids):
            assert time.monotonic() < end + 20, "a replica outlived the demo"
            time.sleep(0.02)
    finally:
        for pid in pids:
            if state(pid) not in ("", "Z"):
                os.kill(pid, signal.SIGKILL)
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[blow]


def state(pid: int) -> str:
    """The one letter that the kernel has for a process: T stopped, Z ended; "" for none."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return listed.stdout.strip()[:1]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--replicas", str(REPLICAS_WITH_FAULTS - 1)), 2, "--no-faults"),
        (("--url", "memory://"), 2, "several"),
        (("--url", "nonsense"), 2, "not a URL"),
        (("--html", "no/such/folder/page.html"), 2, "there is no folder"),
        (("--url", "postgresql://u:s3cret@127.0.0.1:1/x"), 3, "cannot reach the store"),
    ],
)
def test_what_cannot_be_played_is_said_before_anything_starts(
    arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = CliRunner().invoke(root, ["demo", *arguments])

    assert result.exit_code == code
    assert words in result.stderr
    assert "s3cret" not in result.output
