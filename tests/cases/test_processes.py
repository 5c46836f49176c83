"""Real processes over one store: what people start four times, kill and leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from cases.conftest import Place
from cases.test_group_5 import connected
from onejob.commands import views
from onejob.commands.views import ReplicaView

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 30.0

SHOP = """
import os
from onejob import App, Run

app = App(version=int(os.environ["VERSION"]), lease="2s", poll="200ms")
mark = "?" if os.environ["ONEJOB_URL"].startswith("sqlite") else "%s"

@app.every("1s", catch_up="all", overlap="allow")
def mail(run: Run) -> None:
    with run.transaction(complete=True) as connection:
        connection.execute(
            f"INSERT INTO {os.environ['MAILED']} VALUES ({mark}, {mark})",
            (run.fire_time.isoformat(), os.getpid()),
        )
"""


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait, with a bound, for what other processes do."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < ends, what
        time.sleep(0.05)


@contextmanager
def workers(
    place: Place, directory: Path, versions: list[int], table: str
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start a worker process for each of these versions; none is left behind."""
    (directory / "shop.py").write_text(SHOP)
    command = [sys.executable, "-c", "from onejob.cli import main; main()", "worker", "shop:app"]
    environment = {**os.environ, **place.environment, "MAILED": table}
    with (directory / "workers.log").open("ab") as log:
        started = [
            subprocess.Popen(
                command, cwd=directory, env={**environment, "VERSION": str(version)}, stderr=log
            )
            for version in versions
        ]
    try:
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.wait()


def test_four_processes_old_and_new_send_each_mail_once_though_one_is_killed(
    place: Place, tmp_path: Path
) -> None:
    """A01, A15, A18, A21: three left from before a restart, and a new one; each mail is counted."""
    table = f"mailed_{place.schema}"
    with connected(place) as connection:
        connection.execute(f"CREATE TABLE {table} (fire_time text, pid bigint)")
        connection.execute("COMMIT")
    app = place.app()

    def live() -> list[ReplicaView]:
        return [one for one in app.store.run(views.replicas()) if not one.dead_at]

    def mailed() -> list[tuple[str, int]]:
        with connected(place) as connection:
            return connection.execute(f"SELECT fire_time, pid FROM {table}").fetchall()

    with workers(place, tmp_path, [1, 1, 1, 2], table) as fleet:
        until(lambda: len(live()) == 4, "four replicas")
        versions = sorted(replica.version for replica in live())
        until(lambda: len(mailed()) >= 2, "two mails")
        last_sender = mailed()[-1][1]
        next(one for one in fleet if one.pid == last_sender).send_signal(signal.SIGKILL)
        so_far = len(mailed())
        until(lambda: len(mailed()) >= so_far + 3, "three more mails")
        stopped = next(one for one in fleet if one.poll() is None and one.pid != last_sender)
        stopped.terminate()
        code = stopped.wait(PATIENCE_SECONDS)
        app.schedules.pause("mail")
        until(lambda: all(run.state == "ended" for run in app.runs.find(limit=500)), "an end to it")

    runs = sorted(app.runs.find(schedule="mail", limit=500), key=lambda run: str(run.fire_time))
    times = [run.fire_time for run in runs if run.fire_time is not None]
    assert versions == ["1", "1", "1", "2"]
    assert code == 0
    assert times == [times[0] + timedelta(seconds=n) for n in range(len(times))]
    assert sorted(at for at, _ in mailed()) == [at.isoformat() for at in times]
    assert {run.outcome for run in runs} == {"succeeded"}
