"""Acts played in this process, and a count of the processes that they leave."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from onejob.demo.demo import Plan, play
from onejob.demo.result import Result


def played(act: str, *, seed: int, url: str = "", faults: bool = True) -> Result:
    """Play one act."""
    plan = Plan(seed=seed, url=url, faults=faults, acts=[act])
    [result] = play(plan, began=lambda name, stage: None, ended=lambda result: None)
    return result


def replicas_of(parent: int) -> list[str]:
    """The demo's replicas among a process's descendants and orphans, frozen ones too."""
    listed = subprocess.run(
        ["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True
    )
    lines = [line for line in listed.stdout.splitlines() if "onejob.demo.replica" in line]
    return [line for line in lines if line.split()[1] == str(parent)]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Whatever a test does, none of its replicas is left afterwards."""
    yield
    assert replicas_of(os.getpid()) == []
