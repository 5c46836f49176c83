"""The pytest plugin: a fixture ``onejob``, there wherever onejob is installed.

pytest imports this module at every start, so it imports nothing itself: what the fixture needs
comes with its first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from onejob.testing.inside import Inline


@pytest.fixture
def onejob() -> Iterator[Inline]:
    """Every App of this process over a store in memory: drain(), travel(), assert_enqueued()."""
    from onejob.testing.inside import inline

    with inline() as inside:
        yield inside
