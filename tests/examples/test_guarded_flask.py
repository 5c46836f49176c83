"""The guarded Flask-APScheduler under ``gunicorn --workers 3``."""

from __future__ import annotations

import os
import re
import signal

import pytest

from examples.fleet import Fleet
from examples.hosts import Hosts, free_port, until
from onejob.commands import claims

pytestmark = pytest.mark.slow


def test_three_workers_with_a_scheduler_in_each_send_one_digest_a_tick(
    postgres_fleet: Fleet, hosts: Hosts
) -> None:
    """A01, A02: one of the workers is killed, and gunicorn starts another."""
    bind = ("--bind", f"127.0.0.1:{free_port()}")
    hosts.start("gunicorn", "--workers", "3", *bind, "examples.guarded_flask:web")

    def senders() -> list[int]:
        return [int(pid) for pid in re.findall(r"^digest by worker (\d+)$", hosts.said(), re.M)]

    until(lambda: len(senders()) >= 2, "two digests")
    os.kill(senders()[-1], signal.SIGKILL)
    before = len(senders())
    until(lambda: len(senders()) >= before + 3, "three more digests")
    os.kill(hosts.processes[0].pid, signal.SIGTERM)
    hosts.processes[0].wait(10)

    rows = postgres_fleet.app.store.run(claims.listed(claims.TICK, limit=1_000))
    done = [row for row in rows if row.state == "done"]
    assert {row.scope for row in rows} == {"apscheduler:digest"}
    assert len(done) <= len(senders()) <= len(rows)
    assert len(rows) - len(done) <= 2, "one that was killed with its worker, one at the end"
