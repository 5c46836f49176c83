"""Places on both stores, processes that end with their test, and tables at the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import onejob.app
from boundaries import tables
from boundaries.fleet import Fleet, processes
from boundaries.place import Place
from boundaries.tables import Row
from onejob import App

Make = Callable[[str], Place]


@pytest.fixture(autouse=True)
def stores_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test puts in the place where Apps make their stores goes with it."""
    monkeypatch.setattr(onejob.app, "open_store", onejob.app.open_store)


@pytest.fixture(scope="session", autouse=True)
def _import_once() -> None:
    processes.set_forkserver_preload(["boundaries.fleet", "onejob.stores.sqlite"])


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet() as fleet:
        yield fleet


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Return how to make a place of its own on a store; several in one test."""
    made: list[Place] = []

    def make(dialect: str) -> Place:
        number = uuid4().hex[:8]
        if dialect == "sqlite":
            url, schema = f"sqlite:///{tmp_path / f'{number}.db'}", "onejob"
        else:
            url, schema = request.getfixturevalue("postgres_url"), f"b_{number}"
            url += f"?application_name={schema}"
        place = Place(dialect, url, schema, tmp_path / f"{number}.calls")
        install(place)
        made.append(place)
        return place

    yield make
    for place in made:
        if place.dialect == "postgresql":
            place.query(f"DROP SCHEMA IF EXISTS {place.schema} CASCADE")


def install(place: Place) -> None:
    """Install the tables, and the one in which effects land."""
    app = App(place.url, schema=place.schema)
    store: Any = app.store
    store.init()
    app.close()
    place.prepare()


@pytest.fixture
def tabled(request: pytest.FixtureRequest) -> Callable[[Row], None]:
    """Return how a test adds a row to the tables."""
    return lambda row: tables.keep(request.node, row)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for group in terminalreporter.stats.values() for report in group]
    rows = tables.rows(reports)
    if rows:
        terminalreporter.section("faults")
        for line in tables.lines(rows):
            terminalreporter.write_line(line)
