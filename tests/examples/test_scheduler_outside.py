"""A scheduler outside that delivers twice, to uvicorn with two workers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from examples.fleet import Fleet
from examples.hosts import Hosts, free_port, until

pytestmark = pytest.mark.slow


def test_what_a_scheduler_delivers_twice_is_one_run(postgres_fleet: Fleet, hosts: Hosts) -> None:
    """A19: together, again later, and in another zone's way to write the same time."""
    fleet, port = postgres_fleet, free_port()
    hosts.environment |= {"TASKS_TOKEN": "s3cr3t"}
    options = ("--workers", "2", "--port", str(port), "--log-level", "warning")
    hosts.start("uvicorn", *options, "examples.scheduler_outside:web")
    fleet.wait_for_replicas(2)

    def deliver(time: str, token: str = "s3cr3t") -> tuple[int, int]:
        answer = httpx.post(
            f"http://127.0.0.1:{port}/tasks/digest",
            headers={
                "X-CloudScheduler-ScheduleTime": time,
                "Authorization": f"Bearer {token}",
            },
            timeout=20,
        )
        return answer.status_code, answer.json().get("run", 0)

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(deliver, ["2026-11-29T02:00:00Z"] * 4))
    later = deliver("2026-11-29T03:00:00+01:00")
    next_day = deliver("2026-11-30T02:00:00Z")
    refused = [deliver("2026-11-29T02:00:00Z", "wrong"), deliver("soon"), deliver("2026-11-29")]

    assert sorted(code for code, _ in together) == [200, 200, 200, 202]
    [run] = {run for _, run in together}
    assert later == (200, run)
    assert next_day[0] == 202
    assert [code for code, _ in refused] == [401, 400, 400]
    until(
        lambda: {one.outcome for one in fleet.app.runs.find(job="digest")} == {"succeeded"},
        "both runs have ended",
    )
    assert {one.id for one in fleet.app.runs.find(job="digest")} == {run, next_day[1]}
