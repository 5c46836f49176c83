"""Payloads at their limit, and notifications that carry none."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from onejob import App, UsageError
from onejob.commands import replicas
from onejob.core.payload import PAYLOAD_BYTES_MAX

#: What is around the text in ``{"text":"…"}``.
FRAME = len('{"text":""}')
FOUR_BYTES = "\N{SLEEPING SYMBOL}"


@pytest.fixture(params=["sqlite", "postgresql"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    if request.param == "sqlite":
        app = App(request.getfixturevalue("sqlite_url"), name="shop")
    else:
        url = request.getfixturevalue("postgres_url")
        app = App(url, schema=request.getfixturevalue("schema"), name="shop")
    app.store.init()  # type: ignore[attr-defined]  # every store in a database has it

    @app.job()
    def keep(text: str) -> None: ...

    yield app
    app.close()


@pytest.mark.parametrize("character", ["x", FOUR_BYTES], ids=["one byte", "four bytes"])
def test_a_payload_is_measured_in_bytes_at_its_limit_and_one_beyond(
    app: App, character: str
) -> None:
    """F07, F17: at the limit it is kept whole; a byte more is refused before any I/O."""
    most, rest = divmod(PAYLOAD_BYTES_MAX - FRAME, len(character.encode()))
    text = character * most + "y" * rest

    kept = app.jobs["keep"].enqueue(text)
    with pytest.raises(UsageError, match="the limit is 1,000,000"):
        app.jobs["keep"].enqueue(text + "y")

    assert [run.id for run in app.runs.find()] == [kept.run_id]


def test_a_notification_carries_no_payload_however_large_the_run(
    postgres_url: str, schema: str
) -> None:
    """F06: a NOTIFY of over 8,000 bytes would make the user's own transaction fail."""
    app = App(postgres_url, schema=schema, name="shop")
    app.store.init()  # type: ignore[attr-defined]  # every store in a database has it

    @app.job()
    def keep(text: str) -> None: ...

    new = replicas.NewReplica("a" * 12, "shop", "here", 1, "", ["keep"], {}, 60_000_000)  # type: ignore[arg-type]
    app.store.run(replicas.join(new))
    with psycopg.connect(postgres_url, autocommit=True) as session:
        channel = app.store.catalogue.prefix  # type: ignore[attr-defined]  # a store of texts
        session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        keep.enqueue("busy" * 200_000)
        quiet = list(session.notifies(timeout=0.3))
        app.store.run(replicas.idle(new.id, idle=True))
        keep.enqueue("idle" * 200_000)
        [told] = session.notifies(timeout=5, stop_after=1)
    app.close()

    assert quiet == []
    assert len(told.payload) <= 64
