"""Each benchmark runs to its end and finds every figure; how fast is never tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "benchmarks", "--tiny", "--rounds", "1", "--no-peers"]

#: What every line of a benchmark must have found, by the first line's columns.
FIGURES = {
    "start": {"milliseconds"},
    "enqueue": {"one", "many"},
    "drain": {"rate"},
    "pickup": {"p50", "p99", "most"},
    "fenced": {"microseconds"},
    "takeover": {"seconds", "leases"},
    "idle": {"queries", "connections"},
    "memory": {"grown", "resident"},
    "ticks": {"doubled", "missed", "ticks", "fired"},
    "arithmetic": {"rate"},
    "schedules": {"registered", "queries", "herd", "doubled", "p50", "p99"},
    "locks": {"p50", "p99"},
    "redis_locks": {"p50", "p99"},
    "contention": {"turns", "asked", "p50", "p99", "fairness", "least", "two"},
    "renewals": {"commands", "locks", "lost"},
    "effects": {"rate"},
    "inbox": {"rate"},
    "guard": {"won", "won_p99", "done", "refused", "refused_p99"},
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="measures processes through /proc"),
]


#: Those that wait more than they work: they run in ``make soak``.
LONG = {
    "contention",
    "drain",
    "effects",
    "enqueue",
    "fenced",
    "idle",
    "memory",
    "pickup",
    "renewals",
    "schedules",
    "takeover",
    "ticks",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.soak) if name in LONG else name for name in FIGURES],
)
def test_a_benchmark_runs_and_finds_its_figures(name: str, postgres_url: str) -> None:
    environment = {**os.environ, "ONEJOB_TEST_POSTGRES": postgres_url}

    done = subprocess.run(
        [*COMMAND, "--json", name],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    medians = [line["median"] for line in lines if "median" in line]
    assert medians, done.stderr
    for median in medians:
        assert median.keys() >= FIGURES[name], done.stderr


def test_tables_are_for_people_and_progress_is_aside(postgres_url: str) -> None:
    environment = {**os.environ, "ONEJOB_TEST_POSTGRES": postgres_url}

    done = subprocess.run(
        [*COMMAND, "start"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "import onejob" in done.stdout
    assert "round 1/1" in done.stderr
    assert "round 1/1" not in done.stdout


def test_an_unknown_benchmark_is_a_usage_error() -> None:
    done = subprocess.run(
        [*COMMAND, "nonsense"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "takeover" in done.stderr
