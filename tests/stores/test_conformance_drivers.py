"""The suite over connections of the caller's, for what may run within a transaction of theirs.

Two drivers differ most from the store's own: asyncpg encodes each parameter for the type that the
server infers, psycopg2 writes them into the text. What holds for both holds for what is built on
them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg2
import pytest

from onejob.adapters import adapt, adapt_any
from onejob.commands.command import Command
from onejob.stores.postgres import PostgresStore
from onejob.stores.threaded import ThreadedStore
from onejob.testing import conformance
from onejob.testing.conformance import effects, enqueue, fence, ledger, settle
from onejob.testing.conformance.given import Run

#: Enqueueing, fences with completion, ledger entries and effects.
WITHIN = (enqueue, settle, fence, ledger, effects)

globals().update(
    {
        name: test
        for name, test in conformance.tests("run").items()
        if any(getattr(subject, name, None) is test for subject in WITHIN)
    }
)


def test_every_text_has_types_that_a_driver_can_encode_for(
    over_asyncpg: tuple[asyncio.Runner, Any], postgres_store: PostgresStore
) -> None:
    """A parameter is text or an integer to us, so it must be to the server, wherever it stands."""
    runner, connection = over_asyncpg

    async def types(text: str) -> set[str]:
        return {kind.name for kind in (await connection.prepare(text)).get_parameters()}

    found = {
        name: runner.run(types(step.text))
        for name in postgres_store.catalogue.names()
        for step in postgres_store.catalogue.steps(name, "typed")
    }

    assert {name: kinds for name, kinds in found.items() if kinds - {"text", "int8", "int4"}} == {}
    assert len(found) > 40


@pytest.fixture(scope="module")
def over_asyncpg(postgres_url: str) -> Iterator[tuple[asyncio.Runner, Any]]:
    """A connection whose user has JSON decoded and encoded by Python's own, as many have."""

    async def connect() -> Any:
        connection = await asyncpg.connect(postgres_url)
        for kind in ("json", "jsonb"):
            await connection.set_type_codec(
                kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
            )
        return connection

    with asyncio.Runner() as runner:
        connection = runner.run(connect())
        yield runner, connection
        runner.run(connection.close())


@pytest.fixture(scope="module")
def over_psycopg2(postgres_url: str) -> Iterator[Any]:
    connection = psycopg2.connect(postgres_url)
    yield connection
    connection.close()


@pytest.fixture(params=["asyncpg", "psycopg2"])
def run(request: pytest.FixtureRequest, postgres_store: PostgresStore) -> Iterator[Run]:
    if request.param == "psycopg2":
        connection: Any = request.getfixturevalue("over_psycopg2")

        def through(command: Command[Any]) -> Any:
            with connection:
                return postgres_store.run(command, adapt(connection, dialect="postgresql"))

        yield through
        return
    runner, connection = request.getfixturevalue("over_asyncpg")
    astore = ThreadedStore(postgres_store, threads=1)

    async def athrough(command: Command[Any]) -> Any:
        async with connection.transaction():
            return await astore.run(command, adapt_any(connection, dialect="postgresql"))

    yield lambda command: runner.run(athrough(command))
    astore.close()
