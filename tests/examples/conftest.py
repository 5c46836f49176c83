"""What every example needs: a database of its own, a mail provider that counts, servers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from examples.fleet import INTERVAL_SECONDS, LEASE_SECONDS, Fleet
from examples.hosts import Hosts
from onejob import App
from onejob.demo.provider import Provider
from servers.postgres import create_database


@pytest.fixture
def database(postgres_url: str) -> Iterator[str]:
    """A PostgreSQL database of one test's own: the examples use the default schema."""
    name = f"{postgres_url.rpartition('/')[2]}_{secrets.token_hex(3)}"
    yield create_database(postgres_url, name)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        text = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        connection.execute(text.format(sql.Identifier(name)))


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of a store of one test's own: SQLite and PostgreSQL in turn."""
    name = "sqlite_url" if request.param == "sqlite" else "database"
    return str(request.getfixturevalue(name))


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture
def hosts(tmp_path: Path, provider: Provider) -> Iterator[Hosts]:
    """Where servers are started; they know the provider and a short schedule, and no store yet."""
    environment = {
        "HOME": str(tmp_path),  # gunicorn puts a socket there
        "MAIL_URL": provider.url,
        "EXAMPLE_EVERY": f"{INTERVAL_SECONDS}s",
        "EXAMPLE_LEASE": f"{LEASE_SECONDS}s",
    }
    logs = tmp_path / "logs"
    logs.mkdir()
    with Hosts(logs, environment) as hosts:
        yield hosts


def looking(url: str) -> Iterator[Fleet]:
    app = App(url, name="onlooker")
    app.store.init()  # type: ignore[attr-defined]  # every store in a database has it
    yield Fleet(app)
    app.close()


@pytest.fixture
def fleet(store_url: str, hosts: Hosts) -> Iterator[Fleet]:
    """The fleet in the store, seen from outside; its tables are installed."""
    hosts.environment |= {"ONEJOB_URL": store_url, "DATABASE_URL": store_url}
    yield from looking(store_url)


@pytest.fixture
def postgres_fleet(database: str, hosts: Hosts) -> Iterator[Fleet]:
    hosts.environment |= {"ONEJOB_URL": database, "DATABASE_URL": database}
    yield from looking(database)
