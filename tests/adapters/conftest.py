"""One store of each kind for all tests of this folder, and a session of each driver on it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import psycopg
import pytest

from adapters.drivers import EVERY, SQLITE, Session, opened
from onejob import App, AsyncRun, Run
from onejob.commands import replicas, runs
from onejob.core.run import ReplicaId
from onejob.core.time import DAY
from onejob.core.watermark import full_probes
from onejob.runtime.attempt import Attempt
from onejob.runtime.clock import SystemClock
from onejob.runtime.membership import Membership


@dataclass(frozen=True, slots=True)
class Shop:
    """An App with its tables installed, and a table of its own beside them."""

    app: App
    url: str
    table: str

    def job(self) -> Any:
        """A job that no other test uses."""

        @self.app.job(name=f"resize-{secrets.token_hex(4)}")
        def resize(image_id: int) -> None: ...

        return resize

    def begun(self, job: Any, colour: str) -> Any:
        """Enqueue a run, claim it as a new replica would, and return its Run (or AsyncRun)."""
        run = AsyncRun if colour == "async" else Run
        job.enqueue(1)
        store, id = self.app.store, ReplicaId(uuid4().hex[:12])
        new = replicas.NewReplica(id, "shop", "here", 1, "", [job.name], {}, 60_000_000)
        assert store.run(replicas.join(new))
        probes = full_probes(["default"])
        [claimed] = store.run(runs.claim(probes, jobs=[job.name], replica=id, limit=1))
        clock = SystemClock()
        member = Membership(id, clock.now() + DAY, punctual_since=clock.now())
        services = self.app._services()
        return run(Attempt(claimed, member, clock), services, args={}, tz=ZoneInfo("UTC"))

    def rows(self, note: str) -> int:
        """Return how many rows of the caller's own were committed."""
        with self.app.store.transaction(longest=5_000_000) as tx:  # type: ignore[arg-type]
            text = f"SELECT count(*) FROM {self.table} WHERE note = '{note}'"
            return int(tx.execute(text).fetchone()[0])


@pytest.fixture(scope="module")
def postgres_shop(postgres_url: str) -> Iterator[Shop]:
    schema = f"t_{secrets.token_hex(6)}"
    app = App(postgres_url, schema=schema, name="shop", lease="60s")
    yield installed(app, postgres_url, f'"{schema}".mine')
    app.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE')


@pytest.fixture(scope="module")
def sqlite_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    path: Path = tmp_path_factory.mktemp("shop") / "onejob.db"
    app = App(f"sqlite:///{path}", name="shop", lease="60s")
    yield installed(app, f"sqlite:///{path}", "mine")
    app.close()


def installed(app: App, url: str, table: str) -> Shop:
    store: Any = app.store
    store.init()
    with store.transaction(longest=5_000_000) as tx:
        tx.execute(f"CREATE TABLE {table} (note TEXT)")
    return Shop(app, url, table)


@pytest.fixture(params=EVERY)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(request: pytest.FixtureRequest, driver: str) -> Shop:
    """The App on a store that this driver can reach."""
    name = "sqlite_shop" if driver in SQLITE else "postgres_shop"
    found: Shop = request.getfixturevalue(name)
    return found


@pytest.fixture
def session(driver: str, shop: Shop) -> Iterator[Session]:
    with opened(driver, shop.url) as session:
        yield session
