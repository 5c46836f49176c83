"""What the tests of the inbox share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onejob import App


@pytest.fixture
def app(sqlite_url: str) -> Iterator[App]:
    app = App(sqlite_url, name="shop")
    store: Any = app.store
    store.init()
    yield app
    app.close()
