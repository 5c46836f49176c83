"""Providers that misbehave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outcomes.rogue import Rogue


@pytest.fixture(scope="session")
def rogue() -> Iterator[Rogue]:
    provider = Rogue()
    yield provider
    provider.close()


@pytest.fixture(scope="session")
def resetting() -> Iterator[Rogue]:
    provider = Rogue(reset_at_once=True)
    yield provider
    provider.close()
