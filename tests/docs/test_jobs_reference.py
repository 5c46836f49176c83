"""The reference of jobs and schedules names every parameter, with the default that it has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from docs.blocks import ROOT
from onejob import App, Retry

TEXT = (ROOT / "docs/reference/jobs.md").read_text()
ROWS = dict(re.findall(r"^\| `(\w+)` \|\s*([^|]*?)\s*\|", TEXT, re.MULTILINE))


@pytest.mark.parametrize("made", [App.job, App.cron, App.every, Retry])
def test_each_parameter_is_there_with_its_default(made: Callable[..., Any]) -> None:
    parameters = [p for p in inspect.signature(made).parameters.values() if p.name != "self"]

    assert [p.name for p in parameters if p.name not in ROWS] == []
    for parameter in parameters:
        if isinstance(parameter.default, str | int):
            shown = f'"{parameter.default}"' if isinstance(parameter.default, str) else "{}"
            assert ROWS[parameter.name] == f"`{shown.format(parameter.default)}`"


def test_nothing_is_there_that_does_not_exist() -> None:
    known = {
        name
        for made in (App.job, App.cron, App.every, Retry)
        for name in inspect.signature(made).parameters
    }

    assert set(ROWS) <= known


def test_the_waits_are_those_of_the_default() -> None:
    waits = [Retry().delay(attempt, jitter=0.5) // 1_000_000 for attempt in range(1, 5)]

    assert waits == [15, 30, 60, 120]
    assert "after about 15 s, 30 s, 1 min and 2 min" in TEXT
