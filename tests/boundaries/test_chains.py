"""Chains under kill: a run that enqueues its successor and completes in the same commit."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from boundaries.chains import CHAINS, LINKS, dying, going_on, name
from boundaries.conftest import Make
from boundaries.doom import Boundary, phases
from boundaries.fleet import Fleet, bury
from boundaries.place import Place
from boundaries.tables import Row

#: Where it dies in the middle of a chain: the successor made, the run ended, all of it committed.
BOUNDARIES = {
    "run_enqueue_one": CHAINS + 2,
    "run_settle": 2,
    "run_fence": 2,
    "transaction": 2,
}
AT_ONCE = 6


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_a_process_killed_in_a_chain_loses_and_doubles_no_successor(
    dialect: str, make: Make, fleet: Fleet, tabled: Callable[[Row], None]
) -> None:
    """P1, P4: each link has its effect and makes its successor in one commit, or does neither."""
    boundaries = [
        Boundary(command, phase, occurrence)
        for command, occurrence in BOUNDARIES.items()
        for phase in telling(dialect)
        if command == "transaction" or phase in phases(dialect, command)
    ]
    places = [make(dialect) for _ in boundaries]

    def one(boundary: Boundary, place: Place) -> Counter[str]:
        doomed = fleet.start(dying, place, boundary)
        doomed.join(40)
        assert doomed.exitcode == -signal.SIGKILL, f"it did not get to: {boundary}"
        bury(place)
        successor = fleet.start(going_on, place)
        successor.join(40)
        assert successor.exitcode == 0, f"after: {boundary}"
        assert place.query("SELECT outcome, count(*) FROM {t}history GROUP BY outcome") == [
            ("succeeded", CHAINS * LINKS)
        ]
        return Counter(key for [key] in place.query("SELECT key FROM {t}landed"))

    with ThreadPoolExecutor(AT_ONCE) as threads:
        landings = list(threads.map(one, boundaries, places))

    expected = {name(chain, n) for chain in range(CHAINS) for n in range(1, LINKS + 1)}
    lost = sum(key not in landed for landed in landings for key in expected)
    doubled = sum(times > 1 for landed in landings for times in landed.values())
    made = len(boundaries) * len(expected)
    tabled(Row("chains", dialect, "a replica killed", len(boundaries), made, 0, lost, doubled))
    assert (lost, doubled) == (0, 0)
    assert all(set(landed) == expected for landed in landings)


def telling(dialect: str) -> list[str]:
    """Return the boundaries of a commit."""
    return ["before commit", "after", *(["sent"] if dialect == "postgresql" else [])]
