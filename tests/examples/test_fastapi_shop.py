"""The FastAPI shop under ``uvicorn --workers 3``."""

from __future__ import annotations

import pytest

from examples.fleet import Fleet, kill
from examples.hosts import Hosts, ask, free_port, until
from onejob.demo.provider import Provider

pytestmark = pytest.mark.slow


def test_each_statement_goes_out_once_though_a_web_worker_is_killed(
    fleet: Fleet, hosts: Hosts, provider: Provider
) -> None:
    """A04: startup hooks run in each worker, and each fire time is still one run."""
    port = free_port()
    options = ("--workers", "3", "--port", str(port), "--log-level", "warning")
    hosts.start("uvicorn", *options, "examples.fastapi_shop:web")
    workers = fleet.wait_for_replicas(3)
    assert hosts.processes[0].pid not in workers
    fleet.wait_for_ticks("statement", 2)

    kill(fleet.pid(fleet.ended("statement")[-1].replica or ""))
    until(lambda: len(fleet.replicas()) >= 2, "those that are left")
    for _ in range(3):
        until(lambda: ask(port, "/customers/9", "POST"), "an answer from a worker that is left")
    fleet.wait_for_ticks("statement", 3)
    fleet.wait_until_done("statement")
    [welcome] = fleet.app.runs.find(job="welcome")
    fleet.app.runs.wait(welcome.id, timeout="20s")

    ticks = fleet.fire_times("statement")
    assert provider.delivered() == {1: ticks, 2: ticks, 3: ticks, 9: 1}
