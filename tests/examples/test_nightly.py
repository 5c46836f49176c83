"""``onejob worker examples.nightly:app``, started three times."""

from __future__ import annotations

import pytest

from examples.fleet import Fleet, kill
from examples.hosts import PATIENCE_SECONDS, Hosts
from onejob.demo.provider import Provider

pytestmark = pytest.mark.slow


def test_each_customer_gets_one_mail_a_tick_though_a_worker_is_killed_while_it_sends(
    fleet: Fleet, hosts: Hosts, provider: Provider
) -> None:
    """A01, A15, B07: three schedulers; the one that sends is killed before it can note that it has.

    The mail is out and its answer held back: the worst moment there is.
    """
    workers = [hosts.start("onejob", "worker", "examples.nightly:app") for _ in range(3)]
    assert fleet.wait_for_replicas(3) == {worker.pid for worker in workers}
    fleet.wait_for_ticks("digest", 2)

    with provider.ambush(len(provider.requests) + 3) as ambush:
        asked = ambush.wait(PATIENCE_SECONDS)
        kill(fleet.pid(asked.replica))
    fleet.wait_for_ticks("digest", 3)
    fleet.wait_until_done("digest")

    ticks = fleet.fire_times("digest")
    assert provider.delivered() == dict.fromkeys(range(1, 6), ticks)
    abandoned = [run for run in fleet.ended("digest") if run.deaths]
    assert abandoned, "the killed worker held a run"
    assert all(run.attempt == 2 for run in abandoned)
