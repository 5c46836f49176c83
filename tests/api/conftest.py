"""Apps over real stores, and attempts of runs without the loops of a replica."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from onejob import App, AsyncRun, Run
from onejob.commands import replicas, runs
from onejob.core.run import ReplicaId
from onejob.core.time import DAY
from onejob.core.watermark import full_probes
from onejob.runtime.attempt import Attempt
from onejob.runtime.clock import SystemClock
from onejob.runtime.membership import Membership


@pytest.fixture(params=["sqlite", "postgresql"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    """An App whose schema is installed; SQLite and PostgreSQL in turn."""
    if request.param == "sqlite":
        app = App(request.getfixturevalue("sqlite_url"), name="shop", lease="6s")
    else:
        schema = request.getfixturevalue("schema")
        url = request.getfixturevalue("postgres_url")
        app = App(url, schema=schema, name="shop", lease="6s")
    install(app)
    yield app
    app.close()


@pytest.fixture
def sqlite_app(sqlite_url: str) -> Iterator[App]:
    app = App(sqlite_url, name="shop", lease="6s")
    install(app)
    yield app
    app.close()


@pytest.fixture
def postgres_app(postgres_url: str, schema: str) -> Iterator[App]:
    app = App(postgres_url, schema=schema, name="shop", lease="6s")
    install(app)
    yield app
    app.close()


def install(app: App) -> None:
    store: Any = app.store
    store.init()


Begin = Callable[..., Any]


@pytest.fixture
def begin(app: App) -> Begin:
    """Claim the oldest due run as a new replica would, and return its Run (or AsyncRun).

    Calling it for a run that is running already takes it over: the earlier replica is judged dead.
    """
    return beginning(app)


def beginning(app: App) -> Begin:
    def begin(colour: type[Run] | type[AsyncRun] = Run, *, takeover: bool = False) -> Any:
        store = app.store
        if takeover:
            store.run(replicas.judge(now=store.run(clock()) + DAY))
            for lost in store.run(replicas.lost(limit=100)):
                store.run(runs.settle([(lost.claim, back())], keep=DAY))
        id = ReplicaId(uuid4().hex[:12])
        new = replicas.NewReplica(id, "shop", "here", 1, "", list(app.jobs), {}, 60_000_000)
        assert store.run(replicas.join(new))
        claimed = store.run(
            runs.claim(full_probes(["default"]), jobs=list(app.jobs), replica=id, limit=1)
        ) or store.run(runs.claim_alone(["default"], jobs=list(app.jobs), replica=id))
        [run] = claimed
        local = SystemClock()
        attempt = Attempt(run, Membership(id, local.now() + DAY, punctual_since=local.now()), local)
        return colour(attempt, app._services(), args={}, tz=ZoneInfo("UTC"))

    return begin


def clock() -> Any:
    from onejob.commands import views

    return views.clock()


def back() -> Any:
    from onejob.core.run import Again, Outcome

    return Again(0, Outcome.FAILED, "taken over")
