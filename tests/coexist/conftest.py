"""Stores, servers and names for locks of other libraries beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import redis

from adapters.drivers import django_database
from onejob import App
from servers.redis import PrivateRedis


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def name(redis_schema: str, client: Any) -> Iterator[str]:
    """The name of an old lock in a Redis that others use."""
    name = f"{{{redis_schema}}}:nightly"
    yield name
    client.delete(f"lock:{name}", f"lock-signal:{name}")


@pytest.fixture
def redis_app(redis_url: str, redis_schema: str) -> Iterator[App]:
    app = App(redis_url, schema=redis_schema, name="shop")
    yield app
    app.close()


@pytest.fixture(scope="module")
def private() -> Iterator[PrivateRedis]:
    """A Redis of this file's own, for what concerns every key of a server, or its end."""
    server = PrivateRedis()
    yield server
    server.stop()


@pytest.fixture
def postgres_app(postgres_url: str, schema: str) -> Iterator[App]:
    app = App(postgres_url, schema=schema, name="shop")
    app.store.init()  # type: ignore[attr-defined]  # PostgreSQL has it
    yield app
    app.close()


@pytest.fixture
def alias(postgres_url: str) -> Iterator[str]:
    """PostgreSQL as Django knows it."""
    with django_database(postgres_url) as alias:
        yield alias


@pytest.fixture
def other(postgres_url: str) -> Iterator[Any]:
    """Another session on the same database."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection
