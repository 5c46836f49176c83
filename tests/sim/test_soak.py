"""Ten minutes of seeds, and on until every pair of command and fault has been met many times."""

from __future__ import annotations

import sys
import time

import pytest

from onejob.prove import report
from onejob.prove.many import Asked
from onejob.prove.simulate import simulate

SECONDS = 600
FAULTS_LEAST = 200_000
EACH_LEAST = 50
#: Far from the seeds of the daily test.
START = 10_000


@pytest.mark.soak
@pytest.mark.timeout(SECONDS * 4)
def test_ten_minutes_of_seeds_break_no_promise() -> None:
    began, seed, tally = time.monotonic(), START, report.Tally()
    failures = ""
    enough = Asked(faults=FAULTS_LEAST, each=EACH_LEAST)
    while time.monotonic() - began < SECONDS or not enough.satisfied(tally):
        played = simulate(seed)
        tally.add(played.verdicts, played.injected, played.commands)
        if played.failures:
            failures += report.failure(seed, played.failures, played.injected)
        seed += 1
    sys.stdout.write(tally.table(time.monotonic() - began))

    assert failures == ""
