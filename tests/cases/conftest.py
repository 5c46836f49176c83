"""Places for the cases: each of the two stores in turn, real or on virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from cases.timeline import Timeline
from onejob import App
from onejob.core.time import SECOND, Span

#: When timelines begin unless told otherwise: a Monday, on the minute. Later than the real clock,
#: so that what a test asks for directly is never due after it is wanted.
MONDAY = datetime(2040, 3, 5, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Place:
    """A store with tables, and as many Apps over it as a test wants."""

    url: str
    schema: str
    apps: list[App]

    def app(self, **options: Any) -> App:
        """Return another App over this store, as another process would make it."""
        app = App(
            self.url,
            schema=self.schema,
            **{"name": "shop", "lease": "12s", "poll": "30s", **options},
        )
        self.apps.append(app)
        return app

    @property
    def environment(self) -> dict[str, str]:
        """Return what tells a process of this store."""
        return {"ONEJOB_URL": self.url, "ONEJOB_SCHEMA": self.schema}


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """SQLite and PostgreSQL in turn."""
    yield from _placed(request, request.param)


@pytest.fixture
def sqlite_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    yield from _placed(request, "sqlite")


@pytest.fixture
def postgres_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    yield from _placed(request, "postgresql")


def _placed(request: pytest.FixtureRequest, dialect: str) -> Iterator[Place]:
    if dialect == "sqlite":
        place = Place(request.getfixturevalue("sqlite_url"), "onejob", [])
    else:
        url, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("schema")
        place = Place(url, schema, [])
    first = place.app()
    store: Any = first.store
    store.init()
    first.close()
    yield place
    for app in place.apps:
        app.close()


Begin = Callable[..., Timeline]


@pytest.fixture
def begin(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Begin a timeline over this place's store: ``begin(at=..., beat=...)``."""
    yield from _beginning(place, monkeypatch)


@pytest.fixture
def begin_sqlite(sqlite_place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    yield from _beginning(sqlite_place, monkeypatch)


@pytest.fixture
def begin_postgres(postgres_place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    yield from _beginning(postgres_place, monkeypatch)


def _beginning(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    begun: list[Timeline] = []

    def begin(at: datetime = MONDAY, *, beat: Span = Span(20 * SECOND)) -> Timeline:
        # One a second is what a timeline of days would spend nearly all of its turns on.
        monkeypatch.setattr("onejob.runtime.replica.BEAT", beat)
        begun.append(Timeline(place.app().store, at))
        return begun[-1]

    yield begin
    for timeline in begun:
        timeline.close()
