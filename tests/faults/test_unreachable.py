"""A store that cannot be reached, has no tables, or newer ones: said clearly, within a bound."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from onejob import App, OnejobError, Run
from onejob.errors import SchemaMismatch, StoreUnavailable
from servers.private_postgres import free_port

SECRET = "s3kr3t-pa55"


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port that takes connections and never says a word, as a stuck server does."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener.getsockname()[1]


def app_at(port: int, **options: str) -> App:
    given = "".join(f"{name}={value}" for name, value in options.items())
    url = f"postgresql://shop:{SECRET}@127.0.0.1:{port}/orders{'?' if given else ''}{given}"
    app = App(url, name="shop", lease="2s", poll="100ms")

    @app.job()
    def report(run: Run) -> None: ...

    return app


def test_a_store_that_is_not_there_is_named_by_host_and_database_only() -> None:
    port = free_port()
    app = app_at(port)

    with pytest.raises(StoreUnavailable) as told:
        app.jobs["report"].enqueue()
    app.close()

    text = str(told.value)
    assert f"127.0.0.1:{port}/orders" in text
    assert SECRET not in "".join([text, repr(told.value), repr(told.value.__cause__), repr(app)])


@pytest.mark.slow
def test_a_server_that_says_nothing_is_given_up_within_the_bound(deaf: int) -> None:
    """Nothing hangs: the default bound on a connection attempt is 5 s."""
    app = app_at(deaf)

    begun = time.monotonic()
    with pytest.raises(StoreUnavailable) as told:
        app.jobs["report"].enqueue()
    took = time.monotonic() - begun
    app.close()

    print(f"given up after {took:.1f} s")
    assert took < 12
    assert f"127.0.0.1:{deaf}/orders" in str(told.value)
    assert SECRET not in str(told.value)


@pytest.mark.slow
def test_a_host_starts_and_stops_without_its_store(
    deaf: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The web application comes up; onejob keeps trying, and says where without the password."""
    app = app_at(deaf, connect_timeout="2")

    with caplog.at_level(logging.DEBUG):
        begun = time.monotonic()
        app.start()
        started = time.monotonic() - begun
        status = str(app.status())
        begun = time.monotonic()
        app.close()
        stopped = time.monotonic() - begun

    assert started < 5
    assert stopped < 6
    assert "waiting for the store" in status
    assert f"127.0.0.1:{deaf}/orders" in caplog.text
    assert SECRET not in caplog.text


@pytest.fixture(params=["sqlite", "postgresql"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    """An App over a store without tables."""
    if request.param == "sqlite":
        app = App(request.getfixturevalue("sqlite_url"), name="shop")
    else:
        url = request.getfixturevalue("postgres_url")
        app = App(url, schema=request.getfixturevalue("schema"), name="shop")

    @app.job()
    def report(run: Run) -> None: ...

    yield app
    app.close()


@pytest.mark.parametrize("what", ["start", "enqueue", "check", "find"])
def test_a_store_without_tables_says_what_to_run(app: App, what: str) -> None:
    """A07: one clear message."""
    calls: dict[str, Any] = {
        "start": app.start,
        "enqueue": app.jobs["report"].enqueue,
        "check": app.check,
        "find": app.runs.find,
    }

    with pytest.raises(SchemaMismatch, match="Run: onejob init"):
        calls[what]()


def test_a_newer_schema_is_refused_before_anything_is_written(
    app: App, request: pytest.FixtureRequest
) -> None:
    """F18: an older release doesn't guess what a newer one's tables mean."""
    store: Any = app.store
    store.init()
    if store.dialect == "sqlite":
        with store.transaction(longest=1_000_000) as connection:
            connection.execute("INSERT INTO onejob_migration (version) VALUES (9999)")
    else:
        with psycopg.connect(request.getfixturevalue("postgres_url"), autocommit=True) as session:
            table = sql.Identifier(store.catalogue.schema, "migration")
            session.execute(sql.SQL("INSERT INTO {} (version) VALUES (9999)").format(table))

    for refused in (app.start, app.check, store.init):
        with pytest.raises(OnejobError, match=r"newer than the \d+ that this release knows"):
            refused()
    assert not app.status().running
