"""A PostgreSQL that crashes and comes back under load."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from faults.conftest import fleet_at
from faults.processes import Fleet, until
from faults.restarts import restartable
from onejob.errors import OutcomeUnknown, StoreError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

RUNS = 120


def make(fleet: Fleet, key: str) -> None:
    """Enqueue as a caller does who tries again under the same key until somebody answers."""
    end = time.monotonic() + 60
    while True:
        try:
            fleet.enqueue("short", key)
        except (OutcomeUnknown, StoreError):
            assert time.monotonic() < end
            time.sleep(0.1)
        else:
            return


def test_a_crash_of_the_server_under_load_loses_nothing_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    """P1, P2, P3: twice, while runs are made, claimed and completed."""
    with restartable() as server, fleet_at(server.url, "onejob", tmp_path / "shop") as fleet:
        fleet.start(2, lease="3s", concurrency="10")
        crashes = 0
        for place in range(0, RUNS, RUNS // 3):
            for key in range(place, place + RUNS // 3):
                make(fleet, f"r{key:03}")
            if crashes < 2:
                fleet.wait_for_mark("done", count=5 + 20 * crashes)
                server.crash()
                crashes += 1
                server.start_again()

        def ended() -> bool:
            try:
                return not fleet.app.runs.find(state="running", limit=500) and (
                    len(fleet.app.runs.find(state="ended", limit=500)) == RUNS
                )
            except StoreError:
                return False

        until(ended, "every run has ended")
        found = fleet.app.runs.find(limit=500)

        assert all(replica.alive for replica in fleet.replicas)
        assert Counter(run.key for run in found) == Counter(f"r{n:03}" for n in range(RUNS))
        assert {run.outcome for run in found} == {"succeeded"}
        # Begun again only by an attempt that was counted: never twice under one token.
        for run in found:
            attempts = [mark.attempt for mark in fleet.marks("begun", key=run.key)]
            assert len(attempts) == len(set(attempts))
            assert max(attempts) == run.attempt
