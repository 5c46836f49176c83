"""Fleets over both stores. Everything the machine's own environment says stays outside."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.processes import SHOP, Fleet
from onejob import App

LEASE = "2s"


def fleet_at(url: str, schema: str, directory: Path) -> Fleet:
    """Return a fleet over an empty store with its tables made."""
    directory.mkdir()
    shutil.copy(SHOP, directory / "shop.py")
    app = App(url, schema=schema, name="onlooker")
    app.store.init()  # type: ignore[attr-defined]  # every store in a database has it
    told = "?application_name=shop" if url.startswith("postgres") else ""
    environment = {
        "SHOP_URL": f"{url}{told}",
        "SHOP_SCHEMA": schema,
        "SHOP_DIRECTORY": str(directory),
        "SHOP_LEASE": LEASE,
        "SHOP_POLL": "200ms",
        "SHOP_GRACE": "10s",
        "SHOP_CONCURRENCY": "10",
        "ONEJOB_DISABLED": "",
    }
    return Fleet(app, url, directory, environment)


@pytest.fixture
def sqlite_fleet(sqlite_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with fleet_at(sqlite_url, "onejob", tmp_path / "shop") as fleet:
        yield fleet


@pytest.fixture
def postgres_fleet(postgres_url: str, schema: str, tmp_path: Path) -> Iterator[Fleet]:
    with fleet_at(postgres_url, schema, tmp_path / "shop") as fleet:
        yield fleet


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest) -> Fleet:
    """A fleet over SQLite and over PostgreSQL in turn; no replica is started yet."""
    found: Fleet = request.getfixturevalue(f"{request.param}_fleet")
    return found
