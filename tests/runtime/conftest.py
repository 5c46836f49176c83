from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()
