"""Scans of tests read in the test's own process, unless a test asks for ``processes``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onejob.scan import engine
from onejob.scan.crew import Taken


@pytest.fixture
def processes() -> None:
    """Let files be read by processes, as for a user."""


@pytest.fixture(autouse=True)
def _read_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the start of a process, a tenth of a second, in each of hundreds of scans."""
    if "processes" not in request.fixturenames:
        monkeypatch.setattr(engine, "read", _read)


def _read(root: Path, chunks: list[list[str]], readers: int) -> Iterator[Taken]:
    for chunk in chunks:
        yield engine.take(root, chunk)
