"""A store for a fleet of guarded schedulers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from onejob import App


@pytest.fixture
def app(sqlite_url: str) -> Iterator[App]:
    app = App(sqlite_url, lease="1s")
    app.store.init()
    yield app
    app.close()


@pytest.fixture
def rq_redis(redis_url: str) -> Iterator[str]:
    """A database for RQ, whose keys all begin alike; nobody else's do."""
    yield redis_url
    with redis.Redis.from_url(redis_url) as client:
        for key in client.scan_iter("rq:*"):
            client.delete(key)


@pytest.fixture
def on_postgres(postgres_url: str, schema: str) -> Iterator[App]:
    app = App(postgres_url, schema=schema, lease="1s")
    app.store.init()
    yield app
    app.close()
